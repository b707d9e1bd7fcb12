//! What is counted of upstreams.

use std::sync::Arc;

use ron_kernel::{
    Scope,
    metrics::{Counter, Family, Gauge, Labels, LatencyHistogram, QueueMetrics, ServiceMetrics},
    topology::MetricSpec,
};
use types::Moment;

use super::{
    server::{Server, Standing},
    sticky::{OUTCOMES, Outcome},
    streams::{LIMITS, StreamRefusals},
};
use crate::upstream::WAITING_QUEUE;

/// What upstreams add to the shared families.
pub(crate) const METRICS: [MetricSpec; 8] = [
    MetricSpec {
        name: "downstream_latency_seconds",
        labels: "service",
        doc: "Time from a request to an upstream, or to a service in this process, until the header of its response, including retries; the label service is the upstream",
    },
    MetricSpec {
        name: "upstream_failures_total",
        labels: "upstream, kind",
        doc: "Failed tries by kind: connect, broken, late, or status (502, 503 or 504)",
    },
    MetricSpec {
        name: "upstream_servers",
        labels: "upstream, state",
        doc: "Servers by state: usable, open (circuit breaker), unhealthy or ejected; sampled",
    },
    MetricSpec {
        name: "upstream_connections",
        labels: "upstream, state",
        doc: "Connections busy and idle, sampled",
    },
    MetricSpec {
        name: "upstream_streams",
        labels: "upstream",
        doc: "Streams that occupy a connection to a server without holding a slot: tunnels, streams and transfers of slow clients; sampled",
    },
    MetricSpec {
        name: "upstream_mirrored_requests_total",
        labels: "upstream, outcome",
        doc: "Copies of requests to upstreams of a mirror: answered, failed, or not sent because too many were in \
         progress (busy) or the body was too long (too_large)",
    },
    MetricSpec {
        name: "upstream_sticky_requests_total",
        labels: "upstream, outcome",
        doc: "Requests to upstreams with sticky cookies: kept at the server of their cookie, moved to another one, or new",
    },
    MetricSpec {
        name: "upstream_streams_refused_total",
        labels: "limit",
        doc: "Streams refused, and transfers of slow clients ended, by the share of a server's connections that was used up: tenant, address or all",
    },
];

/// The families of upstreams, registered once.
#[derive(Clone, Debug)]
pub(crate) struct UpstreamFamilies {
    service: &'static str,
    latency: Family<Labels, LatencyHistogram>,
    failures: Family<Labels, Counter>,
    servers: Family<Labels, Gauge>,
    connections: Family<Labels, Gauge>,
    streams: Family<Labels, Gauge>,
    mirrored: Family<Labels, Counter>,
    sticky: Family<Labels, Counter>,
    stream_refusals: StreamRefusals,
    timeouts: Timeouts,
    retries: Counter,
    queue: QueueMetrics,
}

/// How often servers were too slow.
#[derive(Clone, Debug)]
pub(crate) struct Timeouts {
    /// To accept a connection.
    pub(crate) connect: Counter,
    /// To answer, or to go on with an answer.
    pub(crate) rpc: Counter,
}

impl Timeouts {
    fn new(metrics: &ServiceMetrics) -> Self {
        Self { connect: metrics.io_timeouts("connect"), rpc: metrics.io_timeouts("rpc") }
    }
}

/// The way in which a try failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// The server could not be reached.
    Connect,
    /// It broke off before its answer, or answered nonsense.
    Broken,
    /// The server did not answer in time.
    Late,
    /// It answered 502, 503 or 504.
    Status,
}

const KINDS: [(FailureKind, &str); 4] = [
    (FailureKind::Connect, "connect"),
    (FailureKind::Broken, "broken"),
    (FailureKind::Late, "late"),
    (FailureKind::Status, "status"),
];

const STANDINGS: [(Standing, &str); 4] = [
    (Standing::Usable, "usable"),
    (Standing::Open, "open"),
    (Standing::Unhealthy, "unhealthy"),
    (Standing::Ejected, "ejected"),
];

/// What became of the copy of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MirrorOutcome {
    /// A server answered.
    Answered,
    /// No server answered in time, or the node drained.
    Failed,
    /// It was not made, because too many were on their way.
    Busy,
    /// It was not made, because the body was too long, or not read as a whole.
    TooLarge,
}

