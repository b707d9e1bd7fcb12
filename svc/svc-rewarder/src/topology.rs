//! What the rewarder runs, declared.

use std::time::Duration;

use ron_kernel::{
    readiness::Effect,
    topology::{
        Escalation, LockSpec, Plane, Policy, QueueSpec, Restart, Stage, TaskSpec, TimeoutSpec, Topology,
        joined,
    },
};
use ron_transport::serve::{CONNECTION, H2_STREAM, LISTENER, TIMEOUTS};

use crate::metrics::METRICS;

/// Takes requests and the clock, sees to it that an epoch is computed once, and hands out the work.
pub(crate) const COMPUTE_SCHEDULER: TaskSpec = TaskSpec {
    name: "compute_scheduler",
    plane: Plane::Control,
    restart: Restart::usual(Escalation::Degrade(Effect::ServiceDown)),
    stop: Stage::Intake,
    doc: "closes the inputs of epochs that are over, and hands each epoch to one worker, by the clock and by request",
};

/// Works out who is paid what.
pub(crate) const WORKER: TaskSpec = TaskSpec {
    name: "worker",
    plane: Plane::Control,
    restart: Restart::usual(Escalation::Degrade(Effect::ServiceDown)),
    stop: Stage::Workers,
    doc: "checks the rows of an epoch and computes its payouts, on a thread of the blocking pool",
};

/// Writes it down.
pub(crate) const ARTIFACT_WRITER: TaskSpec = TaskSpec {
    name: "artifact_writer",
    plane: Plane::Control,
    restart: Restart::usual(Escalation::Degrade(Effect::ServiceDown)),
    stop: Stage::Writers,
    doc: "writes an epoch's files, and only then says in the store that it is computed",
};

/// Has it paid.
pub(crate) const INTENT_EMITTER: TaskSpec = TaskSpec {
    name: "intent_emitter",
    plane: Plane::Control,
    restart: Restart::usual(Escalation::Degrade(Effect::ServiceDown)),
    stop: Stage::Writers,
    doc: "posts the batches of computed epochs to the ledger, one after the other, until each epoch is settled",
};

/// Looks after what the others depend on.
pub(crate) const HEALTH_REPORTER: TaskSpec = TaskSpec {
    name: "health_reporter",
    plane: Plane::Control,
    restart: Restart::usual(Escalation::Degrade(Effect::Report)),
    stop: Stage::Support,
    doc: "asks the store and the ledger whether they answer, and publishes readiness and sums",
};

/// Keeps accounts.
pub(crate) const ACCOUNTANT: TaskSpec = TaskSpec {
    name: "accountant",
    plane: Plane::Control,
    restart: Restart::usual(Escalation::Degrade(Effect::ServiceDown)),
    stop: Stage::Writers,
    doc: "writes down every second what was used, and seals this node's part of epochs that are over",
};

/// Requests to compute an epoch.
pub(crate) const WORK_REQ: QueueSpec = QueueSpec {
    name: "work_req",
    capacity: 512,
    policy: Policy::RejectNew,
    from: "listener",
    to: "compute_scheduler",
    doc: "requests to compute an epoch; when it is full the client is told 429 `busy`",
};

/// Epochs to compute.
pub(crate) const WORK: QueueSpec = QueueSpec {
    name: "work",
    capacity: 512,
    policy: Policy::RetryOnce { min: Duration::from_millis(50), max: Duration::from_millis(150) },
    from: "compute_scheduler",
    to: "worker",
    doc: "epochs to compute; one that finds no room twice is told 429 `busy`, and comes again by the clock",
};

/// Epochs that are computed.
pub(crate) const RESULTS: QueueSpec = QueueSpec {
    name: "results",
    capacity: 512,
    policy: Policy::Await { deadline: Duration::from_secs(60) },
    from: "worker",
    to: "artifact_writer",
    doc: "what was computed; a worker waits until it is written, so there are no more of them than workers",
};

/// Epochs to pay.
pub(crate) const INTENTS: QueueSpec = QueueSpec {
    name: "intents",
    capacity: 512,
    policy: Policy::Await { deadline: Duration::from_secs(60) },
    from: "artifact_writer",
    to: "intent_emitter",
    doc: "a doorbell: what is to be paid stands in the store, and is found there without it",
};

/// Guards the registry of epochs in work.
pub(crate) const RUN_REGISTRY: LockSpec = LockSpec {
    name: "run_registry",
    rank: 20,
    doc: "which epochs are in work and how far; looked up and copied, never held while anything is waited for",
};

/// Guards the bounded set of labels.
pub(crate) const METRICS_COUNTERS: LockSpec = LockSpec {
    name: "metrics_counters",
    rank: 30,
    doc: "the epochs that have a series of their own, of which there are few",
};

/// Everything the rewarder is made of.
pub static TOPOLOGY: Topology = Topology {
    service: "rewarder",
    purpose: "Accounting and rewards: usage by epoch, payouts that anybody can check, money moved exactly once.",
    last_reviewed: "2026-11-16",
    invariants: &[
        "An epoch's inputs close once, by a unique insert; its payouts are a pure function of them.",
        "Every state of an epoch is durable, and each change of state is one conditional update: it happens once.",
        "Σ payouts + residual = pool, or the epoch is quarantined and nothing is paid.",
        "A batch is posted under a key that names epoch and batch, and is sent again until its outcome is known.",
        "The epoch store and the ledger share no transaction.",
        "Files, databases, hashing and the calculus run on the blocking pool alone.",
        "With amnesia nothing is written to a disk.",
    ],
    tasks: &[
        LISTENER,
        COMPUTE_SCHEDULER,
        WORKER,
        ARTIFACT_WRITER,
        INTENT_EMITTER,
        HEALTH_REPORTER,
        ACCOUNTANT,
    ],
    children: &[CONNECTION, H2_STREAM],
    queues: &[WORK_REQ, WORK, RESULTS, INTENTS],
    locks: &[RUN_REGISTRY, METRICS_COUNTERS],
    timeouts: &joined::<_, { TIMEOUTS.len() + OWN_TIMEOUTS.len() }>(&TIMEOUTS, OWN_TIMEOUTS),
    metrics: &METRICS,
    trade_offs: &[
        "Requests to compute are refused when the queue is full, so that those who are told 202 are soon served.",
        "The scheduler tries a full queue of work twice and then says so; the epoch comes again by the clock.",
        "The artifact writer rings for the emitter, not the worker: what is not written down is not paid.",
        "Nodes that share a store may compute the same epoch at once; that costs time, and one result stands.",
        "Usage is what nodes say of themselves: a seal proves who said it, not that it is so.",
    ],
};

/// Those beside the HTTP server's.
const OWN_TIMEOUTS: &[TimeoutSpec] = &[
    TimeoutSpec {
        name: "upstream call",
        default: Duration::from_secs(5),
        doc: "each call of the epoch store or the ledger (`read_timeout`); tried three times, 100 to 250 ms apart",
    },
    TimeoutSpec {
        name: "epoch_deadline",
        default: Duration::from_secs(1800),
        doc: "half an `epoch_duration`, or what the client wishes if that is sooner; the epoch then comes again by the clock",
    },
    TimeoutSpec {
        name: "ledger breaker",
        default: Duration::from_secs(1),
        doc: "open after five failures in a row; one call asks again after 1 s, doubling to 5 s",
    },
    TimeoutSpec {
        name: "flush",
        default: Duration::from_secs(1),
        doc: "between two writes of usage: what a crash can lose",
    },
];
