//! What the edge counts beyond the shared families.

use std::sync::Arc;

use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge};
use ron_kernel::{Scope, topology::MetricSpec};
use types::Reason;

use crate::{ingress::Ingress, packs::Registry, ram::Ram};

/// Beyond the shared families.
pub(crate) const METRICS: [MetricSpec; 9] = [
    MetricSpec {
        name: "edge_rejects_total",
        labels: "reason",
        doc: "refusals by policy: amnesia, not_allowed, decompress_cap, body_cap, timeout, rate_limit, invalid_range, etag_invalid",
    },
    MetricSpec {
        name: "edge_cache_hits_total",
        labels: "",
        doc: "cache hits: requests served from RAM, a pack, a folder or the store",
    },
    MetricSpec {
        name: "edge_cache_misses_total",
        labels: "",
        doc: "cache misses, whether or not an origin had the object",
    },
    MetricSpec {
        name: "edge_inflight",
        labels: "",
        doc: "requests that wait for a disk or an origin, or are being sent",
    },
    MetricSpec {
        name: "edge_quarantined_total",
        labels: "",
        doc: "damage that was found; the bytes were not served",
    },
    MetricSpec { name: "edge_ram_bytes", labels: "", doc: "RAM that hot tiles and files take" },
    MetricSpec { name: "edge_ram_entries", labels: "", doc: "hot tiles and files in RAM" },
    MetricSpec { name: "edge_packs", labels: "state", doc: "packs that are served, mounting or refused" },
    MetricSpec {
        name: "edge_transfers",
        labels: "",
        doc: "responses that are being sent from a disk, or while they are fetched; they hold no place",
    },
];

/// The values of `edge_rejects_total`'s label.
const REJECTS: [&str; 8] = [
    "amnesia",
    "not_allowed",
    "decompress_cap",
    "body_cap",
    "timeout",
    "rate_limit",
    "invalid_range",
    "etag_invalid",
];

/// The states of a pack, as they are counted.
pub(crate) const PACK_STATES: [&str; 3] = ["served", "mounting", "refused"];

type Label = (&'static str, &'static str);

/// Counters with a handle each, because looking one up takes a lock.
#[derive(Clone, Debug)]
pub(crate) struct EdgeMetrics {
    rejects: [Counter; REJECTS.len()],
    pub(crate) hits: Counter,
    pub(crate) misses: Counter,
    pub(crate) quarantined: Counter,
    inflight: Gauge,
    ram_bytes: Gauge,
    ram_entries: Gauge,
    transfers: Gauge,
    packs: [Gauge; PACK_STATES.len()],
}

impl EdgeMetrics {
    /// Registers the families. Once for each node.
    pub(crate) fn new(scope: &Scope) -> Self {
        let service = ("service", scope.service());
        let rejects = Family::<[Label; 2], Counter>::default();
        let counters: [Family<[Label; 1], Counter>; 3] = Default::default();
        let gauges: [Family<[Label; 1], Gauge>; 4] = Default::default();
        let packs = Family::<[Label; 2], Gauge>::default();
        scope.all_metrics().register(|registry| {
            // The library adds `_total` itself.
            let name = |at: usize| METRICS[at].name.trim_end_matches("_total");
            registry.register(name(0), METRICS[0].doc, rejects.clone());
            for (family, at) in counters.iter().zip([1, 2, 4]) {
                registry.register(name(at), METRICS[at].doc, family.clone());
            }
            for (family, at) in gauges.iter().zip([3, 5, 6, 8]) {
                registry.register(name(at), METRICS[at].doc, family.clone());
            }
            registry.register(name(7), METRICS[7].doc, packs.clone());
        });
        let [hits, misses, quarantined] = counters.map(|family| family.get_or_create(&[service]).clone());
        let [inflight, ram_bytes, ram_entries, transfers] =
            gauges.map(|family| family.get_or_create(&[service]).clone());
        Self {
            rejects: REJECTS.map(|reason| rejects.get_or_create(&[service, ("reason", reason)]).clone()),
            hits,
            misses,
            quarantined,
            inflight,
            ram_bytes,
            ram_entries,
            transfers,
            packs: PACK_STATES.map(|state| packs.get_or_create(&[service, ("state", state)]).clone()),
        }
    }

    /// Counts a refusal, if it is one by policy.
    pub(crate) fn refused(&self, reason: Reason) {
        let label = reject(reason);
        if let Some(at) = label.and_then(|label| REJECTS.iter().position(|known| *known == label)) {
            self.rejects[at].inc();
        }
    }

    /// Publishes what is counted elsewhere, four times a second.
    pub(crate) fn sample(
        &self,
        scope: &Scope,
        ingress: &Arc<Ingress>,
        ram: &Arc<Ram>,
        packs: &Arc<Registry>,
    ) {
        let (metrics, ingress, ram, packs) =
            (self.clone(), Arc::clone(ingress), Arc::clone(ram), Arc::clone(packs));
        scope.sampled(move || {
            metrics.inflight.set(ingress.inside().into());
            metrics.transfers.set(ingress.sending().into());
            metrics.ram_bytes.set(i64::try_from(ram.bytes()).unwrap_or(i64::MAX));
            metrics.ram_entries.set(i64::try_from(ram.entries()).unwrap_or(i64::MAX));
            for (gauge, count) in metrics.packs.iter().zip(packs.count()) {
                gauge.set(count);
            }
        });
    }
}

/// What a refusal counts as in `edge_rejects_total`.
const fn reject(reason: Reason) -> Option<&'static str> {
    match reason {
        Reason::Amnesia => Some("amnesia"),
        Reason::NotAllowed => Some("not_allowed"),
        Reason::SourceExpands => Some("decompress_cap"),
        Reason::BodyCap | Reason::SourceCap => Some("body_cap"),
        Reason::DownstreamTimeout | Reason::RequestTimeout => Some("timeout"),
        Reason::Quota => Some("rate_limit"),
        Reason::InvalidRange => Some("invalid_range"),
        Reason::EtagInvalid => Some("etag_invalid"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_label_stands_for_a_reason() {
        for label in REJECTS {
            assert!(Reason::ALL.iter().any(|reason| reject(*reason) == Some(label)), "{label}");
        }
        for reason in Reason::ALL {
            assert!(reject(reason).is_none_or(|label| REJECTS.contains(&label)), "{reason}");
        }
    }
}