const MIRRORED: [(MirrorOutcome, &str); 4] = [
    (MirrorOutcome::Answered, "answered"),
    (MirrorOutcome::Failed, "failed"),
    (MirrorOutcome::Busy, "busy"),
    (MirrorOutcome::TooLarge, "too_large"),
];

/// The counters of copies of requests.
#[derive(Clone, Debug)]
pub(crate) struct MirrorMetrics([Counter; MIRRORED.len()]);

impl MirrorMetrics {
    /// Counts a copy.
    pub(crate) fn count(&self, outcome: MirrorOutcome) {
        let index =
            MIRRORED.iter().position(|(known, _)| *known == outcome).expect("every outcome is listed");
        self.0[index].inc();
    }
}

/// Returns the metric label of a server's state.
pub(super) fn standing_name(standing: Standing) -> &'static str {
    STANDINGS.iter().find(|(known, _)| *known == standing).map_or("unknown", |(_, name)| name)
}

/// The metrics of one upstream.
#[derive(Debug)]
pub(crate) struct GroupMetrics {
    families: UpstreamFamilies,
    upstream: String,
    /// From a request's start on its way to the response's head.
    pub(crate) latency: LatencyHistogram,
    failures: [Counter; KINDS.len()],
    servers: [Gauge; STANDINGS.len()],
    busy: Gauge,
    idle: Gauge,
    streams: Gauge,
    /// Empty on upstreams without sticky cookies.
    sticky: Vec<Counter>,
}

impl UpstreamFamilies {
    pub(crate) fn register(scope: &Scope) -> Self {
        let refused = Family::<Labels, Counter>::default();
        let families = Self {
            service: scope.service(),
            latency: Family::default(),
            failures: Family::default(),
            servers: Family::default(),
            connections: Family::default(),
            streams: Family::default(),
            mirrored: Family::default(),
            sticky: Family::default(),
            stream_refusals: StreamRefusals(LIMITS.map(|(_, limit)| {
                child(&refused, &vec![("service", scope.service().into()), ("limit", limit.into())])
            })),
            timeouts: Timeouts::new(scope.metrics()),
            retries: scope.metrics().retries("rpc"),
            queue: scope.metrics().queue(WAITING_QUEUE.name, "upstream"),
        };
        let [latency, failures, servers, connections, streams, mirrored, sticky, streams_refused] = METRICS;
        scope.all_metrics().register(|registry| {
            registry.register(latency.name, latency.doc, families.latency.clone());
            // The text encoder adds `_total` to counters.
            let name = failures.name.trim_end_matches("_total");
            registry.register(name, failures.doc, families.failures.clone());
            registry.register(servers.name, servers.doc, families.servers.clone());
            registry.register(connections.name, connections.doc, families.connections.clone());
            registry.register(streams.name, streams.doc, families.streams.clone());
            let name = mirrored.name.trim_end_matches("_total");
            registry.register(name, mirrored.doc, families.mirrored.clone());
            let name = sticky.name.trim_end_matches("_total");
            registry.register(name, sticky.doc, families.sticky.clone());
            let name = streams_refused.name.trim_end_matches("_total");
            registry.register(name, streams_refused.doc, refused);
        });
        families
    }

    pub(crate) fn queue(&self) -> QueueMetrics {
        self.queue.clone()
    }

    /// Returns the counters of refused streams.
    pub(super) fn stream_refusals(&self) -> &StreamRefusals {
        &self.stream_refusals
    }

    pub(crate) fn timeouts(&self) -> &Timeouts {
        &self.timeouts
    }

    pub(crate) fn retries(&self) -> &Counter {
        &self.retries
    }

    /// How long a service in this process takes, beside the upstreams.
    pub(crate) fn latency_of_service(&self, name: &str) -> LatencyHistogram {
        child(&self.latency, &latency_labels(name))
    }

    /// The metrics of the upstream called `name`.
    pub(crate) fn of(&self, name: &str) -> GroupMetrics {
        let labels = |key, value| self.labels(name, (key, value));
        GroupMetrics {
            upstream: name.to_owned(),
            latency: child(&self.latency, &latency_labels(name)),
            failures: KINDS.map(|(_, kind)| child(&self.failures, &labels("kind", kind))),
            servers: STANDINGS.map(|(_, state)| child(&self.servers, &labels("state", state))),
            busy: child(&self.connections, &labels("state", "busy")),
            idle: child(&self.connections, &labels("state", "idle")),
            streams: child(&self.streams, &self.stream_labels(name)),
            sticky: Vec::new(),
            families: self.clone(),
        }
    }

