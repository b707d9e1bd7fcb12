//! What the rewarder runs, declared.

use std::time::Duration;

use ron_kernel::{
    readiness::Effect,
    topology::{
        Escalation, LockSpec, Plane, Policy, QueueSpec, Restart, Stage, TaskSpec, TimeoutSpec, Topology,
        joined,
    },
};
use ron_transport::{
    locks::LOCKS,
    serve::{CONNECTION, H2_STREAM, LISTENER, TIMEOUTS},
};

use crate::metrics::METRICS;

/// Takes requests and the clock, sees to it that an epoch is computed once, and hands out the work.
pub(crate) const COMPUTE_SCHEDULER: TaskSpec = TaskSpec {
    name: "compute_scheduler",
    plane: Plane::Control,
    restart: Restart::usual(Escalation::Degrade(Effect::ServiceDown)),
    stop: Stage::Intake,
    doc: "closes the inputs of epochs that have ended, and gives each epoch to one worker, by the clock and on request",
};

/// Works out who is paid what.
pub(crate) const WORKER: TaskSpec = TaskSpec {
    name: "worker",
    plane: Plane::Control,
    restart: Restart::usual(Escalation::Degrade(Effect::ServiceDown)),
    stop: Stage::Workers,
    doc: "checks the rows of an epoch and computes its payouts, on a thread of the blocking pool",
};

/// The task that writes the files of an epoch.
pub(crate) const ARTIFACT_WRITER: TaskSpec = TaskSpec {
    name: "artifact_writer",
    plane: Plane::Control,
    restart: Restart::usual(Escalation::Degrade(Effect::ServiceDown)),
    stop: Stage::Writers,
    doc: "writes an epoch's files, and only then marks it as computed in the store",
};

/// The task that posts payouts to the ledger.
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
    doc: "checks that the store and the ledger respond, and publishes readiness and totals",
};

/// The task that records usage and seals epochs.
pub(crate) const ACCOUNTANT: TaskSpec = TaskSpec {
    name: "accountant",
    plane: Plane::Control,
    restart: Restart::usual(Escalation::Degrade(Effect::ServiceDown)),
    stop: Stage::Writers,
    doc: "records usage every second, and seals this node's part of epochs that have ended",
};

/// Requests to compute an epoch.
pub(crate) const WORK_REQ: QueueSpec = QueueSpec {
    name: "work_req",
    capacity: 512,
    policy: Policy::RejectNew,
    from: "listener",
    to: "compute_scheduler",
    doc: "requests to compute an epoch; when it is full the client gets 429 `busy`",
};

/// The queue of epochs to compute.
pub(crate) const WORK: QueueSpec = QueueSpec {
    name: "work",
    capacity: 512,
    policy: Policy::RetryOnce { min: Duration::from_millis(50), max: Duration::from_millis(150) },
    from: "compute_scheduler",
    to: "worker",
    doc: "epochs to compute; an epoch that does not fit twice is answered 429 `busy`, and is queued again later",
};

/// Epochs that are computed.
pub(crate) const RESULTS: QueueSpec = QueueSpec {
    name: "results",
    capacity: 512,
    policy: Policy::Await { deadline: Duration::from_secs(60) },
    from: "worker",
    to: "artifact_writer",
    doc: "computed results; a worker waits until its result is written, so there are no more of them than workers",
};

/// The queue of epochs to pay.
pub(crate) const INTENTS: QueueSpec = QueueSpec {
    name: "intents",
    capacity: 512,
    policy: Policy::Await { deadline: Duration::from_secs(60) },
    from: "artifact_writer",
    to: "intent_emitter",
    doc: "only a wake-up: payments to make are in the store, and are found there without it",
};

/// Guards the registry of epochs in work.
/// The book of what was used.
pub(crate) const ACCOUNTS: LockSpec = LockSpec {
    name: "accounts",
    rank: 10,
    doc: "the journal of usage; held while it is written or read, on a blocking thread",
};

