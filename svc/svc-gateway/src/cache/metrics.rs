//! What the cache shows of itself.

use std::sync::{Arc, Weak};

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Metric,
};
use ron_kernel::{Scope, topology::MetricSpec};

use super::ResponseCache;

pub(crate) const METRICS: [MetricSpec; 8] = [
    MetricSpec {
        name: "gateway_cache_requests_total",
        labels: "result",
        doc: "requests on routes with `cache`, by result: hit, stale, revalidated, collapsed, miss, bypass",
    },
    MetricSpec { name: "gateway_cache_bytes", labels: "", doc: "memory that stored responses take" },
    MetricSpec { name: "gateway_cache_entries", labels: "", doc: "targets with stored responses" },
    MetricSpec {
        name: "gateway_cache_damaged_total",
        labels: "what",
        doc: "damaged bodies and records that were found on disk and not used",
    },
    MetricSpec {
        name: "gateway_cache_disk_reads_total",
        labels: "",
        doc: "bodies that were read from the disk and verified",
    },
    MetricSpec { name: "gateway_cache_disk_bytes", labels: "", doc: "disk space that stored bodies use" },
    MetricSpec {
        name: "gateway_cache_purged_total",
        labels: "",
        doc: "responses that operators purged or marked stale",
    },
    MetricSpec {
        name: "gateway_cache_waiting",
        labels: "",
        doc: "requests that wait for a shared response (single-flight), or for another request of their tenant to be admitted",
    },
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
    pub(super) damaged_bodies: Counter,
    pub(super) damaged_records: Counter,
    pub(super) disk_reads: Counter,
    pub(super) purged: Counter,
}

impl Counts {
    pub(super) fn register(scope: &Scope) -> Self {
        let [requests, damaged] = [&METRICS[0], &METRICS[3]].map(|spec| {
            let family = Family::<Labels, Counter>::default();
            register(scope, spec, family.clone());
            family
        });
        let [disk_reads, purged] = [&METRICS[4], &METRICS[6]].map(|spec| {
            let family = Family::<[(&'static str, &'static str); 1], Counter>::default();
            register(scope, spec, family.clone());
            family.get_or_create(&[("service", scope.service())]).clone()
        });
        let of = |result| requests.get_or_create(&[("service", scope.service()), ("result", result)]).clone();
        let damaged = |what| damaged.get_or_create(&[("service", scope.service()), ("what", what)]).clone();
        Self {
            hit: of("hit"),
            stale: of("stale"),
            revalidated: of("revalidated"),
            collapsed: of("collapsed"),
            miss: of("miss"),
            bypass: of("bypass"),
            damaged_bodies: damaged("body"),
            damaged_records: damaged("record"),
            disk_reads,
            purged,
        }
    }
}

/// Registers a family of counters. The text encoder adds `_total` to their names.
fn register(scope: &Scope, spec: &MetricSpec, family: impl Metric) {
    let name = spec.name.trim_end_matches("_total");
    scope.all_metrics().register(|registry| registry.register(name, spec.doc, family));
}

/// Publishes how much is stored, as long as the cache is there.
pub(super) fn publish(scope: &Scope, cache: &Arc<ResponseCache>) {
    let [bytes, entries, disk_bytes, waiting] =
        [&METRICS[1], &METRICS[2], &METRICS[5], &METRICS[7]].map(|spec| {
            let family = Family::<[(&'static str, &'static str); 1], Gauge>::default();
            scope.all_metrics().register(|registry| registry.register(spec.name, spec.doc, family.clone()));
            family.get_or_create(&[("service", scope.service())]).clone()
        });
    let watched: Weak<ResponseCache> = Arc::downgrade(cache);
    scope.sampled(move || {
        let Some(cache) = watched.upgrade() else { return };
        let (taken, count) = cache.size();
        bytes.set(i64::try_from(taken).unwrap_or(i64::MAX));
        entries.set(i64::try_from(count).unwrap_or(i64::MAX));
        disk_bytes.set(i64::try_from(cache.disk_size()).unwrap_or(i64::MAX));
        waiting.set(i64::try_from(cache.flights.waiting()).unwrap_or(i64::MAX));
    });
}
