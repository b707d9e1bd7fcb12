//! The routes that have metrics: the same for every caller, and forgotten once nobody serves them any more.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
};

use super::{Families, RouteMetrics};
use crate::lock::lock;

/// Every route of a node by service and name: those in the configuration, and those that requests still hold.
#[derive(Clone, Debug, Default)]
pub(super) struct Routes(Arc<Mutex<BTreeMap<Key, Known>>>);

type Key = (&'static str, Cow<'static, str>);

#[derive(Debug)]
struct Known {
    metrics: RouteMetrics,
    gone: bool,
}

impl Routes {
    /// The metrics of a route; one that was to be forgotten stays.
    pub(super) fn get(
        &self,
        service: &'static str,
        route: Cow<'static, str>,
        families: &Families,
    ) -> RouteMetrics {
        let mut all = self.lock();
        let known = all
            .entry((service, route.clone()))
            .or_insert_with(|| Known { metrics: RouteMetrics::new(service, route, families), gone: false });
        known.gone = false;
        known.metrics.clone()
    }

    /// Returns the metrics of all routes that are in use.
    pub(super) fn all(&self) -> Vec<RouteMetrics> {
        self.lock().values().filter(|known| !known.gone).map(|known| known.metrics.clone()).collect()
    }

    pub(super) fn forget(&self, service: &'static str, route: &str) {
        if let Some(known) = self.lock().get_mut(&(service, Cow::Owned(route.to_owned()))) {
            known.gone = true;
        }
    }

    /// Removes those that are gone and that nobody holds: a request that is still in progress could bring them back.
    pub(super) fn sweep(&self) {
        self.lock().retain(|_, known| {
            let kept = !known.gone || known.metrics.is_held();
            if !kept {
                known.metrics.remove();
            }
            kept
        });
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Known>> {
        lock(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::metrics::Metrics;

    fn series(metrics: &Metrics, route: &str) -> usize {
        let label = format!("route=\"{route}\"");
        metrics.prometheus_text().lines().filter(|line| line.contains(&label)).count()
    }

    #[test]
    fn a_route_that_is_gone_leaves_no_series_and_the_others_stay() {
        let metrics = Metrics::new("n");
        let service = metrics.service("svc");
        for name in ["/old", "/kept"] {
            let route = service.route(name);
            route.record("GET", 200, Duration::from_millis(1));
            route.record("GET", 503, Duration::from_millis(1));
            route.record("BREW", 999, Duration::from_millis(1));
        }
        let each = series(&metrics, "/kept");
        assert_eq!(series(&metrics, "/old"), each);
        service.forget_route("/old");
        assert_eq!(series(&metrics, "/old"), each, "it goes with the next sweep");
        metrics.sweep_routes();
        assert_eq!((series(&metrics, "/old"), series(&metrics, "/kept")), (0, each));
        service.forget_route("/never-was");
        metrics.sweep_routes();
        assert_eq!(series(&metrics, "/kept"), each);
    }

    #[test]
    fn a_route_stays_until_its_last_request_has_ended() {
        let metrics = Metrics::new("n");
        let service = metrics.service("svc");
        let held = service.route("/old");
        service.forget_route("/old");
        metrics.sweep_routes();
        held.record("GET", 200, Duration::from_millis(1));
        assert!(series(&metrics, "/old") > 0);
        drop(held);
        metrics.sweep_routes();
        assert_eq!(series(&metrics, "/old"), 0);
    }

    #[test]
    fn a_route_that_comes_back_goes_on_counting() {
        let metrics = Metrics::new("n");
        let service = metrics.service("svc");
        service.route("/").record("GET", 200, Duration::from_millis(1));
        service.forget_route("/");
        service.route("/").record("GET", 200, Duration::from_millis(1));
        metrics.sweep_routes();
        let text = metrics.prometheus_text();
        assert!(text.contains("route=\"/\",method=\"GET\",status=\"200\"} 2"), "{text}");
    }

    #[test]
    fn services_do_not_forget_each_others_routes() {
        let metrics = Metrics::new("n");
        let (one, other) = (metrics.service("one"), metrics.service("other"));
        drop((one.route("/"), other.route("/")));
        one.forget_route("/");
        metrics.sweep_routes();
        let text = metrics.prometheus_text();
        assert!(text.contains("inflight_requests{node=\"n\",service=\"other\",route=\"/\"} 0"), "{text}");
        assert!(!text.contains("inflight_requests{node=\"n\",service=\"one\""), "{text}");
    }
}