/// The epoch store's connection.
pub(crate) const EPOCH_STORE: LockSpec = LockSpec {
    name: "epoch_store",
    rank: 40,
    doc: "the one connection to the epoch store; held for one call of it, on a blocking thread",
};

/// The files of epochs, where they are kept in memory.
pub(crate) const ARTIFACTS: LockSpec = LockSpec {
    name: "artifacts",
    rank: 50,
    doc: "the files of epochs in memory, which tests use; those on a disk need no lock",
};

/// Policies that could not be kept.
pub(crate) const UNKEPT_POLICIES: LockSpec = LockSpec {
    name: "unkept_policies",
    rank: 60,
    doc: "policies that the store did not take yet; copied, tried without it, and put back",
};

/// Until when something is said of the clock.
pub(crate) const CLOCK_TOLD: LockSpec =
    LockSpec { name: "clock_told", rank: 62, doc: "until when the condition `clock` stays active" };

pub(crate) const RUN_REGISTRY: LockSpec = LockSpec {
    name: "run_registry",
    rank: 20,
    doc: "the epochs in progress; looked up and copied, never held across a wait",
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
    purpose: "Accounting and rewards: usage by epoch, payouts that anyone can verify, money moved exactly once.",
    last_reviewed: "2026-11-16",
    invariants: &[
        "An epoch's inputs close once, by a unique insert; its payouts are a pure function of them.",
        "Every state of an epoch is durable, and each change of state is one conditional update: it happens once.",
        "Σ payouts + residual = pool, or the epoch is quarantined and nothing is paid.",
        "A batch is posted under a key that names epoch and batch, and is sent again until its outcome is known.",
        "The epoch store and the ledger share no transaction.",
        "Files, databases, hashing and the calculation of payouts run only on the blocking pool; at most three calls of the \
         store and three of the ledger at once.",
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
    locks: &joined::<_, { OWN_LOCKS.len() + LOCKS.len() }>(&OWN_LOCKS, &LOCKS),
    timeouts: &joined::<_, { TIMEOUTS.len() + OWN_TIMEOUTS.len() }>(&TIMEOUTS, OWN_TIMEOUTS),
    metrics: &METRICS,
    trade_offs: &[
        "Requests to compute are refused when the queue is full, so that requests answered with 202 are computed soon.",
        "The scheduler tries a full queue twice and then reports it; the epoch is queued again a little later.",
        "The artifact writer wakes the emitter, and the worker does not: an epoch that is not written to disk is not \
         paid.",
        "Nodes that share a store may compute the same epoch at the same time; that costs time, and one result is \
         kept.",
        "Usage is what nodes report about themselves: a seal proves which node reported it, not that it is true.",
        "Timeouts are counted by operation: there is one store and one ledger, and the conditions `store` and `ledger` say which does not answer.",
    ],
};

/// The locks of the rewarder, besides those of the HTTP server.
const OWN_LOCKS: [LockSpec; 7] =
    [ACCOUNTS, RUN_REGISTRY, METRICS_COUNTERS, EPOCH_STORE, ARTIFACTS, UNKEPT_POLICIES, CLOCK_TOLD];

const OWN_TIMEOUTS: &[TimeoutSpec] = &[
    TimeoutSpec {
        name: "upstream call",
        default: Duration::from_secs(5),
        doc: "each call of the epoch store or the ledger (`read_timeout`); tried three times, 100 to 250 ms apart",
    },
    TimeoutSpec {
        name: "epoch_deadline",
        default: Duration::from_secs(1800),
        doc: "half an `epoch_duration`, or the client's deadline if that is sooner; the epoch is then queued again \
         later",
    },
    TimeoutSpec {
        name: "ledger breaker",
        default: Duration::from_secs(1),
        doc: "opens after five failures in a row; one call tests it after 1 s, doubling to 5 s",
    },
    TimeoutSpec {
        name: "flush",
        default: Duration::from_secs(1),
        doc: "interval between two writes of usage: a crash can lose this much",
    },
];
