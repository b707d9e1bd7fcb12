//! The keeper of one supervised task: starts it, waits for it, restarts it, gives it up.

use std::{any::Any, fmt, panic::AssertUnwindSafe, pin::Pin, sync::Arc, time::Duration};

use ron_sync::phase::{Phase, Reached};
use tokio::{runtime::Handle, task::JoinError};

use super::{Supervisor, TaskState, effect_of_loss, lost_condition, restart::RestartBudget};
use crate::{
    Scope,
    bus::KernelEvent,
    lock::NoLockAcrossAwait,
    readiness::{Condition, Effect},
    topology::{Escalation, TaskSpec},
};

/// The result of a supervised task.
pub type TaskResult = Result<(), TaskFault>;

/// The reason why a supervised task failed.
#[derive(Debug)]
pub struct TaskFault(String);

impl TaskFault {
    /// A fault, in words.
    pub fn new(what: impl fmt::Display) -> Self {
        Self(what.to_string())
    }
}

impl fmt::Display for TaskFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a supervised task gets to work with.
#[derive(Clone, Debug)]
pub struct TaskCtx {
    /// The scope of the service.
    pub scope: Scope,
    /// Number of restarts so far.
    pub restarts: u32,
    spec: &'static TaskSpec,
}

impl TaskCtx {
    /// Resolves when the task is to stop taking on work and finish.
    ///
    /// Cancel safe.
    pub async fn stopping(&self) {
        self.stop().await;
    }

    /// The same as a future of its own type.
    pub(crate) fn stop(&self) -> Reached {
        self.scope.shutdown().stage(self.spec.stop)
    }

    /// Calls `work` every `period`, the first time after one, until the task is to stop. It must not block; whatever time
    /// it takes is added to the period.
    ///
    /// Cancel safe: `work` is not interrupted.
    ///
    /// # Errors
    /// None; a task may end with it.
    pub async fn every(&self, period: Duration, mut work: impl FnMut()) -> TaskResult {
        let clock = self.scope.clock();
        while clock.by(clock.within(period), self.stopping()).await.is_none() {
            work();
        }
        Ok(())
    }
}

impl Supervisor {
    /// Starts a supervised task on `runtime`. `name` is the declared name, with a number if there are several.
    #[expect(clippy::disallowed_methods, reason = "the supervisor is where tasks are started")]
    pub(crate) fn start<F, Fut>(
        &self,
        scope: Scope,
        spec: &'static TaskSpec,
        name: String,
        runtime: Handle,
        run: F,
    ) where
        F: Fn(TaskCtx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = TaskResult> + Send + 'static,
    {
        self.register(&scope, spec, &name);
        let control = scope.control().clone();
        let keeper = Keeper { supervisor: self.clone(), scope, spec, name, runtime };
        control.spawn(keeper.keep(Arc::new(move |ctx| Box::pin(run(ctx)))));
    }
}

/// A supervised task: a function that starts one life of it. Boxed, so that the keeper and the runtime's task are compiled once and
/// not for each task.
type Run = Arc<dyn Fn(TaskCtx) -> Pin<Box<dyn Future<Output = TaskResult> + Send>> + Send + Sync>;

struct Keeper {
    supervisor: Supervisor,
    scope: Scope,
    spec: &'static TaskSpec,
    name: String,
    runtime: Handle,
}

impl Keeper {
    async fn keep(self, run: Run) {
        let clock = self.scope.clock();
        let lost = lost_condition(&self.scope);
        let mut budget = RestartBudget::new(self.spec.restart);
        let mut restarts = 0;
        loop {
            let Err(fault) = self.run_once(&run, restarts).await else {
                return self.finish();
            };
            if self.is_stopping() {
                return self.end_early(&fault);
            }
            self.supervisor.set_lost(&self.scope, &self.name, Some(effect_of_loss(self.spec)), &lost);
            let Some(wait) = budget.next(clock.now(), fastrand::u64(..)) else {
                return self.give_up(&fault, restarts, &lost);
            };
            restarts += 1;
            self.report(fault, restarts, wait);
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.scope.shutdown().reached(self.spec.stop) => return self.finish(),
            }
            self.supervisor.set_lost(&self.scope, &self.name, None, &lost);
        }
    }

