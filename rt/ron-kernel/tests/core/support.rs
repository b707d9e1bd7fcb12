//! What the tests share: short declarations, kernels, and waiting for things without sleeping.

use std::{
    num::NonZeroUsize,
    sync::{Arc, Condvar, Mutex},
    time::Duration,
};

use ron_kernel::{
    Exit, Kernel, Scope,
    bus::{KernelEvent, Subscription},
    planes::RuntimeMode,
    readiness::Effect,
    supervisor::TaskState,
    topology::{ChildSpec, Escalation, Plane, Policy, QueueSpec, Restart, Stage, TaskSpec, Topology},
};
use tokio::task::JoinHandle;

pub(crate) const SERVICE: &str = "svc";

/// Restarted as usual; readiness only reports when it is given up.
pub(crate) const USUAL: Restart = Restart::usual(Escalation::Degrade(Effect::Report));

pub(crate) const fn task(name: &'static str, restart: Restart, stop: Stage) -> TaskSpec {
    TaskSpec { name, plane: Plane::Control, restart, stop, doc: "" }
}

pub(crate) const fn child(kind: &'static str, stop: Stage) -> ChildSpec {
    ChildSpec { kind, plane: Plane::Data, stop, bound: "", doc: "" }
}

pub(crate) const fn queue(name: &'static str, capacity: usize, policy: Policy) -> QueueSpec {
    QueueSpec { name, capacity, policy, from: "", to: "", doc: "" }
}

pub(crate) const fn topology(
    tasks: &'static [TaskSpec],
    children: &'static [ChildSpec],
    queues: &'static [QueueSpec],
) -> Topology {
    Topology {
        service: SERVICE,
        purpose: "",
        last_reviewed: "",
        invariants: &[],
        tasks,
        children,
        queues,
        locks: &[],
        timeouts: &[],
        metrics: &[],
        trade_offs: &[],
    }
}

/// A kernel on the test's own runtime, whose clock the test may own.
pub(crate) fn kernel_here() -> Kernel {
    kernel(RuntimeMode::Current, Duration::from_secs(3))
}

pub(crate) fn kernel(mode: RuntimeMode, drain_deadline: Duration) -> Kernel {
    Kernel::builder("test")
        .runtime(mode)
        .cores(NonZeroUsize::new(2).unwrap())
        .drain_deadline(drain_deadline)
        .build()
        .unwrap()
}

/// Conducts a kernel beside the test.
pub(crate) fn conduct(kernel: Kernel) -> JoinHandle<Exit> {
    tokio::spawn(async { kernel.conduct().await.unwrap() })
}

/// Asks the node to stop and waits until it has.
pub(crate) async fn stop(scope: &Scope, conductor: JoinHandle<Exit>) -> Exit {
    scope.shutdown().request("the test is over");
    conductor.await.unwrap()
}

/// Waits for an event; fails the test if it does not come.
pub(crate) async fn wait_for(
    events: &mut Subscription,
    wanted: impl Fn(&KernelEvent) -> bool,
) -> KernelEvent {
    let search = async {
        loop {
            match events.next().await.expect("the bus is gone") {
                Ok(event) if wanted(&event) => return event,
                _ => {}
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(300), search).await.expect("the event did not come")
}

/// Longer than anything takes on a busy machine: only what hangs meets it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Tries a test about a short time up to five times: a machine that is busy with other things makes one late now and
/// then, but what is wrong is wrong each time.
pub(crate) async fn one_of_five<F>(test: impl Fn() -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    for _ in 1..5 {
        if tokio::spawn(test()).await.is_ok() {
            return;
        }
    }
    test().await;
}

/// Lets the runtime turn until `done`; fails the test if that takes too long.
pub(crate) async fn until(done: impl Fn() -> bool) {
    let turn = async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, turn).await.expect("it did not happen");
}

/// The state of a task and its restarts.
pub(crate) fn state(scope: &Scope, name: &str) -> (TaskState, u32) {
    let tasks = scope.supervisor().tasks();
    let task = tasks.iter().find(|t| t.service == SERVICE && t.name == name);
    task.map(|t| (t.state, t.restarts)).expect("a known task")
}

/// What stands against the test's service: names and effects.
pub(crate) fn standing(scope: &Scope) -> Vec<(&'static str, Effect)> {
    let standing = scope.readiness().standing(Some(SERVICE));
    standing.iter().map(|s| (s.name, s.effect)).collect()
}

/// A door that blocks threads until it is opened; opened at the latest when the test ends, so that no thread stays.
#[derive(Clone, Default)]
pub(crate) struct Door(Arc<(Mutex<bool>, Condvar)>);

impl Door {
    /// Blocks this thread.
    pub(crate) fn wait(&self) {
        let open = self.0.0.lock().unwrap();
        drop(self.0.1.wait_while(open, |open| !*open).unwrap());
    }

    pub(crate) fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    /// Opens the door when the test ends, however it ends.
    pub(crate) fn opened_at_the_end(&self) -> impl Drop + use<> {
        struct Opener(Door);
        impl Drop for Opener {
            fn drop(&mut self) {
                self.0.open();
            }
        }
        Opener(self.clone())
    }
}
