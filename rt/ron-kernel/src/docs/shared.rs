//! The metric families every service shares, as its page lists them.

/// Name, labels beside `node` and `service`, and meaning.
pub const SHARED_METRICS: [(&str, &str, &str); 24] = [
    ("queue_depth", "queue", "Items waiting in a queue, sampled"),
    ("queue_dropped_total", "queue", "Items a queue refused, displaced or timed out"),
    ("busy_rejections_total", "endpoint, queue", "Callers told that a queue is full"),
    ("tasks_spawned_total", "kind", "Tasks started"),
    ("tasks_aborted_total", "kind", "Tasks ended by force after the drain deadline"),
    ("tasks_canceled_total", "kind", "Tasks ended early because the node stops"),
    ("tasks_panicked_total", "kind", "Tasks that panicked; the panic was caught"),
    ("service_restarts_total", "task", "Restarts of a supervised task"),
    ("io_timeouts_total", "op", "Operations that took too long"),
    ("backoff_retries_total", "op", "Retries after a backoff"),
    ("bus_lagged_total", "bus", "Events lost by slow subscribers"),
    ("rejected_total", "reason", "Requests refused, by reason"),
    ("readyz_degraded", "cause", "1 while the cause stands"),
    ("config_update_total", "", "Configurations applied after the first"),
    ("config_reload_failed", "", "1 while the file on disk is not the one in force"),
    (
        "log_lines_suppressed_total",
        "",
        "Log lines that were dropped: one place wrote too many, or nobody read them",
    ),
    ("http_requests_total", "route, method, status", "Requests answered"),
    ("request_latency_seconds", "route, method", "From the request's head to the response's head"),
    ("inflight_requests", "route", "Requests being answered, sampled"),
    ("connections", "listener", "Open connections"),
    ("connections_refused_total", "listener, cap", "Connections refused by a cap"),
    ("connections_evicted_total", "listener", "Idle connections closed to make room at the cap"),
    ("core_silent", "core", "1 while a runtime has not answered for a second"),
    ("core_connections", "core", "Connections placed on a core"),
];

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, time::Duration};

    use super::*;
    use crate::metrics::Metrics;

    /// A scrape of a node that has used every family.
    fn scrape() -> String {
        let metrics = Metrics::new("n");
        let service = metrics.service("svc");
        let counters = [service.restarts("t"), service.io_timeouts("read"), service.retries("rpc")];
        let gauges = [service.degraded("cause"), service.core_silent("0"), service.core_connections(0)];
        let connections = (service.connections("l"), service.connections_refused("l", "total"));
        let evicted = service.connections_evicted("l");
        let rest = (service.queue("q", "e"), service.tasks("k"), service.bus_lagged("events"));
        drop((counters, gauges, connections, evicted, rest));
        service.route("r").record("GET", 200, Duration::from_millis(1));
        metrics.prometheus_text()
    }

    /// The label names of the first series of each family, without those that all have.
    fn labels(scrape: &str, family: &str) -> String {
        let is_series = |line: &&str| {
            let rest = line.strip_prefix(family).unwrap_or_default();
            rest.starts_with('{') || rest.starts_with("_count{")
        };
        let series = scrape.lines().find(is_series).unwrap_or_default();
        let names =
            series.split('"').step_by(2).filter_map(|part| part.rsplit(['{', ',']).next()?.strip_suffix('='));
        names.filter(|name| !["node", "service"].contains(name)).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn the_list_says_what_a_scrape_says() {
        let scrape = scrape();
        let help: BTreeMap<_, _> =
            scrape.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split_once(' ')).collect();
        for (name, listed_labels, meaning) in SHARED_METRICS {
            assert_eq!(help.get(name).map(|text| text.trim_end_matches('.')), Some(meaning), "{name}");
            assert_eq!(labels(&scrape, name), listed_labels, "{name}");
        }
        assert_eq!(help.len(), SHARED_METRICS.len(), "a family is missing in the list: {:?}", help.keys());
    }
}
