//! Nothing that is declared is missing from the dashboard, the alerts and the runbook, and nothing is made up.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests: a failure may panic, and files are read"
)]

use std::{collections::BTreeSet, fs, path::Path};

use types::Reason;

use super::{
    alerts, dashboard,
    metric::{self, Kind},
};
use crate::node::TOPOLOGIES;

/// Names in expressions that are Prometheus' own.
const PROMETHEUS: [&str; 2] = ["up", "ALERTS"];

fn page(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

fn metrics() -> Vec<metric::Metric> {
    metric::shared().chain(TOPOLOGIES.iter().flat_map(|topology| metric::own(topology))).collect()
}

/// The part of the runbook from one heading to the next of the same depth.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let start = page.find(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
    let depth = heading.split(' ').next().unwrap();
    let rest = &page[start + 1 + heading.len()..];
    rest.find(&format!("\n{depth} ")).map_or(rest, |end| &rest[..end])
}

/// What stands in backticks in the first cells of a section's tables.
fn listed(section: &str) -> BTreeSet<&str> {
    let rows = section.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    rows.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
}

#[test]
fn a_metric_is_of_the_kind_that_its_name_says() {
    let scrapes = page("tests/e2e/golden/metrics.txt") + &page("tests/e2e/golden/metrics-edge.txt");
    let mut compared = 0;
    for metric in metrics() {
        let Some(line) = scrapes.lines().find(|line| line.starts_with(&format!("# TYPE {} ", metric.name)))
        else {
            continue;
        };
        let kind = match metric.kind() {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        assert!(line.ends_with(kind), "{line}");
        compared += 1;
    }
    assert!(compared > 30, "only {compared} are in the golden scrapes");
}

#[test]
fn every_metric_is_on_the_dashboard() {
    let board: serde_json::Value = serde_json::from_str(&dashboard::json(&TOPOLOGIES)).unwrap();
    let titles: BTreeSet<&str> =
        board["panels"].as_array().unwrap().iter().filter_map(|panel| panel["title"].as_str()).collect();
    for metric in metrics() {
        assert!(titles.contains(metric.name), "{} has no panel", metric.name);
    }
}

#[test]
fn alerts_ask_only_for_metrics_that_exist() {
    let known: BTreeSet<&str> = metrics().iter().map(|metric| metric.name).chain(PROMETHEUS).collect();
    for alert in alerts::of(&TOPOLOGIES) {
        let selectors = metrics_in(&alert.expr);
        assert!(!selectors.is_empty(), "{}", alert.name);
        for name in selectors {
            let name = name.strip_suffix("_bucket").unwrap_or(name);
            assert!(known.contains(name), "{}: {name} is no metric", alert.name);
        }
    }
}

/// The names that are followed by a selector or a range, or that are compared.
fn metrics_in(expr: &str) -> Vec<&str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let bare: String = expr
        .split('"')
        .enumerate()
        .map(|(at, part)| if at % 2 == 0 { part.to_owned() } else { " ".repeat(part.len() + 2) })
        .collect();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = bare[at..].find(is_name).map(|offset| at + offset) {
        let end = bare[start..].find(|c| !is_name(c)).map_or(bare.len(), |offset| start + offset);
        let (word, after) = (&bare[start..end], bare[end..].trim_start());
        let named = word.contains('_') && word != "histogram_quantile" || PROMETHEUS.contains(&word);
        if named && (after.starts_with(['{', '[', ')']) || after.starts_with("==")) {
            found.push(&expr[start..end]);
        }
        at = end;
    }
    found
}

#[test]
fn the_runbook_has_every_metric() {
    let page = page("docs/operations.md");
    let listed = listed(section(&page, "## Metrics"));
    for metric in metrics() {
        assert!(listed.contains(metric.name), "docs/operations.md says nothing of {}", metric.name);
    }
    let known: BTreeSet<&str> = metrics().iter().map(|metric| metric.name).collect();
    let series = |name: &&str| name.contains('_') && !name.starts_with('[');
    let queues: BTreeSet<&str> =
        TOPOLOGIES.iter().flat_map(|topology| topology.queues).map(|queue| queue.name).collect();
    for name in listed.into_iter().filter(series) {
        assert!(known.contains(name) || queues.contains(name), "{name} is no metric and no queue");
    }
}

#[test]
fn the_runbook_has_every_alert_and_no_other() {
    let page = page("docs/operations.md");
    let alerts = alerts::of(&TOPOLOGIES);
    let known: BTreeSet<&str> = alerts.iter().map(|alert| alert.name).collect();
    assert_eq!(listed(section(&page, "## Alerts")), known);
}

#[test]
fn the_runbook_has_every_refusal_and_no_other() {
    let page = page("docs/operations.md");
    let known: BTreeSet<&str> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
    assert_eq!(listed(section(&page, "## Refusals")), known);
}

#[test]
fn the_runbook_has_every_queue() {
    let page = page("docs/operations.md");
    let listed = listed(section(&page, "## Metrics"));
    for topology in TOPOLOGIES {
        for queue in topology.queues {
            assert!(listed.contains(queue.name), "docs/operations.md says nothing of queue {}", queue.name);
        }
    }
}
