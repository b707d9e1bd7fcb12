//! What Prometheus sees.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use crate::support::{Node, Upstream, get};

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
