//! What the gateway shows of its tenants: how many are known, which are the busiest, and whether writes are refused.

use std::{
    borrow::Cow,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use prometheus_client::metrics::{family::Family, gauge::Gauge};
use ron_kernel::{Scope, topology::MetricSpec};

use super::Shared;

/// Tenants with a label of their own; all others share one.
const LABELLED: usize = 20;

/// Beyond the shared families and those of admission.
pub(crate) const METRICS: [MetricSpec; 3] = [
    MetricSpec { name: "gateway_degraded", labels: "", doc: "1 while writes are refused, 0 otherwise" },
    MetricSpec { name: "gateway_tenants", labels: "", doc: "tenants that are known" },
    MetricSpec {
        name: "gateway_tenant_requests",
        labels: "tenant, class",
        doc: "requests answered for each of the 20 busiest tenants with a name since it became known, and for all others",
    },
];

type Labels = [(&'static str, Cow<'static, str>); 3];

/// Publishes what is counted, as long as the gateway is there.
pub(super) fn publish(scope: &Scope, shared: &Arc<Shared>) {
    let plain = Family::<[(&'static str, &'static str); 1], Gauge>::default;
    let (degraded, known, busiest) = (plain(), plain(), Family::<Labels, Gauge>::default());
    scope.all_metrics().register(|registry| {
        registry.register(METRICS[0].name, METRICS[0].doc, degraded.clone());
        registry.register(METRICS[1].name, METRICS[1].doc, known.clone());
        registry.register(METRICS[2].name, METRICS[2].doc, busiest.clone());
    });
    let service = scope.service();
    let (degraded, known) = (child(&degraded, service), child(&known, service));
    let (readiness, watched) = (scope.readiness().service(service), Arc::downgrade(shared));
    scope.sampled(move || {
        degraded.set(readiness.sheds_writes().into());
        known.set(
            watched.upgrade().map_or(0, |shared| i64::try_from(shared.tenants.len()).unwrap_or(i64::MAX)),
        );
    });
    let (watched, labelled) = (Arc::downgrade(shared), Mutex::default());
    scope.housekept(move || publish_busiest(&busiest, service, &watched, &labelled));
}

fn child(family: &Family<[(&'static str, &'static str); 1], Gauge>, service: &'static str) -> Gauge {
    family.get_or_create(&[("service", service)]).clone()
}

/// Publishes the busiest tenants and takes the labels of those that no longer are.
fn publish_busiest(
    family: &Family<Labels, Gauge>,
    service: &'static str,
    shared: &Weak<Shared>,
    labelled: &Mutex<Vec<Labels>>,
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
    let mut before = labelled.lock().unwrap_or_else(PoisonError::into_inner);
    for gone in before.iter().filter(|labels| now.iter().all(|(kept, _)| kept != *labels)) {
        family.remove(gone);
    }
    for (labels, served) in &now {
        family.get_or_create(labels).set(i64::try_from(*served).unwrap_or(i64::MAX));
    }
    *before = now.into_iter().map(|(labels, _)| labels).collect();
}
