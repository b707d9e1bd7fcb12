//! The Grafana dashboard: an overview, the families that all services share by theme, then a row for each service.

use ron_kernel::topology::Topology;
use serde_json::{Value, json};

use super::metric::{self, Kind, Metric};

/// Which of the shared families stand together. What is in no theme gets a row at the end.
const THEMES: [(&str, &[&str]); 5] = [
    (
        "Requests and refusals",
        &[
            "http_requests_total",
            "request_latency_seconds",
            "inflight_requests",
            "rejected_total",
            "io_timeouts_total",
        ],
    ),
    (
        "Connections",
        &["connections", "connections_refused_total", "connections_evicted_total", "core_connections"],
    ),
    ("Queues", &["queue_depth", "queue_dropped_total", "busy_rejections_total", "bus_lagged_total"]),
    (
        "Tasks",
        &[
            "tasks_spawned_total",
            "tasks_canceled_total",
            "tasks_aborted_total",
            "tasks_panicked_total",
            "service_restarts_total",
            "backoff_retries_total",
        ],
    ),
    (
        "Health and configuration",
        &[
            "readyz_degraded",
            "core_silent",
            "config_update_total",
            "config_reload_failed",
            "log_lines_suppressed_total",
        ],
    ),
];

/// Grafana divides a screen into this many columns.
const COLUMNS: usize = 24;
const PANEL_WIDTH: usize = 8;
const PANEL_HEIGHT: usize = 8;
const STAT_HEIGHT: usize = 4;

/// The series of the chosen nodes and services.
const CHOSEN: &str = r#"node=~"$node",service=~"$service""#;
/// Those of the chosen nodes: what one service alone has is found by its name.
const CHOSEN_NODES: &str = r#"node=~"$node""#;

/// The whole dashboard, ready to import.
pub(super) fn json(topologies: &[&Topology]) -> String {
    let mut board = Board::default();
    board.overview();
    for (title, names) in THEMES {
        board.row(title);
        let of_theme = |name: &&str| metric::shared().find(|metric| metric.name == *name);
        names.iter().filter_map(of_theme).for_each(|metric| board.metric(metric, CHOSEN));
    }
    let themed = |metric: &Metric| THEMES.iter().any(|(_, names)| names.contains(&metric.name));
    board.section("More", metric::shared().filter(|metric| !themed(metric)), CHOSEN);
    for topology in topologies {
        board.section(topology.service, metric::own(topology), CHOSEN_NODES);
    }
    format!("{:#}\n", board.finish())
}

/// Panels, placed one after the other.
#[derive(Debug, Default)]
struct Board {
    panels: Vec<Value>,
    column: usize,
    line: usize,
    /// The height of the line that is being filled.
    height: usize,
}

impl Board {
    fn overview(&mut self) {
        self.row("Overview");
        let requests = format!("sum(rate(http_requests_total{{{CHOSEN}}}[$__rate_interval]))");
        let failed = format!(
            "sum(rate(http_requests_total{{{CHOSEN},status=~\"5..\"}}[$__rate_interval])) / {requests}"
        );
        let refused = format!("sum(rate(rejected_total{{{CHOSEN}}}[$__rate_interval]))");
        let slow = quantile(0.99, "request_latency_seconds", CHOSEN, &[]);
        let stats = [
            ("Requests", requests, "reqps"),
            ("Refusals", refused, "reqps"),
            ("Failed (5xx)", failed, "percentunit"),
            ("p99", slow, "s"),
            ("Open connections", format!("sum(connections{{{CHOSEN}}})"), "short"),
            ("Standing conditions", format!("sum(readyz_degraded{{{CHOSEN}}})"), "short"),
        ];
        for (title, expr, unit) in stats {
            let body = json!({"type": "stat", "title": title, "targets": [target(&expr, "", 0)]});
            self.place(body, COLUMNS / 6, STAT_HEIGHT, unit);
        }
        let firing =
            r#"sum by (alertname, severity, node) (ALERTS{alertname=~"Omnigate.*",alertstate="firing"})"#;
        let legend = "{{alertname}} {{severity}} {{node}}";
        let title = "Firing alerts";
        let body = json!({"type": "timeseries", "title": title, "targets": [target(firing, legend, 0)]});
        self.place(body, COLUMNS, PANEL_HEIGHT, "short");
    }

