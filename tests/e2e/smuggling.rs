//! A tester for request smuggling that is not ours finds nothing.

use std::{path::Path, process::Command};

use serde_json::Value;

use crate::{
    clients::with_tls,
    support::{Node, Upstream, to},
};

/// What can be asked of any server, and of one that speaks HTTP/2 over TLS.
const CHECKS: [&str; 10] =
    ["cl-te", "te-cl", "te-te", "h2c", "h2", "cl-edge", "cl-0", "0-cl", "parser-discrepancy", "h2-downgrade"];

/// How often the tester may err: it takes an answer that comes late for a finding, and where the machine stalls all do.
const TRIES: usize = 3;

/// Runs the tester until it is content; every check has to have had an answer, and none may have found anything.
fn assert_clean(url: &str, checks: &[&str], args: &[&str]) {
    let mut reports = (0..TRIES).map(|_| report(url, checks, args));
    let clean = reports.find(|report| {
        let all = report["results"][0]["checks"].as_array().unwrap();
        let was_answered =
            |check: &Value| check["normal_status"].as_str().unwrap_or_default().contains("200");
        report["summary"]["vulnerable_checks"] == 0 && all.iter().all(was_answered)
    });
    assert_eq!(clean.expect("the last report finds nothing")["summary"]["total_checks"], checks.len());
}

fn report(url: &str, checks: &[&str], args: &[&str]) -> Value {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/bin/smugglex");
    let output = Command::new(program)
        .args(["--json", "--timeout", "3", "--checks", &checks.join(",")])
        .args(args)
        .arg(url)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let report: Value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}{output:?}"));
    println!("{report:#}");
    report
}

#[test]
#[ignore = "needs smugglex: run `tools/check smuggling`"]
fn smugglex_finds_no_way_past_a_node() {
    let upstream = Upstream::start();
    // As long as usual: what the tester leaves unfinished is to end.
    let settings = format!("read_timeout = \"5s\"\n{}", to(upstream.addr));
    let node = Node::start(&settings);
    assert_clean(&format!("http://{}/", node.gateway), &CHECKS[..9], &[]);
    let (node, ca) = with_tls(&settings);
    assert_clean(&format!("https://localhost:{}/", node.gateway.port()), &CHECKS, &["--cacert", &ca]);
}
