//! The listener itself: certificates, reloads, and what is scraped of it.

use std::process::Command;

use ron_transport::tls::testkit::TestCa;

use super::{Events, OPEN, TopicNode, settings};
use crate::metrics::compare_with_golden;

#[test]
fn a_scrape_of_the_listener_for_applications_has_the_series_of_the_golden_file() {
    let node = TopicNode::start(OPEN);
    let mut events = Events::open(node.api, "news/events", "");
    node.publish("news", "x");
    events.text();
    // The first scrape is counted in the next.
    node.node.scrape();
    compare_with_golden(&node.node, "metrics-overlay-api.txt");
}

#[test]
fn applications_use_it_over_tls() {
    let dir = tempfile::tempdir().unwrap();
    let ca = TestCa::new("applications");
    let files = ca.server(&["localhost"]).write(dir.path(), "server");
    let trusted = ca.write(dir.path(), "ca").display().to_string();
    let tls =
        format!("{OPEN}tls = {{ cert_path = {:?}, key_path = {:?} }}\n", files.cert_path, files.key_path);
    let node = TopicNode::start_in(dir, "security = \"plaintext\"\n", &tls, "");
    let port = node.api.port();
    for version in ["--http1.1", "--http2"] {
        let output = Command::new("curl")
            .args(["-sS", "--max-time", "60", "--cacert", &trusted, version, "--data-binary", "over TLS"])
            .args(["--resolve", &format!("localhost:{port}:127.0.0.1"), "-w", " %{http_code}"])
            .arg(format!("https://localhost:{port}/v1/topics/news"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("local_only") && said.ends_with(" 200"), "{version}: {said} {output:?}");
    }
}

#[test]
fn settings_follow_the_configuration_file() {
    let node = TopicNode::start(OPEN);
    let page = "origin: https://chat.example\r\n";
    assert_eq!(node.post("news", "x", page).status, 403);
    let lines = format!("{OPEN}allow_origins = [\"https://chat.example\"]\npublish_rps = 1\n");
    node.node.reload(&settings(node.api, node.overlay, "security = \"plaintext\"\n", &lines, ""));
    assert_eq!(node.post("news", "x", page).status, 200);
    let statuses: Vec<u16> = (0..4).map(|_| node.post("news", "x", page).status).collect();
    assert!(statuses.contains(&429), "{statuses:?}");
}
