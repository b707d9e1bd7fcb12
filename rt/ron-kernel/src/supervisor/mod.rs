//! The supervisor: the only place that starts tasks.
//!
//! Long-lived tasks are declared ([`crate::topology::TaskSpec`]), restarted within a budget and given up with a
//! consequence. Short-lived ones are counted children of a declared kind ([`Children`]). Either way the supervisor
//! knows at any time what is alive, at which stage it stops, and what to call it if it does not.

mod children;
mod crew;
mod keeper;
mod restart;

use std::{
    collections::BTreeMap,
    ops::RangeBounds,
    sync::{Arc, Mutex},
    time::Duration,
};

use ron_sync::phase::Stage;
use tokio::task::AbortHandle;

pub use children::Children;
pub use crew::{Crew, Lead};
pub(crate) use keeper::panic_message;
pub use keeper::{TaskCtx, TaskFault, TaskResult};

use crate::{
    InFlight, Scope,
    lock::{Ranked, lock},
    metrics::TaskMetrics,
    own,
    readiness::{Condition, Effect},
    topology::{ChildSpec, Escalation, TaskSpec},
};

/// How long a service must have all its tasks back before it says so.
const SETTLE: Duration = Duration::from_millis(200);

/// The state of a supervised task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// The task is running.
    Running,
    /// Failed, waiting to be restarted.
    BackingOff,
    /// Ended as it should.
    Done,
    /// The task failed too often and is not restarted.
    GivenUp,
}

impl TaskState {
    /// The name used in reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::BackingOff => "backing_off",
            Self::Done => "done",
            Self::GivenUp => "given_up",
        }
    }
}

/// A supervised task, as reported.
#[derive(Clone, Debug)]
pub struct TaskReport {
    /// The service that the task belongs to.
    pub service: &'static str,
    /// The task, with its number if there are several: `worker#2`.
    pub name: String,
    /// The current state of the task.
    pub state: TaskState,
    /// Number of restarts so far.
    pub restarts: u32,
}

/// Keeps track of everything that runs. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Supervisor(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    tasks: Mutex<BTreeMap<(&'static str, String), Entry>>,
    kinds: Mutex<BTreeMap<(&'static str, &'static str), Children>>,
    work: Mutex<BTreeMap<&'static str, InFlight>>,
    /// Tasks that are down, by service, and what that does.
    lost: Ranked<BTreeMap<&'static str, BTreeMap<String, Effect>>>,
    /// Tasks that were given up, by service.
    given_up: Ranked<BTreeMap<&'static str, GivenUp>>,
}

impl Default for Inner {
    fn default() -> Self {
        Self {
            tasks: Mutex::default(),
            kinds: Mutex::default(),
            work: Mutex::default(),
            lost: Ranked::new(&own::LOST, BTreeMap::new()),
            given_up: Ranked::new(&own::GIVEN_UP, BTreeMap::new()),
        }
    }
}

/// The tasks of a service that were given up: what that does, and why.
type GivenUp = BTreeMap<String, (Effect, String)>;

#[derive(Debug)]
struct Entry {
    stage: Stage,
    state: TaskState,
    restarts: u32,
    /// Taken by the conductor when it ends the task by force.
    abort: Option<AbortHandle>,
    metrics: TaskMetrics,
}

