//! What is counted of limits that gateways share.

use std::borrow::Cow;

use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge};
use ron_kernel::{Scope, topology::MetricSpec};

pub(crate) const METRICS: [MetricSpec; 5] = [
    MetricSpec {
        name: "gateway_quota_store_up",
        labels: "",
        doc: "1 while the store of shared limits answers, 0 while it does not, and without one",
    },
    MetricSpec {
        name: "gateway_quota_gateways",
        labels: "",
        doc: "gateways that share limits, this one included; 0 if limits are not shared",
    },
    MetricSpec {
        name: "gateway_quota_shared_limits",
        labels: "",
        doc: "shared limits that were used lately and are looked after",
    },
    MetricSpec {
        name: "gateway_quota_asks_total",
        labels: "result",
        doc: "questions to the store by result: granted, short (less was left than wanted) or failed",
    },
    MetricSpec {
        name: "gateway_quota_cut_off_total",
        labels: "",
        doc: "requests that were judged without the store, which owed an answer for too long",
    },
];

type Labels = [(&'static str, Cow<'static, str>); 2];

/// The metrics, registered.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "without it nothing is shared"))]
pub(super) struct FleetMetrics {
    pub(super) up: Gauge,
    pub(super) gateways: Gauge,
    pub(super) limits: Gauge,
    pub(super) granted: Counter,
    pub(super) short: Counter,
    pub(super) failed: Counter,
    pub(super) cut_off: Counter,
}

impl FleetMetrics {
    pub(super) fn register(scope: &Scope) -> Self {
        let gauge = |spec: &MetricSpec| {
            let family = Family::<[(&'static str, &'static str); 1], Gauge>::default();
            scope.all_metrics().register(|registry| registry.register(spec.name, spec.doc, family.clone()));
            family.get_or_create(&[("service", scope.service())]).clone()
        };
        let asks = Family::<Labels, Counter>::default();
        let cut_off = Family::<[(&'static str, &'static str); 1], Counter>::default();
        scope.all_metrics().register(|registry| {
            // The text encoder adds `_total` to counters.
            registry.register(METRICS[3].name.trim_end_matches("_total"), METRICS[3].doc, asks.clone());
            registry.register(METRICS[4].name.trim_end_matches("_total"), METRICS[4].doc, cut_off.clone());
        });
        let of = |result| {
            asks.get_or_create(&[("service", scope.service().into()), ("result", Cow::Borrowed(result))])
                .clone()
        };
        Self {
            up: gauge(&METRICS[0]),
            gateways: gauge(&METRICS[1]),
            limits: gauge(&METRICS[2]),
            granted: of("granted"),
            short: of("short"),
            failed: of("failed"),
            cut_off: cut_off.get_or_create(&[("service", scope.service())]).clone(),
        }
    }
}
