//! What a service is made of, declared as constants in its `topology.rs`.
//!
//! The declarations are the single source for constructors, metrics, `/topology`, and the generated pages under
//! `docs/concurrency/`. A task or queue that is not declared cannot be made: [`crate::Scope`] refuses it.

use std::time::Duration;

use crate::readiness::Effect;
pub use ron_sync::phase::Stage;

/// Everything one service declares.
#[derive(Debug)]
pub struct Topology {
    /// The service's short name: the `service` label of its metrics and its config table.
    pub service: &'static str,
    /// One sentence: what it is for.
    pub purpose: &'static str,
    /// When a person last compared this declaration with the code, as `YYYY-MM-DD`.
    pub last_reviewed: &'static str,
    /// What always holds, one sentence each.
    pub invariants: &'static [&'static str],
    /// Long-lived tasks, restarted when they fail.
    pub tasks: &'static [TaskSpec],
    /// Short-lived children, counted by kind.
    pub children: &'static [ChildSpec],
    /// The bounded queues of the service.
    pub queues: &'static [QueueSpec],
    /// Locks, in the order in which they may be nested.
    pub locks: &'static [LockSpec],
    /// Timeouts and their defaults.
    pub timeouts: &'static [TimeoutSpec],
    /// Metrics beyond the shared ones.
    pub metrics: &'static [MetricSpec],
    /// What was traded for what, one sentence each.
    pub trade_offs: &'static [&'static str],
}

/// The runtime that a task runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plane {
    /// The multi-threaded runtime beside the request path.
    Control,
    /// One single-threaded runtime per core, on the request path.
    Data,
}

/// A long-lived, supervised task.
#[derive(Debug)]
pub struct TaskSpec {
    /// Its name, unique in the service.
    pub name: &'static str,
    /// The runtime that the task runs on.
    pub plane: Plane,
    /// What happens when the task fails.
    pub restart: Restart,
    /// The shutdown stage that tells it to stop.
    pub stop: Stage,
    /// The purpose of the task, for the generated pages.
    pub doc: &'static str,
}

/// A kind of short-lived task: a connection, a stream.
#[derive(Debug)]
pub struct ChildSpec {
    /// The kind: the `kind` label of the task metrics.
    pub kind: &'static str,
    /// The runtime that the task runs on.
    pub plane: Plane,
    /// The shutdown stage that waits for it.
    pub stop: Stage,
    /// What bounds how many there are.
    pub bound: &'static str,
    /// The purpose of the task, for the generated pages.
    pub doc: &'static str,
}

/// What the supervisor does when a task fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// Runs once. A failure is reported and escalated at once.
    Never(Escalation),
    /// Restarted with jittered backoff, at most `per_minute` times in any minute, then escalated.
    OnFailure {
        /// First wait; doubles each time.
        base: Duration,
        /// The longest delay between two tries.
        cap: Duration,
        /// Restarts allowed in any minute.
        per_minute: u32,
        /// What follows when that is not enough.
        then: Escalation,
    },
}

impl Restart {
    /// The usual policy: 100 ms doubling to 5 s, five a minute.
    #[must_use]
    pub const fn usual(then: Escalation) -> Self {
        Self::OnFailure { base: Duration::from_millis(100), cap: Duration::from_secs(5), per_minute: 5, then }
    }

    /// What follows when the task is given up.
    #[must_use]
    pub const fn escalation(self) -> Escalation {
        match self {
            Self::Never(then) | Self::OnFailure { then, .. } => then,
        }
    }
}

/// What follows when a task is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escalation {
    /// The service goes on without it; readiness tells, with this effect.
    Degrade(Effect),
    /// The node cannot be trusted without it: it drains and exits.
    FailClosed,
}

/// The declaration of a bounded queue.
#[derive(Debug)]
pub struct QueueSpec {
    /// Its name, unique in the service: the `queue` label.
    pub name: &'static str,
    /// The maximum number of queued items.
    pub capacity: usize,
    /// What happens to a new item when the queue is full.
    pub policy: Policy,
    /// The tasks that put items in.
    pub from: &'static str,
    /// The task that takes items out.
    pub to: &'static str,
    /// The content of the queue, for the generated pages.
    pub doc: &'static str,
}

/// What a full queue does with one more item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Refuses it at once with a typed `Busy`.
    RejectNew,
    /// Takes it and returns the oldest item to its owner.
    DropOldest,
    /// Waits once, between these two, and tries again.
    RetryOnce {
        /// The shortest delay before the second try.
        min: Duration,
        /// The longest delay before the second try.
        max: Duration,
    },
    /// Waits for room, at most this long.
    Await {
        /// The longest wait for room in the queue.
        deadline: Duration,
    },
    /// Every subscriber has its own place; one that falls behind loses the oldest and is told how many.
    Broadcast,
    /// Holds only the newest value.
    Watch,
}

/// A lock and its place in the nesting order.
#[derive(Clone, Copy, Debug)]
pub struct LockSpec {
    /// The name of the lock.
    pub name: &'static str,
    /// A lock may be taken while holding only locks of lower rank.
    pub rank: u8,
    /// What it protects, and why a lock is right for it.
    pub doc: &'static str,
}

/// A timeout and its default.
#[derive(Clone, Copy, Debug)]
pub struct TimeoutSpec {
    /// Its name: the config key where it has one.
    pub name: &'static str,
    /// The value without configuration.
    pub default: Duration,
    /// What it covers, and what happens when it passes.
    pub doc: &'static str,
}

/// A metric beyond the shared families.
#[derive(Clone, Copy, Debug)]
pub struct MetricSpec {
    /// The exposed name of the metric.
    pub name: &'static str,
    /// Its labels, comma-separated; empty for none.
    pub labels: &'static str,
    /// What the metric counts, for the generated pages.
    pub doc: &'static str,
}

impl Topology {
    /// The declared task of that name.
    #[must_use]
    pub fn task(&self, name: &str) -> Option<&'static TaskSpec> {
        self.tasks.iter().find(|t| t.name == name)
    }
}

/// `shared` followed by `own`, as a constant: what several services declare alike is listed once. `N` is the sum of their
/// lengths.
///
/// # Panics
/// While compiling, if `N` is another number.
#[must_use]
pub const fn joined<T: Copy, const N: usize>(shared: &[T], own: &[T]) -> [T; N] {
    assert!(shared.len() + own.len() == N, "N is not the sum of the lengths");
    let mut all = [shared[0]; N];
    let mut at = 0;
    while at < N {
        all[at] = if at < shared.len() { shared[at] } else { own[at - shared.len()] };
        at += 1;
    }
    all
}