impl Supervisor {
    /// Returns a report on every supervised task.
    #[must_use]
    pub fn tasks(&self) -> Vec<TaskReport> {
        let tasks = lock(&self.0.tasks);
        let report = |((service, name), entry): (&(&'static str, String), &Entry)| TaskReport {
            service,
            name: name.clone(),
            state: entry.state,
            restarts: entry.restarts,
        };
        tasks.iter().map(report).collect()
    }

    /// Live children by service and kind.
    #[must_use]
    pub fn children(&self) -> Vec<(&'static str, &'static str, usize)> {
        lock(&self.0.kinds).iter().map(|((service, kind), c)| (*service, *kind, c.live())).collect()
    }

    /// Ends a task as a crash would, for chaos tests. Returns whether it was running.
    #[must_use]
    pub fn kill(&self, service: &str, name: &str) -> bool {
        let tasks = lock(&self.0.tasks);
        let found =
            tasks.iter().find(|((s, n), e)| *s == service && n == name && e.state == TaskState::Running);
        let abort = found.and_then(|(_, entry)| entry.abort.clone());
        abort.inspect(AbortHandle::abort).is_some()
    }

    /// How many tasks and children of these stages are alive, and work that `Workers` waits for.
    pub(crate) fn alive(&self, stages: impl RangeBounds<Stage>) -> usize {
        let is_alive = |e: &&Entry| stages.contains(&e.stage) && is_live(e.state);
        let tasks = lock(&self.0.tasks).values().filter(is_alive).count();
        let children: usize =
            lock(&self.0.kinds).values().filter(|c| stages.contains(&c.stage())).map(Children::live).sum();
        let work: usize = if stages.contains(&Stage::Workers) {
            lock(&self.0.work).values().map(InFlight::count).sum()
        } else {
            0
        };
        tasks + children + work
    }

    /// Ends every task that is still alive and names it; children are named by kind and end with their runtime.
    pub(crate) fn abort_all(&self) -> Vec<String> {
        let mut names = Vec::new();
        for ((service, name), entry) in lock(&self.0.tasks).iter_mut().filter(|(_, e)| is_live(e.state)) {
            names.push(format!("{service}/{name}"));
            entry.metrics.aborted.inc();
            entry.abort.take().iter().for_each(AbortHandle::abort);
        }
        for ((service, kind), children) in lock(&self.0.kinds).iter().filter(|(_, c)| c.live() > 0) {
            names.push(format!("{service}/{kind} × {}", children.live()));
            children.count_aborted();
        }
        // Its holders are tasks and children, counted above; but a drain that waited for it in vain must say so.
        for (service, work) in lock(&self.0.work).iter().filter(|(_, w)| w.count() > 0) {
            names.push(format!("{service}/in flight × {}", work.count()));
        }
        names
    }

    /// Work in flight that the `Workers` stage of a drain waits for.
    pub(crate) fn work(&self, service: &'static str) -> InFlight {
        lock(&self.0.work).entry(service).or_default().clone()
    }

    /// The children of a declared kind; the same for every caller.
    pub(crate) fn kind(&self, scope: &Scope, spec: &'static ChildSpec) -> Children {
        let service = scope.service();
        let mut kinds = lock(&self.0.kinds);
        kinds
            .entry((service, spec.kind))
            .or_insert_with(|| Children::new(scope.metrics().tasks(spec.kind), spec))
            .clone()
    }

    fn register(&self, scope: &Scope, spec: &'static TaskSpec, name: &str) {
        let entry = Entry {
            stage: spec.stop,
            state: TaskState::Running,
            restarts: 0,
            abort: None,
            metrics: scope.metrics().tasks(spec.name),
        };
        let before = lock(&self.0.tasks).insert((scope.service(), name.to_owned()), entry);
        // Two under one name could not be told apart, and a drain would wait for only one of them.
        assert!(!before.is_some_and(|e| is_live(e.state)), "`{}/{name}` is already running", scope.service());
    }

    fn update(&self, service: &'static str, name: &str, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = lock(&self.0.tasks).get_mut(&(service, name.to_owned())) {
            change(entry);
        }
    }

    /// Books a task as done; as canceled if that is because the node stops. Those that the conductor ended by force
    /// are counted by it.
    fn finish(&self, service: &'static str, name: &str, stopping: bool) {
        self.update(service, name, |entry| {
            entry.state = TaskState::Done;
            if stopping && entry.abort.is_some() {
                entry.metrics.canceled.inc();
            }
        });
    }

    /// Books a task as down with an effect, or as back, and lets the service's readiness tell, with the worst effect
    /// of all that are down. Told under the lock, so that the last word is about the last change.
    fn set_lost(&self, scope: &Scope, name: &str, down: Option<Effect>, condition: &Condition) {
        let mut all = self.0.lost.lock();
        let lost = all.entry(scope.service()).or_default();
        match down {
            Some(effect) => lost.insert(name.to_owned(), effect),
            None => lost.remove(name),
        };
        let Some(worst) = lost.values().max().copied() else {
            return condition.clear();
        };
        let names: Vec<&str> = lost.keys().map(String::as_str).collect();
        condition.raise_as(worst, format!("restarting {}", names.join(", ")));
    }

    /// Books a task as given up, and lets the service's readiness tell, with the worst effect of all of them.
    fn set_given_up(&self, scope: &Scope, name: &str, effect: Effect, fault: &TaskFault) {
        let condition =
            scope.readiness().condition(scope.service(), "task_given_up", Effect::Down, Duration::ZERO);
        let mut all = self.0.given_up.lock();
        let given_up = all.entry(scope.service()).or_default();
        given_up.insert(name.to_owned(), (effect, format!("{name} failed: {fault}")));
        let worst = given_up.values().map(|(effect, _)| *effect).max();
        let reasons: Vec<&str> = given_up.values().map(|(_, reason)| reason.as_str()).collect();
        condition.raise_as(worst.unwrap_or(effect), reasons.join("; "));
    }
}

/// The condition that stands while a service has lost capacity.
fn lost_condition(scope: &Scope) -> Condition {
    scope.readiness().condition(scope.service(), "lost_workers", Effect::ShedWrites, SETTLE)
}

/// What it does to readiness that a task is being restarted: never more than to be without it for good.
fn effect_of_loss(spec: &TaskSpec) -> Effect {
    match spec.restart.escalation() {
        Escalation::Degrade(Effect::ServiceDown) => Effect::ServiceDown,
        Escalation::Degrade(effect) => effect.min(Effect::ShedWrites),
        Escalation::FailClosed => Effect::ShedWrites,
    }
}

const fn is_live(state: TaskState) -> bool {
    matches!(state, TaskState::Running | TaskState::BackingOff)
}
