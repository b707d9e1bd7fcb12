//! A tester for request smuggling that is not ours finds nothing.

use std::{path::Path, process::Command};

use crate::{
    clients::with_tls,
    support::{Node, Upstream, to},
};

/// What can be asked of any server, and of one that speaks HTTP/2 over TLS.
const CHECKS: [&str; 10] =
    ["cl-te", "te-cl", "te-te", "h2c", "h2", "cl-edge", "cl-0", "0-cl", "parser-discrepancy", "h2-downgrade"];

/// Runs the tester; every check has to have had an answer, and none may have found anything.
fn assert_clean(url: &str, checks: &[&str], args: &[&str]) {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/bin/smugglex");
    let output = Command::new(program)
        .args(["--json", "--timeout", "3", "--checks", &checks.join(",")])
        .args(args)
        .arg(url)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let report: serde_json::Value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}{output:?}"));
    assert_eq!(report["summary"]["vulnerable_checks"], 0, "{report:#}");
    assert_eq!(report["summary"]["total_checks"], checks.len(), "{report:#}");
    for check in report["results"][0]["checks"].as_array().unwrap() {
        let normal = check["normal_status"].as_str().unwrap_or_default();
        assert!(normal.contains("200"), "it was never answered: {check:#}");
    }
}

#[test]
#[ignore = "needs smugglex: run `tools/check smuggling`"]
fn smugglex_finds_no_way_past_a_node() {
    let upstream = Upstream::start();
    let node = Node::in_front_of(upstream.addr);
    assert_clean(&format!("http://{}/", node.gateway), &CHECKS[..9], &[]);
    let (node, ca) = with_tls(&to(upstream.addr));
    assert_clean(&format!("https://localhost:{}/", node.gateway.port()), &CHECKS, &["--cacert", &ca]);
}
