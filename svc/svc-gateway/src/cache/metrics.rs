//! What the cache shows of itself.

use std::sync::{Arc, Weak};

use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge};
use ron_kernel::{Scope, topology::MetricSpec};

use super::ResponseCache;

pub(crate) const METRICS: [MetricSpec; 3] = [
    MetricSpec {
        name: "gateway_cache_requests_total",
        labels: "result",
        doc: "requests on routes with `cache`, by what the cache did: hit, stale, revalidated, collapsed, miss, bypass",
    },
    MetricSpec { name: "gateway_cache_bytes", labels: "", doc: "memory that stored responses take" },
    MetricSpec { name: "gateway_cache_entries", labels: "", doc: "targets with stored responses" },
];

type Labels = [(&'static str, &'static str); 2];

/// Counts what the cache did.
#[derive(Debug)]
pub(super) struct Counts {
    pub(super) hit: Counter,
    pub(super) stale: Counter,
    pub(super) revalidated: Counter,
    pub(super) collapsed: Counter,
    pub(super) miss: Counter,
    pub(super) bypass: Counter,
}

impl Counts {
    pub(super) fn register(scope: &Scope) -> Self {
        let family = Family::<Labels, Counter>::default();
        // The text encoder adds `_total` to counters.
        let name = METRICS[0].name.trim_end_matches("_total");
        scope.all_metrics().register(|registry| registry.register(name, METRICS[0].doc, family.clone()));
        let of = |result| family.get_or_create(&[("service", scope.service()), ("result", result)]).clone();
        Self {
            hit: of("hit"),
            stale: of("stale"),
            revalidated: of("revalidated"),
            collapsed: of("collapsed"),
            miss: of("miss"),
            bypass: of("bypass"),
        }
    }
}

/// Publishes how much is stored, as long as the cache is there.
pub(super) fn publish(scope: &Scope, cache: &Arc<ResponseCache>) {
    let plain = Family::<[(&'static str, &'static str); 1], Gauge>::default;
    let (bytes, entries) = (plain(), plain());
    scope.all_metrics().register(|registry| {
        registry.register(METRICS[1].name, METRICS[1].doc, bytes.clone());
        registry.register(METRICS[2].name, METRICS[2].doc, entries.clone());
    });
    let [bytes, entries] =
        [bytes, entries].map(|family| family.get_or_create(&[("service", scope.service())]).clone());
    let watched: Weak<ResponseCache> = Arc::downgrade(cache);
    scope.sampled(move || {
        let Some(cache) = watched.upgrade() else { return };
        let (taken, count) = cache.size();
        bytes.set(i64::try_from(taken).unwrap_or(i64::MAX));
        entries.set(i64::try_from(count).unwrap_or(i64::MAX));
    });
}
