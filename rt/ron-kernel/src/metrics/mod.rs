//! The shared metric families, and handles that a hot path can keep.
//!
//! A [`Family`] lookup takes a lock, so nothing looks one up per request: a service asks once for the children it
//! needs ([`ServiceMetrics`]) and holds them. Labels come from declared names or bounded tables, never from a client.

mod families;
mod histogram;
mod route;
mod routes;
mod text;

use std::{
    borrow::Cow,
    sync::{Arc, Mutex},
};

use prometheus_client::registry::Registry;
pub use prometheus_client::{
    self as client,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
};
use types::Reason;

use crate::lock::lock;
use routes::Routes;

pub use families::Families;
pub use histogram::{LatencyCounts, LatencyHistogram};
pub use route::RouteMetrics;
pub use text::{OPENMETRICS, PROMETHEUS_TEXT};

/// A label set, in the order in which it is printed.
pub type Labels = Vec<(&'static str, Cow<'static, str>)>;

/// Every metric of one node.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    families: Arc<Families>,
    routes: Routes,
}

impl Metrics {
    /// The families of a node called `node`, which becomes a constant label.
    #[must_use]
    pub fn new(node: &str) -> Self {
        let label = (Cow::Borrowed("node"), Cow::Owned(node.to_owned()));
        let mut registry = Registry::with_labels(std::iter::once(label));
        let families = Arc::new(Families::register(&mut registry));
        Self { registry: Arc::new(Mutex::new(registry)), families, routes: Routes::default() }
    }

    /// Lets a service add families of its own. Done once, while it is built.
    pub fn register(&self, add: impl FnOnce(&mut Registry)) {
        add(&mut lock(&self.registry));
    }

    /// The handles of one service.
    #[must_use]
    pub fn service(&self, service: &'static str) -> ServiceMetrics {
        ServiceMetrics::new(service, &self.families, &self.routes)
    }

    /// The routes that are served, by service and name.
    #[must_use]
    pub fn routes(&self) -> Vec<RouteMetrics> {
        self.routes.all()
    }

    /// Removes the series of routes that were forgotten and that nobody holds any more. The housekeeping calls it.
    pub(crate) fn sweep_routes(&self) {
        self.routes.sweep();
    }

    /// The shared families themselves.
    #[must_use]
    pub fn families(&self) -> &Families {
        &self.families
    }

    /// All metrics as OpenMetrics text, in a stable order.
    #[must_use]
    pub fn openmetrics(&self) -> String {
        let registry = lock(&self.registry);
        text::openmetrics(&registry)
    }

    /// All metrics in the Prometheus text format, in a stable order.
    #[must_use]
    pub fn prometheus_text(&self) -> String {
        text::to_prometheus(&self.openmetrics())
    }
}

/// The metrics of one service, with its `service` label filled in.
#[derive(Clone, Debug)]
pub struct ServiceMetrics {
    service: &'static str,
    families: Arc<Families>,
    routes: Routes,
    /// One counter per reason, in the order of [`Reason::ALL`], because refusals happen under load.
    rejected: Arc<[Counter]>,
}

/// The counters of one queue.
#[derive(Clone, Debug)]
pub struct QueueMetrics {
    /// Number of queued items, sampled.
    pub depth: Gauge,
    /// Items that did not get through: refused, displaced or timed out.
    pub dropped: Counter,
    /// Callers told that the queue is full.
    pub busy: Counter,
}

/// The counters of one kind of task.
#[derive(Clone, Debug)]
pub struct TaskMetrics {
    /// Number of started tasks.
    pub spawned: Counter,
    /// Ended by force after the drain deadline.
    pub aborted: Counter,
    /// Ended early because the node is stopping.
    pub canceled: Counter,
    /// Ended by a panic, which was caught.
    pub panicked: Counter,
}

impl ServiceMetrics {
    fn new(service: &'static str, families: &Arc<Families>, routes: &Routes) -> Self {
        let rejected = Reason::ALL
            .iter()
            .map(|reason| child(&families.rejected, service, [("reason", reason.as_str().into())]))
            .collect();
        Self { service, families: families.clone(), routes: routes.clone(), rejected }
    }