    /// One life of the task; a panic or a kill is a fault like any other.
    #[expect(clippy::disallowed_methods, reason = "the supervisor is where tasks are started")]
    async fn run_once(&self, run: &Run, restarts: u32) -> TaskResult {
        let ctx = TaskCtx { scope: self.scope.clone(), restarts, spec: self.spec };
        let run = Arc::clone(run);
        let metrics = self.scope.metrics().tasks(self.spec.name);
        metrics.spawned.inc();
        let task = self.runtime.spawn(NoLockAcrossAwait::new(async move { run(ctx).await }));
        let abort = task.abort_handle();
        self.supervisor.update(self.scope.service(), &self.name, |entry| {
            entry.state = TaskState::Running;
            entry.abort = Some(abort);
        });
        match task.await {
            Ok(result) => result,
            Err(error) => {
                if error.is_panic() {
                    metrics.panicked.inc();
                }
                Err(TaskFault(describe(error)))
            }
        }
    }

    fn report(&self, fault: TaskFault, restarts: u32, wait: Duration) {
        let task = format!("{}/{}", self.scope.service(), self.name);
        tracing::warn!(task, %fault, restarts, wait_ms = wait.as_millis(), "a task failed and will be restarted");
        self.scope.metrics().restarts(self.spec.name).inc();
        self.supervisor.update(self.scope.service(), &self.name, |entry| {
            entry.state = TaskState::BackingOff;
            entry.restarts = restarts;
        });
        self.scope.bus().publish(KernelEvent::TaskFailed { task, fault: fault.0, restarts });
    }

    /// The task failed when it was to stop anyway: nothing is restarted, but the fault is not hushed up.
    fn end_early(&self, fault: &TaskFault) {
        // Those that the conductor aborts are named by it.
        if self.scope.shutdown().phase() < Phase::Aborting {
            let task = format!("{}/{}", self.scope.service(), self.name);
            tracing::warn!(task, %fault, "a task failed while it was stopping");
        }
        self.finish();
    }

    fn finish(&self) {
        self.supervisor.finish(self.scope.service(), &self.name, self.is_stopping());
    }

    fn is_stopping(&self) -> bool {
        self.scope.shutdown().phase() >= Phase::Draining(self.spec.stop)
    }

    fn give_up(&self, fault: &TaskFault, restarts: u32, lost: &Condition) {
        let task = format!("{}/{}", self.scope.service(), self.name);
        tracing::error!(task, %fault, restarts, "a task failed too often and was given up");
        self.supervisor.update(self.scope.service(), &self.name, |entry| {
            entry.state = TaskState::GivenUp;
        });
        let escalation = self.spec.restart.escalation();
        let effect = match escalation {
            Escalation::Degrade(effect) => effect,
            Escalation::FailClosed => Effect::Down,
        };
        // First the one, then the other, so that readiness shows no gap.
        self.supervisor.set_given_up(&self.scope, &self.name, effect, fault);
        self.supervisor.set_lost(&self.scope, &self.name, None, lost);
        if escalation == Escalation::FailClosed {
            self.scope.fail(format!("{task} was given up: {fault}"));
        }
        self.scope.bus().publish(KernelEvent::TaskGivenUp { task });
    }
}

/// A panic's message, or that the task was killed.
fn describe(error: JoinError) -> String {
    if error.is_cancelled() {
        return "killed".to_owned();
    }
    let payload = AssertUnwindSafe(error.into_panic());
    panic_message(&*payload.0)
}

/// The text of a panic payload.
pub(crate) fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    format!("panicked: {}", text.unwrap_or("(no message)"))
}
