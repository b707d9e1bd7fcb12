//! What is counted of objects.

use prometheus_client::metrics::{counter::Counter, family::Family};
use ron_kernel::{Scope, topology::MetricSpec};

/// Counter of transferred objects, by outcome.
pub(crate) const OBJECTS_TOTAL: MetricSpec = MetricSpec {
    name: "overlay_objects_total",
    labels: "op, outcome",
    doc: "objects requested from peers (get), offered to them (put), sent to them (serve) and accepted from them (take)",
};

/// Counter of the bytes of transferred objects.
pub(crate) const OBJECT_BYTES: MetricSpec = MetricSpec {
    name: "overlay_object_bytes_total",
    labels: "dir",
    doc: "bytes of objects received and checked (rx) and sent (tx)",
};

/// Which way an object goes, and on whose behalf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Get,
    Put,
    Serve,
    Take,
}

/// The outcome of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    Refused,
    Mismatch,
    Broken,
}

const OPS: [&str; 4] = ["get", "put", "serve", "take"];
const OUTCOMES: [&str; 4] = ["done", "refused", "mismatch", "broken"];
const DIRS: [&str; 2] = ["rx", "tx"];

type Label = (&'static str, &'static str);

/// Counters with a handle each, because looking one up takes a lock.
#[derive(Clone, Debug)]
pub(super) struct ObjectMetrics {
    ended: [[Counter; OUTCOMES.len()]; OPS.len()],
    bytes: [Counter; DIRS.len()],
}

impl ObjectMetrics {
    /// Registers the families. Once for each node.
    pub(super) fn new(scope: &Scope) -> Self {
        let service = ("service", scope.service());
        let (ended, bytes) =
            (Family::<[Label; 3], Counter>::default(), Family::<[Label; 2], Counter>::default());
        scope.all_metrics().register(|registry| {
            // The library adds `_total` itself.
            let name = |spec: &MetricSpec| spec.name.trim_end_matches("_total");
            registry.register(name(&OBJECTS_TOTAL), OBJECTS_TOTAL.doc, ended.clone());
            registry.register(name(&OBJECT_BYTES), OBJECT_BYTES.doc, bytes.clone());
        });
        let ended = OPS.map(|op| {
            OUTCOMES.map(|outcome| ended.get_or_create(&[service, ("op", op), ("outcome", outcome)]).clone())
        });
        Self { ended, bytes: DIRS.map(|dir| bytes.get_or_create(&[service, ("dir", dir)]).clone()) }
    }

    /// Counts the end of a stream.
    pub(super) fn ended(&self, op: Op, outcome: Outcome) {
        self.ended[op as usize][outcome as usize].inc();
    }

    /// Counts bytes that came and were right.
    pub(super) fn received(&self, bytes: usize) {
        self.bytes[0].inc_by(bytes as u64);
    }

    /// Counts bytes that were sent.
    pub(super) fn sent(&self, bytes: usize) {
        self.bytes[1].inc_by(bytes as u64);
    }
}
