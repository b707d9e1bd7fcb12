//! What admission shows: the two verdicts as queues, and each class's part of the slots.

use std::hash::Hash;

use fairq::FairQueue;
use prometheus_client::metrics::{family::Family, gauge::Gauge};
use ron_kernel::{
    InFlight, Scope,
    metrics::QueueMetrics,
    topology::{MetricSpec, Policy, QueueSpec},
};
use types::Moment;

use crate::tenant::Class;

/// The most tickets that wait, unless configured otherwise.
const ROOM: usize = 512;

/// Newcomers at or above their share of a full room.
pub(crate) const WORK: QueueSpec = QueueSpec {
    name: "work",
    capacity: ROOM,
    policy: Policy::RejectNew,
    from: "requests",
    to: "upstreams",
    doc: "requests that wait for a slot (tickets); when it is full, a tenant at or above its share gets `busy`",
};

/// Tickets that made place for somebody further below their share.
pub(crate) const SCHED: QueueSpec = QueueSpec {
    name: "sched",
    capacity: ROOM,
    policy: Policy::DropOldest,
    from: "requests",
    to: "upstreams",
    doc: "the same queue: the oldest ticket of the tenant furthest above its share is evicted and gets `shed`",
};

/// What admission adds to the shared families.
pub(crate) const METRICS: [MetricSpec; 2] = [
    MetricSpec { name: "fq_inflight", labels: "class", doc: "requests of a class that are upstream" },
    MetricSpec {
        name: "fq_tokens",
        labels: "class",
        doc: "slot-milliseconds a class has left, or owes if negative, compared with the class that is served now",
    },
];

type ByClass = Family<[(&'static str, &'static str); 2], Gauge>;

/// The handles of the admission metrics.
#[derive(Debug)]
pub(super) struct AdmissionMetrics {
    pub(super) work: QueueMetrics,
    pub(super) sched: QueueMetrics,
    inflight: [Gauge; Class::ALL.len()],
    tokens: [Gauge; Class::ALL.len()],
}

impl AdmissionMetrics {
    pub(super) fn new(scope: &Scope) -> Self {
        let (inflight, tokens) = (ByClass::default(), ByClass::default());
        scope.all_metrics().register(|registry| {
            registry.register(METRICS[0].name, METRICS[0].doc, inflight.clone());
            registry.register(METRICS[1].name, METRICS[1].doc, tokens.clone());
        });
        let service = scope.service();
        let of = |family: &ByClass| {
            Class::ALL
                .map(|class| family.get_or_create(&[("service", service), ("class", class.name())]).clone())
        };
        Self {
            work: scope.metrics().queue(WORK.name, service),
            sched: scope.metrics().queue(SCHED.name, service),
            inflight: of(&inflight),
            tokens: of(&tokens),
        }
    }

    /// Publishes the queue as it is now.
    pub(super) fn sample<K, T>(&self, queue: &FairQueue<K, T>, now: Moment)
    where
        K: Clone + Eq + Hash,
        T: Copy,
    {
        let depth = i64::try_from(queue.depth()).unwrap_or(i64::MAX);
        self.work.depth.set(depth);
        self.sched.depth.set(depth);
        for class in Class::ALL {
            if let Some(stats) = queue.class(class.index(), now) {
                self.tokens[class.index()].set(stats.tokens);
            }
        }
    }

    /// Publishes how many requests of each class are upstream.
    pub(super) fn sample_inside(&self, inside: &[InFlight; Class::ALL.len()]) {
        for (gauge, inside) in self.inflight.iter().zip(inside) {
            gauge.set(i64::try_from(inside.count()).unwrap_or(i64::MAX));
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::time::Duration;

    use fairq::{Arrival, ClassSettings, Settings};
    use ron_kernel::Kernel;

    use super::*;

    #[test]
    fn each_class_shows_what_it_owes_and_how_many_of_its_requests_are_upstream() {
        let kernel = Kernel::builder("test").build().unwrap();
        let scope = kernel.scope(&crate::TOPOLOGY);
        let metrics = AdmissionMetrics::new(&scope);
        let classes = [1, 1, 2].map(ClassSettings::weighing).to_vec();
        let ran = Duration::from_millis(300);
        let (began, now) = (Moment::ORIGIN, Moment::ORIGIN.after(ran));
        let mut queue = FairQueue::new(Settings { slots: 1, classes, ..Settings::default() }, began).unwrap();
        let waits = Arrival {
            class: Class::Anon.index(),
            tenant: "waits",
            weight: 1,
            slot_time: ran.into(),
            extra_units: 0,
            slow: false,
            slots_held: 0,
        };
        queue.push(waits, 0, 0, began);
        queue.settle_unqueued(Class::Authed.index(), "had a slot", 1, ran, now);
        let inside: [InFlight; Class::ALL.len()] = Default::default();
        let _two = [inside[Class::Anon.index()].enter(), inside[Class::Anon.index()].enter()];
        metrics.sample(&queue, now);
        metrics.sample_inside(&inside);
        let text = scope.all_metrics().prometheus_text();
        let tokens = Class::ALL.map(|class| queue.class(class.index(), now).unwrap().tokens);
        assert!(tokens[Class::Authed.index()] < tokens[Class::Anon.index()], "it had a slot: {tokens:?}");
        for class in Class::ALL {
            let inflight = if class == Class::Anon { 2 } else { 0 };
            for (name, value) in [("fq_tokens", tokens[class.index()]), ("fq_inflight", inflight)] {
                let class = class.name();
                let line = format!("{name}{{node=\"test\",service=\"gateway\",class=\"{class}\"}} {value}\n");
                assert!(text.contains(&line), "{line} in\n{text}");
            }
        }
        for name in ["work", "sched"] {
            let line = format!("queue_depth{{node=\"test\",service=\"gateway\",queue=\"{name}\"}} 1\n");
            assert!(text.contains(&line), "{line} in\n{text}");
        }
    }
}
