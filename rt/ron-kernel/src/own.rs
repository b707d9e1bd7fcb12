//! What the kernel itself runs, declared like any service.

use std::time::Duration;

use crate::{
    blocking::BLOCKING_WAITERS,
    bus::BUS_CAPACITY,
    readiness::Effect,
    topology::{
        ChildSpec, Escalation, LockSpec, Plane, Policy, QueueSpec, Restart, Stage, TaskSpec, TimeoutSpec,
        Topology,
    },
};

pub(crate) const METRICS_TICK: QueueSpec = QueueSpec {
    name: "metrics_tick",
    capacity: 64,
    policy: Policy::RejectNew,
    from: "conductor",
    to: "prober",
    doc: "four ticks a second; a full queue means that the control plane does not run",
};

pub(crate) const BLOCKING: QueueSpec = QueueSpec {
    name: "blocking",
    capacity: BLOCKING_WAITERS,
    policy: Policy::RejectNew,
    from: "any task",
    to: "blocking pool",
    doc: "callers waiting for a thread of the blocking pool",
};

const EVENTS: QueueSpec = QueueSpec {
    name: "events",
    capacity: BUS_CAPACITY,
    policy: Policy::Broadcast,
    from: "any task",
    to: "subscribers",
    doc: "kernel events; slow subscribers lose the oldest and are told how many",
};

const SHUTDOWN: QueueSpec = QueueSpec {
    name: "shutdown",
    capacity: 1,
    policy: Policy::Watch,
    from: "conductor",
    to: "every task",
    doc: "the phase of the node, which only moves forward",
};

pub(crate) const PROBER: TaskSpec = TaskSpec {
    name: "prober",
    plane: Plane::Control,
    restart: Restart::usual(Escalation::Degrade(Effect::Report)),
    stop: Stage::Support,
    doc: "samples queue depths and requests in flight, and lets settled conditions clear",
};

pub(crate) const HOUSEKEEPING: TaskSpec = TaskSpec {
    name: "housekeeping",
    plane: Plane::Control,
    restart: Restart::usual(Escalation::Degrade(Effect::Report)),
    stop: Stage::Intake,
    doc: "every ten seconds removes stale state: metrics of removed routes, and what services register",
};

pub(crate) const CONFIG_WATCHER: TaskSpec = TaskSpec {
    name: "config_watcher",
    plane: Plane::Control,
    restart: Restart::usual(Escalation::Degrade(Effect::Report)),
    stop: Stage::Intake,
    doc: "re-reads the configuration on SIGHUP and when the file changes; applies it whole or not at all",
};

pub(crate) const HEARTBEAT: ChildSpec = ChildSpec {
    kind: "heartbeat",
    plane: Plane::Data,
    stop: Stage::Readiness,
    bound: "one per core and one for the control plane",
    doc: "a heartbeat four times a second, until everything else has stopped",
};

// Ranked above what services declare, because a service may raise a condition while it holds a lock of its own.

pub(crate) const LOST: LockSpec = LockSpec {
    name: "supervisor_lost",
    rank: 200,
    doc: "tasks that are being restarted; held while readiness is updated, so that the last update is about the last change",
};

pub(crate) const GIVEN_UP: LockSpec = LockSpec {
    name: "supervisor_given_up",
    rank: 210,
    doc: "tasks that were given up; held while readiness is updated, for the same reason",
};

pub(crate) const SERVICES: LockSpec = LockSpec {
    name: "readiness_services",
    rank: 220,
    doc: "the services that have conditions; held to look one up",
};

pub(crate) const CONDITIONS: LockSpec = LockSpec {
    name: "readiness_conditions",
    rank: 230,
    doc: "one service's conditions and their folded effect, which change together",
};

/// The kernel's own topology.
pub static TOPOLOGY: Topology = Topology {
    service: "kernel",
    purpose: "The runtime that every service is built on: planes, supervision, shutdown, readiness, configuration.",
    last_reviewed: "2026-11-15",
    invariants: &[
        "Only the supervisor starts tasks; each has a name, an owner, a restart policy and a stop stage.",
        "Every queue is bounded and declares what it does when it is full.",
        "Phases only move forward: running, draining stage by stage, aborting, stopped.",
        "The conducting thread runs no service code, so no service can keep the process from ending.",
        "A configuration is applied whole or not at all.",
        "No lock is held across an await; ranks are asserted in debug builds.",
        "No `Drop` blocks; what needs an orderly end has an async `close`.",
    ],
    tasks: &[PROBER, HOUSEKEEPING, CONFIG_WATCHER],
    children: &[HEARTBEAT],
    queues: &[METRICS_TICK, BLOCKING, EVENTS, SHUTDOWN],
    locks: &[LOST, GIVEN_UP, SERVICES, CONDITIONS],
    timeouts: &[
        TimeoutSpec {
            name: "node.drain_deadline",
            default: Duration::from_secs(3),
            doc: "from the start of a shutdown until everything that still runs is aborted and named",
        },
        TimeoutSpec {
            name: "node.upgrade_deadline",
            default: Duration::from_secs(30),
            doc: "the drain deadline of the old process after an upgrade, if it is longer",
        },
        TimeoutSpec {
            name: "node.drain_idle",
            default: Duration::from_secs(1),
            doc: "how long a drain keeps idle connections open for their next request",
        },
        TimeoutSpec {
            name: "heartbeat",
            default: Duration::from_secs(1),
            doc: "silence after which a runtime is named and the node reports itself down",
        },
    ],
    metrics: &[],
    trade_offs: &[
        "Children have no join handle: a count per kind is enough to drain and to name them, at a tenth of the cost.",
        "Conditions are raised at once and cleared late: a short false alarm is better than a node that flaps.",
        "A blocked runtime cannot be aborted from outside; it is named, and the process exits without waiting for it.",
        "Each service first prepares a new configuration and then puts it into force; it is not announced on a \
         channel. So a configuration that one service cannot prepare is refused as a whole.",
    ],
};