    /// A row with these metrics, if there are any.
    fn section(&mut self, title: &str, metrics: impl Iterator<Item = Metric>, chosen: &str) {
        let mut metrics = metrics.peekable();
        if metrics.peek().is_some() {
            self.row(title);
            metrics.for_each(|metric| self.metric(metric, chosen));
        }
    }

    fn row(&mut self, title: &str) {
        self.next_line();
        let place = json!({"h": 1, "w": COLUMNS, "x": 0, "y": self.line});
        let id = self.panels.len() + 1;
        self.panels.push(json!({"id": id, "type": "row", "title": title, "collapsed": false, "gridPos": place, "panels": []}));
        self.line += 1;
    }

    /// The usual panel of a metric, by its kind.
    fn metric(&mut self, metric: Metric, chosen: &str) {
        let targets = targets(metric, chosen);
        let body = json!({
            "type": "timeseries",
            "title": metric.name,
            "description": metric.doc,
            "targets": targets,
        });
        self.place(body, PANEL_WIDTH, PANEL_HEIGHT, metric.unit());
    }

    fn place(&mut self, mut panel: Value, width: usize, height: usize, unit: &str) {
        if self.column + width > COLUMNS {
            self.next_line();
        }
        panel["id"] = json!(self.panels.len() + 1);
        panel["datasource"] = datasource();
        panel["gridPos"] = json!({"h": height, "w": width, "x": self.column, "y": self.line});
        panel["fieldConfig"] = json!({"defaults": {"unit": unit, "min": 0}, "overrides": []});
        if panel["type"] == "timeseries" {
            panel["options"] = json!({"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}});
        }
        self.panels.push(panel);
        self.column += width;
        self.height = self.height.max(height);
    }

    fn next_line(&mut self) {
        self.line += self.height;
        (self.column, self.height) = (0, 0);
    }

    fn finish(self) -> Value {
        json!({
            "uid": "omnigate",
            "title": "Omnigate",
            "description": "Generated by `omnigate docs dashboards`. Change what the services declare, not this file.",
            "tags": ["omnigate"],
            "schemaVersion": 39,
            "version": 1,
            "editable": true,
            "graphTooltip": 1,
            "refresh": "30s",
            "time": {"from": "now-1h", "to": "now"},
            "timezone": "browser",
            "templating": {"list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"},
                variable("node", "label_values(connections, node)"),
                variable("service", "label_values(connections{node=~\"$node\"}, service)"),
            ]},
            "panels": self.panels,
        })
    }
}

fn targets(metric: Metric, chosen: &str) -> Vec<Value> {
    let labels: Vec<&str> = metric.labels().collect();
    let all: Vec<&str> = ["node", "service"].into_iter().chain(labels.iter().copied()).collect();
    let legend = legend(&all);
    let (name, by) = (metric.name, all.join(", "));
    match metric.kind() {
        Kind::Counter => {
            vec![target(&format!("sum by ({by}) (rate({name}{{{chosen}}}[$__rate_interval]))"), &legend, 0)]
        }
        Kind::Gauge => vec![target(&format!("sum by ({by}) ({name}{{{chosen}}})"), &legend, 0)],
        Kind::Histogram => [0.5, 0.95, 0.99]
            .iter()
            .enumerate()
            .map(|(at, &share)| {
                let expr = quantile(share, name, chosen, &["service"]);
                target(&expr, &format!("{{{{service}}}} p{}", share * 100.0), at)
            })
            .collect(),
    }
}

/// A quantile of a histogram, by these labels.
fn quantile(share: f64, name: &str, chosen: &str, by: &[&str]) -> String {
    let by: Vec<&str> = by.iter().copied().chain(["le"]).collect();
    let rate = format!("rate({name}_bucket{{{chosen}}}[$__rate_interval])");
    format!("histogram_quantile({share}, sum by ({}) ({rate}))", by.join(", "))
}

fn legend(labels: &[&str]) -> String {
    labels.iter().map(|label| format!("{{{{{label}}}}}")).collect::<Vec<_>>().join(" ")
}

fn target(expr: &str, legend: &str, at: usize) -> Value {
    let id = ["A", "B", "C"][at];
    json!({"datasource": datasource(), "expr": expr, "legendFormat": legend, "refId": id})
}

fn datasource() -> Value {
    json!({"type": "prometheus", "uid": "${datasource}"})
}

/// A choice at the top of the dashboard: any of the values, all of them at first.
fn variable(name: &str, query: &str) -> Value {
    json!({
        "name": name,
        "type": "query",
        "datasource": datasource(),
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "multi": true,
        "includeAll": true,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    })
}
