//! SIGUSR2: a successor takes over the sockets.

use std::{fs, os::unix::fs::FileTypeExt};

use rustix::process::Signal;

use crate::{http, manager::Manager, node::Node, ports::free_port};

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

    assert_eq!(http::readiness(&successor.0, "/readyz").status, 200);
    let socket = fs::metadata(node.path("gateway.sock")).unwrap();
    assert!(socket.file_type().is_socket(), "the successor's socket was removed");
    // It says so once it has told the predecessor, which may have ended by then.
    http::eventually("the successor says so", || {
        node.log().contains("took over; the predecessor drains").then_some(())
    });
    drop(successor);
}

#[test]
fn the_service_manager_hears_from_the_predecessor_who_the_main_process_is_now() {
    let manager = Manager::start();
    let dir = tempfile::tempdir().unwrap();
    let config = "[admin]\nlisten = \"127.0.0.1:0\"\n[gateway]\nlisten = \"127.0.0.1:0\"\n";
    fs::write(dir.path().join("omnigate.toml"), config).unwrap();
    let mut node = Node::from_file_with(dir, |command| manager.want_news(command));
    assert_eq!(manager.heard(), "READY=1\n");
    node.signal(Signal::USR2);
    let (_, admin) = node.read_banner();
    let successor = Successor(admin);
    assert_eq!(manager.heard(), "READY=1\n");
    // The successor tells nothing but that it is ready, so this is the predecessor, which systemd believes.
    let told = manager.heard();
    let pid: u32 = told.strip_prefix("MAINPID=").unwrap().trim_end().parse().unwrap();
    assert_ne!(pid, node.pid());
    let program = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
    assert!(program.contains("omnigate"), "{program}");
    assert_eq!(node.wait(), Some(0));
    manager.assert_heard_all();
    drop(successor);
    assert_eq!(manager.heard(), "STOPPING=1\n");
}

#[test]
fn a_successor_that_cannot_start_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = "[admin]\nlisten = \"127.0.0.1:0\"\n[gateway]\nlisten = \"127.0.0.1:0\"\n";
    fs::write(dir.path().join("omnigate.toml"), file).unwrap();
    let node = Node::from_file(dir);
    let mut events = http::Events::open(&node.admin);
    fs::write(node.path("aside"), "nonsense").unwrap();
    fs::rename(node.path("aside"), node.path("omnigate.toml")).unwrap();
    events.wait_for("config_refused");
    node.signal(Signal::USR2);
    let ended = "the successor ended before it was ready; this process goes on";
    http::eventually("it is noticed", || node.log().contains(ended).then_some(()));
    assert_eq!(node.readiness("/readyz").status, 200);
    assert_eq!(node.stop().0, Some(0));
}
