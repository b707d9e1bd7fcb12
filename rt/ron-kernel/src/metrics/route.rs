//! Request metrics of one route, with a cached handle for every method and status that occurs.

use std::{
    borrow::Cow,
    sync::{Arc, OnceLock},
    time::Duration,
};

use prometheus_client::metrics::{counter::Counter, gauge::Gauge};

use super::{Families, LatencyCounts, LatencyHistogram, child, label_set};
use crate::{InFlight, InFlightHere};

/// Methods that get a label of their own; any other is `other`, so that a client cannot make labels.
const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT", "other"];
const FIRST_STATUS: u16 = 100;
/// Statuses 100 to 599.
const STATUSES: usize = 500;

type Label = (&'static str, Cow<'static, str>);

/// The request metrics of one route. Cheap to clone; recording takes no lock after the first time.
#[derive(Clone, Debug)]
pub struct RouteMetrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    service: &'static str,
    route: Cow<'static, str>,
    families: Families,
    methods: [OnceLock<PerMethod>; METHODS.len()],
    inflight: InFlight,
    inflight_gauge: Gauge,
}

#[derive(Debug)]
struct PerMethod {
    latency: LatencyHistogram,
    statuses: Box<[OnceLock<Counter>]>,
}

impl RouteMetrics {
    pub(super) fn new(service: &'static str, route: Cow<'static, str>, families: &Families) -> Self {
        let inflight_gauge = child(&families.inflight_requests, service, [("route", route.clone())]);
        Self(Arc::new(Inner {
            service,
            route,
            families: families.clone(),
            methods: Default::default(),
            inflight: InFlight::new(),
            inflight_gauge,
        }))
    }

    /// Returns the name of the route.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.route
    }

    /// The service it belongs to.
    #[must_use]
    pub fn service(&self) -> &'static str {
        self.0.service
    }

    /// Requests answered so far, by how long they took.
    #[must_use]
    pub fn latency(&self) -> LatencyCounts {
        let mut sum = LatencyCounts::default();
        for per_method in self.used_methods() {
            sum.iter_mut().zip(per_method.latency.counts()).for_each(|(sum, count)| *sum += count);
        }
        sum
    }

    /// Requests answered so far with 1xx, 2xx, 3xx, 4xx and 5xx. Looks at every status: for whoever is shown it, not for
    /// whoever is answered.
    #[must_use]
    pub fn by_status_class(&self) -> [u64; STATUSES / 100] {
        let mut sum = [0; STATUSES / 100];
        for per_method in self.used_methods() {
            for (status, counter) in per_method.statuses.iter().enumerate() {
                sum[status / 100] += counter.get().map_or(0, Counter::get);
            }
        }
        sum
    }

    /// Returns the number of requests in progress.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.0.inflight.count() as u64
    }

    fn used_methods(&self) -> impl Iterator<Item = &PerMethod> {
        self.0.methods.iter().filter_map(OnceLock::get)
    }

    /// Counts a request as in flight until the guard is dropped.
    #[must_use]
    pub fn enter(&self) -> InFlightHere<'_> {
        self.0.inflight.enter_here()
    }

    /// Records an answered request.
    pub fn record(&self, method: &str, status: u16, took: Duration) {
        let method_index = METHODS.iter().position(|m| *m == method).unwrap_or(METHODS.len() - 1);
        let per_method = self.0.methods[method_index].get_or_init(|| self.per_method(METHODS[method_index]));
        per_method.latency.observe(took);
        let status = status.clamp(FIRST_STATUS, 599);
        let status_index = usize::from(status - FIRST_STATUS);
        let counter =
            per_method.statuses[status_index].get_or_init(|| self.counter(METHODS[method_index], status));
        counter.inc();
    }

    /// Publishes the in-flight count; the sampler calls it.
    pub fn sample(&self) {
        self.0.inflight_gauge.set(i64::try_from(self.0.inflight.count()).unwrap_or(i64::MAX));
    }

    /// Whether anybody but the list of routes holds it.
    pub(super) fn is_held(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// Removes every series that was made for it.
    pub(super) fn remove(&self) {
        let (service, families) = (self.0.service, &self.0.families);
        families.inflight_requests.remove(&label_set(service, [("route", self.0.route.clone())]));
        for (method, per_method) in METHODS.iter().zip(&self.0.methods) {
            let Some(per_method) = per_method.get() else { continue };
            families.request_latency.remove(&label_set(service, self.latency_labels(method)));
            for (status, counter) in (FIRST_STATUS..).zip(&per_method.statuses) {
                if counter.get().is_some() {
                    families.http_requests.remove(&label_set(service, self.counter_labels(method, status)));
                }
            }
        }
    }

    fn per_method(&self, method: &'static str) -> PerMethod {
        PerMethod {
            latency: child(&self.0.families.request_latency, self.0.service, self.latency_labels(method)),
            statuses: (0..STATUSES).map(|_| OnceLock::new()).collect(),
        }
    }

    fn counter(&self, method: &'static str, status: u16) -> Counter {
        child(&self.0.families.http_requests, self.0.service, self.counter_labels(method, status))
    }

    fn latency_labels(&self, method: &'static str) -> [Label; 2] {
        [("route", self.0.route.clone()), ("method", method.into())]
    }

    fn counter_labels(&self, method: &'static str, status: u16) -> [Label; 3] {
        let [route, method] = self.latency_labels(method);
        [route, method, ("status", status.to_string().into())]
    }
}

#[cfg(test)]
mod tests {
    use crate::metrics::Metrics;
    use std::time::Duration;

    #[test]
    fn an_invented_method_cannot_make_a_label() {
        let metrics = Metrics::new("n");
        let route = metrics.service("svc").route("/");
        route.record("GET", 200, Duration::from_millis(1));
        route.record("BREW", 418, Duration::from_millis(1));
        let text = metrics.prometheus_text();
        assert!(text.contains("route=\"/\",method=\"GET\",status=\"200\"} 1"), "{text}");
        assert!(text.contains("route=\"/\",method=\"other\",status=\"418\"} 1"), "{text}");
        assert!(!text.contains("BREW"));
    }

    #[test]
    fn what_was_recorded_can_be_read_back() {
        let metrics = Metrics::new("n");
        let route = metrics.service("svc").route("/");
        for (method, status) in [("GET", 200), ("GET", 429), ("POST", 204), ("GET", 99), ("GET", 600)] {
            route.record(method, status, Duration::from_secs(60));
        }
        assert_eq!(route.by_status_class(), [1, 2, 0, 1, 1]);
        assert_eq!(route.latency().iter().sum::<u64>(), 5);
        assert_eq!(route.latency().last(), Some(&5));
        let routes = metrics.routes();
        assert_eq!(routes.iter().map(|r| (r.service(), r.name())).collect::<Vec<_>>(), [("svc", "/")]);
    }

    #[test]
    fn requests_in_flight_are_sampled() {
        let metrics = Metrics::new("n");
        let route = metrics.service("svc").route("/");
        let guard = route.enter();
        route.sample();
        assert!(
            metrics.prometheus_text().contains("inflight_requests{node=\"n\",service=\"svc\",route=\"/\"} 1")
        );
        drop(guard);
        route.sample();
        assert!(
            metrics.prometheus_text().contains("inflight_requests{node=\"n\",service=\"svc\",route=\"/\"} 0")
        );
    }
}
