//! Locks as services make them: declared, and in debug builds never held across an await, however a future is run.

use ron_kernel::topology::{LockSpec, Topology};

use crate::support::{kernel_here, topology};

const STATE: LockSpec = LockSpec { name: "state", rank: 1, doc: "" };
const UNDECLARED: LockSpec = LockSpec { name: "undeclared", rank: 2, doc: "" };

static LOCKS: Topology = Topology { locks: &[STATE], ..topology(&[], &[], &[]) };

#[tokio::test]
async fn a_declared_lock_is_made_and_protects_its_value() {
    let scope = kernel_here().scope(&LOCKS);
    let lock = scope.lock(&STATE, 1);
    *lock.lock() += 1;
    assert_eq!(*lock.lock(), 2);
}

#[tokio::test]
#[should_panic(expected = "declares no lock `undeclared`")]
async fn a_lock_that_is_not_declared_cannot_be_made() {
    let _ = kernel_here().scope(&LOCKS).lock(&UNDECLARED, ());
}

/// What only debug builds check.
#[cfg(debug_assertions)]
mod in_debug_builds {
    use std::{cell::RefCell, sync::OnceLock};

    use ron_kernel::{
        ExitCode,
        lock::{Ranked, RankedGuard, held},
        planes::RuntimeMode,
        readiness::Effect,
        supervisor::TaskResult,
        topology::{ChildSpec, Escalation, Plane, Restart, Stage, TaskSpec},
    };

    use super::*;
    use crate::support::{PATIENCE, child, conduct, kernel, stop, task, until};

    const ONCE: Restart = Restart::Never(Escalation::Degrade(Effect::Report));
    const TASK: TaskSpec = task("task", ONCE, Stage::Workers);
    const PER_CORE: TaskSpec = TaskSpec { plane: Plane::Data, ..task("per_core", ONCE, Stage::Workers) };
    const POOL: TaskSpec = task("pool", ONCE, Stage::Workers);
    const CHILD: ChildSpec = child("child", Stage::Workers);
    const CHILD_ON: ChildSpec = child("child_on", Stage::Workers);

    static TOPOLOGY: Topology =
        Topology { locks: &[STATE], ..topology(&[TASK, PER_CORE, POOL], &[CHILD, CHILD_ON], &[]) };
    static LOCK: OnceLock<Ranked<()>> = OnceLock::new();

    thread_local! {
        static GUARD: RefCell<Option<RankedGuard<'static, ()>>> = const { RefCell::new(None) };
    }

    /// Releases the lock when the future that holds it is dropped.
    struct Held;

    impl Drop for Held {
        fn drop(&mut self) {
            GUARD.take();
        }
    }

    /// Holds a lock across an await, around the compiler, which would not let the guard stay in the future.
    async fn waits_under_a_lock() {
        GUARD.set(LOCK.get().map(Ranked::lock));
        let _held = Held;
        std::future::pending::<()>().await;
    }

    async fn fails_under_a_lock() -> TaskResult {
        waits_under_a_lock().await;
        Ok(())
    }

    #[tokio::test]
    async fn an_await_under_a_lock_is_caught_in_every_form_of_task_and_child() {
        let kernel = kernel(RuntimeMode::Current, PATIENCE);
        let scope = kernel.scope(&TOPOLOGY);
        LOCK.set(scope.lock(&STATE, ())).unwrap();
        let conductor = conduct(kernel);
        scope.task(&TASK, |_| fails_under_a_lock());
        scope.task_per_core(&PER_CORE, |_, _| fails_under_a_lock());
        scope.pool(&POOL, 2, |_| fails_under_a_lock());
        scope.children(&CHILD).spawn(waits_under_a_lock());
        scope.children(&CHILD_ON).spawn_on(&scope.planes().cores()[0], waits_under_a_lock());
        let panicked = |kind| scope.metrics().tasks(kind).panicked.get();
        for (kind, times) in [("task", 1), ("per_core", 1), ("pool", 2), ("child", 1), ("child_on", 1)] {
            until(|| panicked(kind) == times).await;
        }
        assert_eq!(held(), 0);
        assert_eq!(stop(&scope, conductor).await.code, ExitCode::Clean);
    }
}
