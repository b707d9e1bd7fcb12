//! A new version takes over the listening sockets without a request noticing.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use crate::support::{Client, Flag, Node, Upstream, eventually, get, listener_pid, signal, to};

#[test]
fn sigusr2_hands_the_sockets_to_a_successor_without_a_failed_request() {
    let upstream = Upstream::start();
    let mut node = Node::in_front_of(upstream.addr);
    let (done, answered) = (Flag::default(), AtomicUsize::new(0));
    let gateway = node.gateway;
    let successor = thread::scope(|scope| {
        let _done = done.set_at_the_end();
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.is_set() {
                    assert_eq!(get(gateway, "/during").expect("always somebody to answer").status, 200);
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        node.signal("USR2");
        assert_eq!(node.exit_code(), 0);
        let successor = eventually("the successor tells who it is", || listener_pid(node.admin.port()));
        let so_far = answered.load(Ordering::Relaxed);
        eventually("the successor answers", || {
            (answered.load(Ordering::Relaxed) > so_far + 20).then_some(())
        });
        successor
    });
    signal(successor, "TERM");
    eventually("the successor is gone", || listener_pid(node.admin.port()).is_none().then_some(()));
}

#[test]
fn a_request_that_takes_longer_than_a_shutdown_may_survives_an_upgrade() {
    let upstream = Upstream::start();
    let mut node = Node::start(&format!(
        "{}[node]\ndrain_deadline = \"1s\"\n[log]\nlevel = \"info\"\n",
        to(upstream.addr)
    ));
    let mut long = Client::connect(node.gateway).unwrap();
    long.send("/hold").unwrap();
    upstream.wait_for(1);
    let before = listener_pid(node.admin.port());
    node.signal("USR2");
    eventually("the successor has taken over", || {
        node.log().contains("the predecessor drains").then_some(())
    });
    // Takes longer than a shutdown without a successor may.
    assert_eq!(get(node.gateway, "/wait/1500").unwrap().status, 200);
    upstream.release();
    assert_eq!(long.receive().unwrap().body, "/hold");
    assert_eq!(node.exit_code(), 0);
    assert_ne!(listener_pid(node.admin.port()), before);
}

/// The processes that a process has started and that have not ended.
fn children(pid: u32) -> Vec<String> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of_thread = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("children")).ok();
    threads
        .filter_map(of_thread)
        .flat_map(|pids| pids.split(' ').map(str::to_owned).collect::<Vec<_>>())
        .filter(|pid| !pid.is_empty())
        .collect()
}

#[test]
fn a_node_that_is_told_to_stop_while_its_successor_starts_leaves_no_process() {
    let upstream = Upstream::start();
    let mut node = Node::in_front_of(upstream.addr);
    let pid = listener_pid(node.admin.port()).expect("the node listens");
    node.signal("USR2");
    eventually("the successor is started", || (!children(pid).is_empty()).then_some(()));
    node.signal("TERM");
    assert_eq!(node.exit_code(), 0);
    eventually("the successor is gone", || listener_pid(node.admin.port()).is_none().then_some(()));
}

#[test]
fn a_node_that_is_told_to_stop_starts_no_successor() {
    let upstream = Upstream::start();
    let mut node = Node::in_front_of(upstream.addr);
    node.signal("TERM");
    node.signal("USR2");
    assert_eq!(node.exit_code(), 0);
    eventually("nobody listens", || listener_pid(node.admin.port()).is_none().then_some(()));
}
