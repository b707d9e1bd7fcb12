//! SIGUSR2: a successor takes over the sockets.

use std::{fs, os::unix::fs::FileTypeExt};

use rustix::process::Signal;

use crate::{
    http,
    node::{Node, free_port},
};

/// Ends a successor, which nobody here is the parent of.
struct Successor(String);

impl Drop for Successor {
    fn drop(&mut self) {
        http::ask(&self.0, "POST", "/shutdown", &["X-Omnigate: 1"]);
    }
}

#[test]
fn a_successor_takes_the_sockets_over_and_the_predecessor_ends_cleanly() {
    let dir = tempfile::tempdir().unwrap();
    let admin = free_port();
    let config =
        format!("[admin]\nlisten = \"127.0.0.1:{admin}\"\n[gateway]\nlisten = \"unix:gateway.sock\"\n");
    fs::write(dir.path().join("omnigate.toml"), config).unwrap();
    let mut node = Node::from_file(dir);
    node.signal(Signal::USR2);
    let (gateway, admin) = node.read_banner();
    let successor = Successor(admin.clone());
    assert_eq!((&gateway, &admin), (&node.gateway, &node.admin));
    assert_eq!(node.wait(), Some(0));

    assert_eq!(http::get(&successor.0, "/readyz").status, 200);
    let socket = fs::metadata(node.path("gateway.sock")).unwrap();
    assert!(socket.file_type().is_socket(), "the successor's socket was removed");
    let log = node.log();
    assert!(log.contains("took over; the predecessor drains"), "{log}");
    drop(successor);
}

#[test]
fn a_successor_that_cannot_start_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = "[admin]\nlisten = \"127.0.0.1:0\"\n[gateway]\nlisten = \"127.0.0.1:0\"\n";
    fs::write(dir.path().join("omnigate.toml"), file).unwrap();
    let node = Node::from_file(dir);
    let mut events = http::Events::open(&node.admin);
    fs::write(node.path("omnigate.toml"), "nonsense").unwrap();
    events.wait_for("config_refused");
    node.signal(Signal::USR2);
    let ended = "the successor ended before it was ready; this process goes on";
    while !node.log().contains(ended) {
        std::thread::yield_now();
    }
    assert_eq!(node.get("/readyz").status, 200);
    assert_eq!(node.stop().0, Some(0));
}
