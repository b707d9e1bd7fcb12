//! What the export of traces runs, declared.

use std::time::Duration;

use ron_kernel::{
    readiness::Effect,
    topology::{
        Escalation, MetricSpec, Plane, Policy, QueueSpec, Restart, Stage, TaskSpec, TimeoutSpec, Topology,
    },
};

/// The task that exports.
pub(crate) const SPAN_EXPORTER: TaskSpec = TaskSpec {
    name: "span_exporter",
    plane: Plane::Control,
    restart: Restart::usual(Escalation::Degrade(Effect::Report)),
    // After the last connection has ended, of whose requests there are spans too.
    stop: Stage::Support,
    doc: "sends spans to the collector, up to 512 at a time; at a drain it sends the rest, for a second at most",
};

/// The spans on their way to it.
pub(crate) const SPAN_QUEUE: QueueSpec = QueueSpec {
    name: "spans",
    capacity: 4096,
    policy: Policy::DropOldest,
    from: "services, at the end of their requests",
    to: "span_exporter",
    doc: "spans that wait for the collector; a discarded span counts as dropped",
};

/// What became of those that were taken from the queue.
pub(crate) const SPANS: MetricSpec = MetricSpec {
    name: "traces_spans_total",
    labels: "result",
    doc: "spans by result: exported, refused by the collector, or lost because it could not be reached",
};

/// Everything the export of traces is made of.
pub static TOPOLOGY: Topology = Topology {
    service: "traces",
    purpose: "The export of request spans to a trace collector.",
    last_reviewed: "2026-11-16",
    invariants: &[
        "A request never waits for the export of its span.",
        "Every reported span is exported, or counted as dropped, refused or lost.",
        "A span holds no credential and no query string.",
        "A collector that hangs costs a drain no more than a second.",
    ],
    tasks: &[SPAN_EXPORTER],
    children: &[],
    queues: &[SPAN_QUEUE],
    locks: &[],
    timeouts: &[TimeoutSpec {
        name: "traces.timeout",
        default: Duration::from_secs(5),
        doc: "a collector that does not accept a batch; then it is retried, four times at most",
    }],
    metrics: &[SPANS],
    trade_offs: &[
        "Each batch uses a new connection: one batch per second is too few to keep one open.",
        "JSON is used instead of protobuf: twice the bytes, but no further dependency, and every collector reads it.",
    ],
};