    /// The service these belong to.
    #[must_use]
    pub fn service(&self) -> &'static str {
        self.service
    }

    /// The counters of a queue whose callers come in through `endpoint`.
    #[must_use]
    pub fn queue(&self, queue: &'static str, endpoint: &'static str) -> QueueMetrics {
        let f = &self.families;
        QueueMetrics {
            depth: child(&f.queue_depth, self.service, [("queue", queue.into())]),
            dropped: child(&f.queue_dropped, self.service, [("queue", queue.into())]),
            busy: child(
                &f.busy_rejections,
                self.service,
                [("endpoint", endpoint.into()), ("queue", queue.into())],
            ),
        }
    }

    /// The counters of a kind of task.
    #[must_use]
    pub fn tasks(&self, kind: &'static str) -> TaskMetrics {
        let f = &self.families;
        let label = || [("kind", Cow::Borrowed(kind))];
        TaskMetrics {
            spawned: child(&f.tasks_spawned, self.service, label()),
            aborted: child(&f.tasks_aborted, self.service, label()),
            canceled: child(&f.tasks_canceled, self.service, label()),
            panicked: child(&f.tasks_panicked, self.service, label()),
        }
    }

    /// Restarts of a task.
    #[must_use]
    pub fn restarts(&self, task: &'static str) -> Counter {
        child(&self.families.service_restarts, self.service, [("task", task.into())])
    }

    /// Timeouts of an operation: read, write, connect, rpc, fill, handshake.
    #[must_use]
    pub fn io_timeouts(&self, op: &'static str) -> Counter {
        child(&self.families.io_timeouts, self.service, [("op", op.into())])
    }

    /// Retries of an operation.
    #[must_use]
    pub fn retries(&self, op: &'static str) -> Counter {
        child(&self.families.backoff_retries, self.service, [("op", op.into())])
    }

    /// Events that slow subscribers of a bus lost.
    #[must_use]
    pub fn bus_lagged(&self, bus: &'static str) -> Counter {
        child(&self.families.bus_lagged, self.service, [("bus", bus.into())])
    }

    /// The gauge that is 1 while `cause` stands.
    #[must_use]
    pub fn degraded(&self, cause: &'static str) -> Gauge {
        child(&self.families.readyz_degraded, self.service, [("cause", cause.into())])
    }

    /// Returns the counter of refusals with this reason.
    #[must_use]
    pub fn rejected(&self, reason: Reason) -> &Counter {
        &self.rejected[reason as usize]
    }

    /// Open connections of a listener.
    #[must_use]
    pub fn connections(&self, listener: &'static str) -> Gauge {
        child(&self.families.connections, self.service, [("listener", listener.into())])
    }

    /// Connections refused by a listener because of `cap` (total or per_client).
    #[must_use]
    pub fn connections_refused(&self, listener: &'static str, cap: &'static str) -> Counter {
        let labels = [("listener", listener.into()), ("cap", cap.into())];
        child(&self.families.connections_refused, self.service, labels)
    }

    /// Idle connections of a listener closed to make room at its total cap.
    #[must_use]
    pub fn connections_evicted(&self, listener: &'static str) -> Counter {
        child(&self.families.connections_evicted, self.service, [("listener", listener.into())])
    }

    /// 1 while a runtime is silent: a core, by its number, or `control`.
    #[must_use]
    pub fn core_silent(&self, core: impl Into<Cow<'static, str>>) -> Gauge {
        child(&self.families.core_silent, self.service, [("core", core.into())])
    }

    /// Connections placed on core `index`.
    #[must_use]
    pub fn core_connections(&self, index: usize) -> Gauge {
        child(&self.families.core_connections, self.service, [("core", index.to_string().into())])
    }

    /// The request metrics of one route; the same for every caller.
    #[must_use]
    pub fn route(&self, route: impl Into<Cow<'static, str>>) -> RouteMetrics {
        self.routes.get(self.service, route.into(), &self.families)
    }

    /// The route is no longer served. Its series go with a later housekeeping, once nobody holds its
    /// [`RouteMetrics`]; asking for it again keeps them.
    pub fn forget_route(&self, route: &str) {
        self.routes.forget(self.service, route);
    }
}

/// The child of a family for a service and its further labels.
fn child<M, const N: usize>(
    family: &Family<Labels, M>,
    service: &'static str,
    labels: [(&'static str, Cow<'static, str>); N],
) -> M
where
    M: Clone + Default,
{
    family.get_or_create(&label_set(service, labels)).clone()
}

/// The labels of a service's child.
fn label_set<const N: usize>(
    service: &'static str,
    labels: [(&'static str, Cow<'static, str>); N],
) -> Labels {
    let mut set: Labels = Vec::with_capacity(N + 1);
    set.push(("service", service.into()));
    set.extend(labels);
    set
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_is_the_kernels_from_the_first_scrape_on() {
        let metrics = Metrics::new("n");
        metrics.families().config_update.inc();
        let text = metrics.prometheus_text();
        for line in ["config_update_total{L} 1", "config_reload_failed{L} 0"] {
            let line = line.replace('L', "node=\"n\",service=\"kernel\"");
            assert!(text.contains(&line), "{line} is missing in\n{text}");
        }
    }

    #[test]
    fn each_reason_counts_under_its_own_name() {
        let metrics = Metrics::new("n");
        let service = metrics.service("svc");
        for reason in Reason::ALL {
            service.rejected(reason).inc();
        }
        let text = metrics.prometheus_text();
        for reason in Reason::ALL {
            let line = format!("rejected_total{{node=\"n\",service=\"svc\",reason=\"{reason}\"}} 1");
            assert!(text.contains(&line), "{line} is missing in\n{text}");
        }
    }
}
