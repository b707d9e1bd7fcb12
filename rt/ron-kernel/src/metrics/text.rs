//! The scrape as text: OpenMetrics as the library writes it, and the older Prometheus format made from it.

use prometheus_client::{encoding::text::encode, registry::Registry};

/// Content type of [`super::Metrics::openmetrics`].
pub const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Content type of [`super::Metrics::prometheus_text`].
pub const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// OpenMetrics text with the children of each family sorted, so that two scrapes compare line by line.
pub(super) fn openmetrics(registry: &Registry) -> String {
    let mut raw = String::new();
    encode(&mut raw, registry).expect("writing to a string cannot fail");
    let mut out = String::with_capacity(raw.len());
    for family in families(&raw) {
        let (mut head, mut series) = (String::new(), Vec::new());
        for line in family {
            if line.starts_with('#') {
                head.push_str(line);
                head.push('\n');
            } else {
                series.push(line);
            }
        }
        // A stable sort by everything before the bucket bound keeps a histogram's buckets in order.
        series.sort_by_key(|line| series_key(line));
        out.push_str(&head);
        for line in series {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

/// The same scrape for readers of the Prometheus format: counters are named with their suffix, no units, no end mark.
pub(super) fn to_prometheus(openmetrics: &str) -> String {
    let counters: Vec<&str> = openmetrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    let mut out = String::with_capacity(openmetrics.len());
    for line in openmetrics.lines() {
        if line == "# EOF" || line.starts_with("# UNIT ") {
            continue;
        }
        match counter_head(line, &counters) {
            Some((keyword, name, rest)) => out.push_str(&format!("# {keyword} {name}_total {rest}")),
            None => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

/// Splits a `# HELP` or `# TYPE` line of a counter family.
fn counter_head<'a>(line: &'a str, counters: &[&str]) -> Option<(&'a str, &'a str, &'a str)> {
    let mut parts = line.strip_prefix("# ")?.splitn(3, ' ');
    let (keyword, name, rest) = (parts.next()?, parts.next()?, parts.next()?);
    counters.contains(&name).then_some((keyword, name, rest))
}

/// Groups lines into families: each starts at a `# HELP` line; the end mark is one of its own.
fn families(text: &str) -> Vec<Vec<&str>> {
    let mut all: Vec<Vec<&str>> = Vec::new();
    for line in text.lines() {
        match all.last_mut() {
            Some(family) if !line.starts_with("# HELP ") && line != "# EOF" => family.push(line),
            _ => all.push(vec![line]),
        }
    }
    all
}

/// The labels of a series without its name, suffix and bucket bound, so that one child's lines stay together.
fn series_key(line: &str) -> &str {
    let labels = line.find('{').map_or("", |start| &line[start..]);
    labels.find("le=\"").map_or_else(
        || labels.rfind('}').map_or("", |end| &labels[..end]),
        |le| labels[..le].trim_end_matches(','),
    )
}

#[cfg(test)]
mod tests {
    use crate::metrics::Metrics;
    use std::time::Duration;

    #[test]
    fn two_scrapes_of_the_same_state_are_equal_and_sorted() {
        let metrics = Metrics::new("n");
        for name in ["c", "a", "b"] {
            metrics.service("svc").route(name).record("GET", 200, Duration::from_millis(1));
        }
        let text = metrics.prometheus_text();
        assert_eq!(text, metrics.prometheus_text());
        let routes: Vec<_> = text.lines().filter(|l| l.starts_with("http_requests_total")).collect();
        assert!(routes.is_sorted(), "{routes:#?}");
    }

    #[test]
    fn the_prometheus_format_names_counters_with_their_suffix() {
        let metrics = Metrics::new("n");
        metrics.families().config_update.inc();
        let text = metrics.prometheus_text();
        assert!(
            text.contains(
                "# TYPE config_update_total counter\nconfig_update_total{node=\"n\",service=\"kernel\"} 1\n"
            ),
            "{text}"
        );
        assert!(!text.contains("# EOF"));
        assert!(metrics.openmetrics().ends_with("# EOF\n"));
    }
}