    /// The counters of copies of requests to the upstream called `name`.
    pub(crate) fn mirrored(&self, name: &str) -> MirrorMetrics {
        MirrorMetrics(
            MIRRORED.map(|(_, outcome)| child(&self.mirrored, &self.labels(name, ("outcome", outcome)))),
        )
    }

    /// The counters of requests to an upstream with sticky cookies.
    pub(crate) fn count_sticky(&self, metrics: &mut GroupMetrics) {
        let of = |(_, outcome): (Outcome, &'static str)| {
            child(&self.sticky, &self.labels(&metrics.upstream, ("outcome", outcome)))
        };
        metrics.sticky = OUTCOMES.map(of).into();
    }

    fn stream_labels(&self, upstream: &str) -> Labels {
        vec![("service", self.service.into()), ("upstream", upstream.to_owned().into())]
    }

    fn labels(&self, upstream: &str, (key, value): (&'static str, &'static str)) -> Labels {
        vec![("service", self.service.into()), ("upstream", upstream.to_owned().into()), (key, value.into())]
    }
}

/// The child of a family. On its own, because what looks it up holds a lock to the end of its statement.
fn child<M: Clone + Default>(family: &Family<Labels, M>, labels: &Labels) -> M {
    family.get_or_create(labels).clone()
}

/// The service meant is the one behind: that is what the family is about.
fn latency_labels(upstream: &str) -> Labels {
    vec![("service", upstream.to_owned().into())]
}

impl GroupMetrics {
    pub(crate) fn failed(&self, kind: FailureKind) {
        let index = KINDS.iter().position(|(known, _)| *known == kind).expect("every kind is listed");
        self.failures[index].inc();
    }

    /// Counts a request to an upstream with sticky cookies.
    pub(super) fn sticky(&self, outcome: Outcome) {
        let index = OUTCOMES.iter().position(|(known, _)| *known == outcome);
        if let Some(counter) = index.and_then(|index| self.sticky.get(index)) {
            counter.inc();
        }
    }

    /// Tries that failed so far, by kind.
    pub(super) fn failures(&self) -> impl Iterator<Item = (&'static str, u64)> {
        KINDS.iter().zip(&self.failures).map(|((_, kind), counter)| (*kind, counter.get()))
    }

    /// Publishes how the servers are.
    pub(crate) fn sample<'s>(&self, servers: impl Iterator<Item = &'s Arc<Server>> + Clone, now: Moment) {
        for ((standing, _), gauge) in STANDINGS.iter().zip(&self.servers) {
            let count = servers.clone().filter(|server| server.standing(now) == *standing).count();
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        let busy: usize = servers.clone().map(|server| server.busy()).sum();
        let streams: usize = servers.clone().map(|server| server.streams.open()).sum();
        let open: usize = servers.map(|server| server.seats.open()).sum();
        self.streams.set(i64::try_from(streams).unwrap_or(i64::MAX));
        self.busy.set(i64::try_from(busy).unwrap_or(i64::MAX));
        self.idle.set(i64::try_from(open.saturating_sub(busy)).unwrap_or(i64::MAX));
    }

    /// Removes the series of an upstream that is gone.
    pub(crate) fn forget(&self) {
        let labels = |key, value| self.families.labels(&self.upstream, (key, value));
        self.families.latency.remove(&latency_labels(&self.upstream));
        for (_, kind) in KINDS {
            self.families.failures.remove(&labels("kind", kind));
        }
        for (_, state) in STANDINGS {
            self.families.servers.remove(&labels("state", state));
        }
        for (_, outcome) in MIRRORED {
            self.families.mirrored.remove(&labels("outcome", outcome));
        }
        for (_, outcome) in OUTCOMES {
            self.families.sticky.remove(&labels("outcome", outcome));
        }
        self.families.streams.remove(&self.families.stream_labels(&self.upstream));
        for state in ["busy", "idle"] {
            self.families.connections.remove(&labels("state", state));
        }
    }
}
