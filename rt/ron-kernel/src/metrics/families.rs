//! The families every service shares, registered once per node.

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use super::{Labels, LatencyHistogram};

/// One family each, all with the label `service`.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "the help texts below say it, where an operator reads them too")]
pub struct Families {
    pub queue_depth: Family<Labels, Gauge>,
    pub queue_dropped: Family<Labels, Counter>,
    pub busy_rejections: Family<Labels, Counter>,
    pub tasks_spawned: Family<Labels, Counter>,
    pub tasks_aborted: Family<Labels, Counter>,
    pub tasks_canceled: Family<Labels, Counter>,
    pub tasks_panicked: Family<Labels, Counter>,
    pub service_restarts: Family<Labels, Counter>,
    pub io_timeouts: Family<Labels, Counter>,
    pub backoff_retries: Family<Labels, Counter>,
    pub bus_lagged: Family<Labels, Counter>,
    pub rejected: Family<Labels, Counter>,
    pub readyz_degraded: Family<Labels, Gauge>,
    pub config_update: Counter,
    pub config_reload_failed: Gauge,
    pub log_lines_suppressed: Counter,
    pub http_requests: Family<Labels, Counter>,
    pub request_latency: Family<Labels, LatencyHistogram>,
    pub inflight_requests: Family<Labels, Gauge>,
    pub connections: Family<Labels, Gauge>,
    pub connections_refused: Family<Labels, Counter>,
    pub connections_evicted: Family<Labels, Counter>,
    pub core_silent: Family<Labels, Gauge>,
    pub core_connections: Family<Labels, Gauge>,
}

impl Families {
    /// Registers all of them. The text encoder adds `_total` to counters.
    pub(super) fn register(registry: &mut Registry) -> Self {
        let f = Self::default();
        registry.register("queue_depth", "Items waiting in a queue, sampled", f.queue_depth.clone());
        registry.register(
            "queue_dropped",
            "Items a queue refused, displaced or timed out",
            f.queue_dropped.clone(),
        );
        registry.register("busy_rejections", "Callers told that a queue is full", f.busy_rejections.clone());
        registry.register("tasks_spawned", "Tasks started", f.tasks_spawned.clone());
        registry.register(
            "tasks_aborted",
            "Tasks ended by force after the drain deadline",
            f.tasks_aborted.clone(),
        );
        registry.register(
            "tasks_canceled",
            "Tasks ended early because the node stops",
            f.tasks_canceled.clone(),
        );
        registry.register(
            "tasks_panicked",
            "Tasks that panicked; the panic was caught",
            f.tasks_panicked.clone(),
        );
        registry.register("service_restarts", "Restarts of a supervised task", f.service_restarts.clone());
        registry.register("io_timeouts", "Operations that took too long", f.io_timeouts.clone());
        registry.register("backoff_retries", "Retries after a backoff", f.backoff_retries.clone());
        registry.register("bus_lagged", "Events lost by slow subscribers", f.bus_lagged.clone());
        registry.register("rejected", "Requests refused, by reason", f.rejected.clone());
        registry.register("readyz_degraded", "1 while the cause stands", f.readyz_degraded.clone());
        registry.register("http_requests", "Requests answered", f.http_requests.clone());
        registry.register(
            "request_latency_seconds",
            "From the request's head to the response's head",
            f.request_latency.clone(),
        );
        registry.register(
            "inflight_requests",
            "Requests being answered, sampled",
            f.inflight_requests.clone(),
        );
        registry.register("connections", "Open connections", f.connections.clone());
        registry.register(
            "connections_refused",
            "Connections refused by a cap",
            f.connections_refused.clone(),
        );
        registry.register(
            "connections_evicted",
            "Idle connections closed to make room at the cap",
            f.connections_evicted.clone(),
        );
        registry.register(
            "core_silent",
            "1 while a runtime has not answered for a second",
            f.core_silent.clone(),
        );
        registry.register("core_connections", "Connections placed on a core", f.core_connections.clone());
        f.register_configuration(registry);
        f
    }

    /// A node has one configuration and one log, and the kernel keeps them: these have no other label than that.
    fn register_configuration(&self, registry: &mut Registry) {
        let kernel = registry.sub_registry_with_label(("service".into(), "kernel".into()));
        kernel.register(
            "config_update",
            "Configurations applied after the first",
            self.config_update.clone(),
        );
        kernel.register(
            "config_reload_failed",
            "1 while the file on disk is not the one in force",
            self.config_reload_failed.clone(),
        );
        kernel.register(
            "log_lines_suppressed",
            "Log lines that were dropped: one place wrote too many, or nobody read them",
            self.log_lines_suppressed.clone(),
        );
    }
}
