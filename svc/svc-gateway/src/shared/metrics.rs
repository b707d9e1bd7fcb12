//! What the gateway shows of its tenants: how many are known, which are the busiest, and whether writes are refused.

use std::{
    borrow::Cow,
    sync::{Arc, Weak},
};

use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge};
use ron_kernel::{Scope, lock::Ranked, topology::MetricSpec};

use super::Shared;
use crate::locks;

/// Tenants with a label of their own; all others share one.
const LABELLED: usize = 20;

/// Beyond the shared families and those of admission.
pub(crate) const METRICS: [MetricSpec; 7] = [
    MetricSpec { name: "gateway_degraded", labels: "", doc: "1 while writes are refused, 0 otherwise" },
    MetricSpec { name: "gateway_tenants", labels: "", doc: "tenants that are known" },
    MetricSpec {
        name: "gateway_tenant_requests",
        labels: "tenant, class",
        doc: "requests answered for each of the 20 busiest tenants with a name since it became known, and for all others",
    },
    MetricSpec { name: "gateway_decode_bytes", labels: "", doc: "memory that decoders of bodies hold" },
    MetricSpec {
        name: "gateway_decode_refused_total",
        labels: "",
        doc: "compressed request bodies that were refused because the decoders' memory limit was reached",
    },
    MetricSpec {
        name: "gateway_buffer_bytes",
        labels: "",
        doc: "memory for buffered request bodies and for responses of slow clients",
    },
    MetricSpec {
        name: "gateway_slots_reclaimed_total",
        labels: "",
        doc: "slots taken from transfers that were stalled by their clients",
    },
];

type Labels = [(&'static str, Cow<'static, str>); 3];

/// Publishes what is counted, as long as the gateway is there.
pub(super) fn publish(scope: &Scope, shared: &Arc<Shared>) {
    let plain = Family::<[(&'static str, &'static str); 1], Gauge>::default;
    let (degraded, known, busiest) = (plain(), plain(), Family::<Labels, Gauge>::default());
    let (decoding, buffers) = (plain(), plain());
    scope.all_metrics().register(|registry| {
        registry.register(METRICS[0].name, METRICS[0].doc, degraded.clone());
        registry.register(METRICS[1].name, METRICS[1].doc, known.clone());
        registry.register(METRICS[2].name, METRICS[2].doc, busiest.clone());
        registry.register(METRICS[3].name, METRICS[3].doc, decoding.clone());
        registry.register(METRICS[5].name, METRICS[5].doc, buffers.clone());
    });
    let service = scope.service();
    let [degraded, known, decoding, buffers] =
        [degraded, known, decoding, buffers].map(|family| child(&family, service));
    let (readiness, watched) = (scope.readiness().service(service), Arc::downgrade(shared));
    scope.sampled(move || {
        degraded.set(readiness.sheds_writes().into());
        let shared = watched.upgrade();
        if let Some(shared) = &shared {
            shared.passwords.sample();
        }
        let sampled = |count: Option<u64>| i64::try_from(count.unwrap_or(0)).unwrap_or(i64::MAX);
        known.set(sampled(shared.as_ref().map(|shared| shared.tenants.len() as u64)));
        decoding.set(sampled(shared.as_ref().map(|shared| shared.decoding.held())));
        buffers.set(sampled(shared.as_ref().map(|shared| shared.buffers.held())));
    });
    let (watched, labelled) = (Arc::downgrade(shared), Ranked::new(&locks::BUSIEST_LABELS, Vec::new()));
    scope.housekept(move || publish_busiest(&busiest, service, &watched, &labelled));
}

/// The count of compressed bodies that there was no memory for.
pub(super) fn decode_refused(scope: &Scope) -> Counter {
    counter(scope, &METRICS[4])
}

/// The count of slots that were taken from slow transfers.
pub(super) fn slots_reclaimed(scope: &Scope) -> Counter {
    counter(scope, &METRICS[6])
}

fn counter(scope: &Scope, spec: &MetricSpec) -> Counter {
    let family = Family::<[(&'static str, &'static str); 1], Counter>::default();
    // The text encoder adds `_total` to counters.
    let name = spec.name.trim_end_matches("_total");
    scope.all_metrics().register(|registry| registry.register(name, spec.doc, family.clone()));
    family.get_or_create(&[("service", scope.service())]).clone()
}

fn child(family: &Family<[(&'static str, &'static str); 1], Gauge>, service: &'static str) -> Gauge {
    family.get_or_create(&[("service", service)]).clone()
}

/// Publishes the busiest tenants and takes the labels of those that no longer are.
fn publish_busiest(
    family: &Family<Labels, Gauge>,
    service: &'static str,
    shared: &Weak<Shared>,
    labelled: &Ranked<Vec<Labels>>,
) {
    let Some(shared) = shared.upgrade() else { return };
    let labels = |tenant: String, class: &'static str| -> Labels {
        [("service", service.into()), ("tenant", tenant.into()), ("class", class.into())]
    };
    let (busiest, others) = shared.tenants.busiest(LABELLED);
    let mut now: Vec<(Labels, u64)> = busiest
        .into_iter()
        .map(|(key, served)| (labels(key.name.to_string(), key.class.name()), served))
        .collect();
    now.push((labels("other".to_owned(), "any"), others));
    let mut before = labelled.lock();
    for gone in before.iter().filter(|labels| now.iter().all(|(kept, _)| kept != *labels)) {
        family.remove(gone);
    }
    for (labels, served) in &now {
        family.get_or_create(labels).set(i64::try_from(*served).unwrap_or(i64::MAX));
    }
    *before = now.into_iter().map(|(labels, _)| labels).collect();
}
