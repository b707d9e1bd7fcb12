//! A new version takes over the listening sockets without a request noticing.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
};

use crate::support::{Node, Upstream, eventually, get, signal};

#[test]
fn sigusr2_hands_the_sockets_to_a_successor_without_a_failed_request() {
    let upstream = Upstream::start();
    let mut node = Node::in_front_of(upstream.addr);
    let (done, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let gateway = node.gateway;
    let successor = thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
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
        done.store(true, Ordering::Relaxed);
        successor
    });
    signal(successor, "TERM");
    eventually("the successor is gone", || listener_pid(node.admin.port()).is_none().then_some(()));
}

/// The process that listens on a port, found the way `ss` does.
pub(crate) fn listener_pid(port: u16) -> Option<u32> {
    let inode = std::fs::read_to_string("/proc/net/tcp").unwrap().lines().skip(1).find_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let listens = fields[3] == "0A" && fields[1].ends_with(&format!(":{port:04X}"));
        listens.then(|| fields[9].to_owned())
    })?;
    let wanted = format!("socket:[{inode}]");
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).find(|pid| {
        let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        fds.filter_map(|fd| std::fs::read_link(fd.path()).ok()).any(|link| link.to_str() == Some(&wanted))
    })
}
