//! What Prometheus sees.

use std::{
    collections::HashSet,
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use crate::support::{Node, Upstream, eventually, get};

#[test]
fn promtool_finds_nothing_to_complain_about_in_a_scrape() {
    let upstream = Upstream::start();
    let node = Node::in_front_of(upstream.addr);
    assert_eq!(get(node.gateway, "/x").unwrap().status, 200);
    let scrape = get(node.admin, "/metrics").unwrap().body;
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool comes with Debian's prometheus package");
    promtool.stdin.take().unwrap().write_all(scrape.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let complaints =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && complaints.trim().is_empty(), "{complaints}");
    assert!(scrape.contains(
        "http_requests_total{node=\"omnigate\",service=\"gateway\",route=\"/\",method=\"GET\",status=\"200\"} 1"
    ));
}

/// Which series there are, without their values: who scrapes relies on names and labels.
///
/// After a wanted change, write the file anew with `UPDATE_GOLDEN=1 cargo test -p omnigate --test e2e golden`.
#[test]
fn a_scrape_has_the_series_of_the_golden_file() {
    let upstream = Upstream::start();
    let node = Node::start(&format!("{}[node]\ncores = 2\n", crate::support::to(upstream.addr)));
    assert_eq!(get(node.gateway, "/x").unwrap().status, 200);
    compare_with_golden(&node, "metrics.txt");
}

/// Compares a node's series with those of a golden file.
#[track_caller]
pub(crate) fn compare_with_golden(node: &Node, file: &str) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/e2e/golden").join(file);
    // Some are published by whoever samples, four times a second and not before it has begun.
    let scrape = eventually("samples have been taken", || {
        let scrape = get(node.admin, "/metrics").ok()?.body;
        ["\ncore_silent{", "\ncore_connections{"]
            .iter()
            .all(|sampled| scrape.contains(sampled))
            .then_some(scrape)
    });
    let series = series(&scrape);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&golden, &series).unwrap();
    }
    let expected = std::fs::read_to_string(&golden).unwrap();
    let only_in = |one: &str, other: &str| {
        let other: HashSet<&str> = other.lines().collect();
        one.lines().filter(|line| !other.contains(line)).map(str::to_owned).collect::<Vec<_>>()
    };
    let (new, gone) = (only_in(&series, &expected), only_in(&expected, &series));
    assert!(new.is_empty() && gone.is_empty(), "new: {new:#?}\ngone: {gone:#?}");
}

/// The types and the series of a scrape, sorted, values left out.
fn series(scrape: &str) -> String {
    let mut lines: Vec<&str> = scrape
        .lines()
        .filter_map(|line| match line.strip_prefix("# ") {
            Some(comment) => comment.starts_with("TYPE").then_some(line),
            None => line.rsplit_once(' ').map(|(series, _value)| series),
        })
        // Whether the node was asked before it was ready, or scraped before it had sampled, is chance.
        .filter(|line| !(line.contains("/readyz") && line.contains("status=\"503\"")))
        .filter(|line| !line.contains("route=\"/metrics\""))
        .collect();
    lines.sort_unstable();
    lines.join("\n") + "\n"
}
