//! What is counted of certificates and of the attempts to obtain them.

use std::borrow::Cow;

use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge};
use ron_kernel::{Scope, topology::MetricSpec};
use ron_transport::tls::ServedCertificate;

use super::Acme;

pub(crate) const METRICS: [MetricSpec; 3] = [
    MetricSpec {
        name: "gateway_certificate_expiry_timestamp_seconds",
        labels: "name",
        doc: "Expiry of the certificate that is served for a name, as Unix time; `default` is the one for other names",
    },
    MetricSpec {
        name: "gateway_acme_attempts_total",
        labels: "result",
        doc: "Attempts to obtain a certificate by result: issued, outage, refused or rate_limited",
    },
    MetricSpec {
        name: "gateway_acme_next_attempt_timestamp_seconds",
        labels: "name",
        doc: "Time of the next attempt to obtain the certificate of a name, as Unix time",
    },
];

type Labels = [(&'static str, Cow<'static, str>); 2];

/// Counts attempts by result.
#[derive(Debug)]
pub(super) struct Attempts {
    pub(super) issued: Counter,
    pub(super) outage: Counter,
    pub(super) refused: Counter,
    pub(super) rate_limited: Counter,
}

impl Attempts {
    pub(super) fn register(scope: &Scope) -> Self {
        let family = Family::<Labels, Counter>::default();
        // The text encoder adds `_total` to counters.
        let name = METRICS[1].name.trim_end_matches("_total");
        scope.all_metrics().register(|registry| registry.register(name, METRICS[1].doc, family.clone()));
        let of = |result| {
            family
                .get_or_create(&[("service", scope.service().into()), ("result", Cow::Borrowed(result))])
                .clone()
        };
        Self {
            issued: of("issued"),
            outage: of("outage"),
            refused: of("refused"),
            rate_limited: of("rate_limited"),
        }
    }
}

/// Publishes when the certificates in use end, and when others are asked for.
pub(crate) fn publish(
    scope: &Scope,
    acme: &Acme,
    certificates: impl Fn() -> Vec<ServedCertificate> + Send + Sync + 'static,
) {
    let (expiry, next) = (Family::<Labels, Gauge>::default(), Family::<Labels, Gauge>::default());
    scope.all_metrics().register(|registry| {
        registry.register(METRICS[0].name, METRICS[0].doc, expiry.clone());
        registry.register(METRICS[2].name, METRICS[2].doc, next.clone());
    });
    let (acme, service) = (acme.clone(), scope.service());
    scope.sampled(move || {
        // Anew each time, so that names that are gone leave nothing behind.
        expiry.clear();
        next.clear();
        let set = |family: &Family<Labels, Gauge>, name: String, at: u64| {
            let at = i64::try_from(at).unwrap_or(i64::MAX);
            family.get_or_create(&[("service", service.into()), ("name", name.into())]).set(at);
        };
        for certificate in certificates() {
            if let Some(end) = certificate.not_after {
                set(&expiry, certificate.name.unwrap_or_else(|| "default".to_owned()), end.as_secs());
            }
        }
        for name in acme.status().iter() {
            set(&next, name.name.clone(), name.next_attempt);
        }
    });
}
