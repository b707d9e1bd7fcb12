//! What the listener for applications counts beyond the shared families.

use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge};
use ron_kernel::{Scope, topology::MetricSpec};

use super::places::Full;
use crate::Delivery;

/// Beyond the shared families.
pub(super) const METRICS: [MetricSpec; 4] = [
    MetricSpec {
        name: "api_subscribers",
        labels: "",
        doc: "subscribers of applications, by event streams and WebSockets",
    },
    MetricSpec {
        name: "api_refused_total",
        labels: "limit",
        doc: "subscriptions and publications that were refused, by the limit that was met: subscribers of the node, of a client, of a token; publications at once, of a client, of a token; subscriptions that an application begins",
    },
    MetricSpec { name: "api_events_total", labels: "event", doc: "events sent to subscribers, by kind" },
    MetricSpec {
        name: "api_missed_total",
        labels: "",
        doc: "publications that subscribers missed, because they read too slowly or resumed too late",
    },
];

const EVENTS: [&str; 5] = ["publication", "gap", "lagging", "not_resumed", "no_room"];
/// The names of [`TooMuch`], in its order.
const RATES: [&str; 4] = ["publishing", "publish_client", "publish_token", "subscribe"];

type Label = (&'static str, &'static str);

/// Counters with a handle each, because looking one up takes a lock.
#[derive(Debug)]
pub(super) struct ApiMetrics {
    pub(super) subscribers: Gauge,
    places: [Counter; Full::ALL.len()],
    publishing: [Counter; RATES.len()],
    events: [Counter; EVENTS.len()],
    missed: Counter,
}

/// Why a publication or a subscription is refused before anybody looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TooMuch {
    /// The maximum number of publications wait for their verdicts.
    Publishing,
    /// The limit of one client address.
    Client,
    /// With this token, or from an address that shows none.
    Token,
    /// Subscriptions with this token, or from an address that shows none.
    Subscribe,
}

impl ApiMetrics {
    /// Registers the families. Once for each node.
    pub(super) fn new(scope: &Scope) -> Self {
        let service = ("service", scope.service());
        let subscribers = Family::<[Label; 1], Gauge>::default();
        let missed = Family::<[Label; 1], Counter>::default();
        let labelled: [Family<[Label; 2], Counter>; 2] = Default::default();
        scope.all_metrics().register(|registry| {
            // The library adds `_total` itself.
            let name = |at: usize| METRICS[at].name.trim_end_matches("_total");
            registry.register(name(0), METRICS[0].doc, subscribers.clone());
            for (family, at) in labelled.iter().zip([1, 2]) {
                registry.register(name(at), METRICS[at].doc, family.clone());
            }
            registry.register(name(3), METRICS[3].doc, missed.clone());
        });
        let [refused, events] = labelled;
        let child = |family: &Family<[Label; 2], Counter>, label: Label| {
            family.get_or_create(&[service, label]).clone()
        };
        Self {
            subscribers: subscribers.get_or_create(&[service]).clone(),
            places: Full::ALL.map(|full| child(&refused, ("limit", full.as_str()))),
            publishing: RATES.map(|limit| child(&refused, ("limit", limit))),
            events: EVENTS.map(|event| child(&events, ("event", event))),
            missed: missed.get_or_create(&[service]).clone(),
        }
    }

    /// Counts a subscription that was refused.
    pub(super) fn no_place(&self, full: Full) {
        self.places[full as usize].inc();
    }

    /// Counts a publication or a subscription that was refused.
    pub(super) fn too_much(&self, why: TooMuch) {
        self.publishing[why as usize].inc();
    }

    /// Counts an event that is told.
    pub(super) fn told(&self, delivery: &Delivery) {
        let at = match delivery {
            Delivery::Publication { .. } => 0,
            Delivery::Gap(_) => 1,
            Delivery::Lagging(missed) => {
                self.missed.inc_by(*missed);
                2
            }
            Delivery::NotResumed => 3,
            Delivery::NoRoom(_) => 4,
        };
        self.events[at].inc();
    }
}
