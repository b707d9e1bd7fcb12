//! A metric as those who draw and judge it need it: its kind, its labels, its unit.

use ron_kernel::{docs::SHARED_METRICS, topology::Topology};

/// A declared metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Metric {
    pub(super) name: &'static str,
    labels: &'static str,
    pub(super) doc: &'static str,
}

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Only grows: its rate is looked at.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Buckets of seconds.
    Histogram,
}

impl Metric {
    /// By the ending of its name, as the encoder does it: counters end in `_total`, the only histograms are of seconds.
    pub(super) fn kind(self) -> Kind {
        match self.name {
            name if name.ends_with("_total") => Kind::Counter,
            name if name.ends_with("_seconds") => Kind::Histogram,
            _ => Kind::Gauge,
        }
    }

    /// Its labels beside `node` and `service`.
    pub(super) fn labels(self) -> impl Iterator<Item = &'static str> {
        self.labels.split(',').map(str::trim).filter(|label| !["", "node", "service"].contains(label))
    }

    /// Grafana's name of its unit.
    pub(super) fn unit(self) -> &'static str {
        match self.kind() {
            Kind::Counter if self.name.ends_with("_bytes_total") => "Bps",
            Kind::Counter => "ops",
            Kind::Histogram => "s",
            Kind::Gauge if self.name.ends_with("_bytes") => "bytes",
            Kind::Gauge => "short",
        }
    }
}

/// Those that every service has.
pub(super) fn shared() -> impl Iterator<Item = Metric> {
    SHARED_METRICS.iter().map(|&(name, labels, doc)| Metric { name, labels, doc })
}

/// Those of one service alone.
pub(super) fn own(topology: &Topology) -> impl Iterator<Item = Metric> {
    topology.metrics.iter().map(|spec| Metric { name: spec.name, labels: spec.labels, doc: spec.doc })
}
