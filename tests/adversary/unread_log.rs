//! A log that nobody reads: a terminal that was stopped, or a collector that hangs.

use std::{
    fs::{File, OpenOptions},
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    process::Command,
};

use rustix::fs::OFlags;

use crate::support::{Client, Node, UNLIMITED, free_addr};

/// Upstreams whose server refuses connections; the failure of each is a line in the log.
const DEAD: u8 = 40;

/// A node whose standard error is a pipe that is full and stays so.
fn node_with_full_log() -> (Node, File) {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap();
    let mut unread = OpenOptions::new().read(true).write(true).custom_flags(flags).open(&pipe).unwrap();
    let (mut settings, dead) = (format!("{UNLIMITED}\n"), free_addr());
    for at in 1..=DEAD {
        settings.push_str(&format!(
            "[[gateway.route]]\npath = \"/{at}\"\nupstream = \"dead{at}\"\n\
             [gateway.upstream.dead{at}]\nendpoints = [\"http://{dead}\"]\nretry.max_tries = 1\n"
        ));
    }
    let node = Node::start_by(dir, ("", &format!("2>{}", pipe.display())), &settings);
    while unread.write(&[b'\n'; 4096]).is_ok() || unread.write(b"\n").is_ok() {}
    (node, unread)
}

#[test]
fn a_log_that_nobody_reads_delays_no_request_and_no_shutdown() {
    let (mut node, _unread) = node_with_full_log();
    for at in 1..=DEAD {
        let answer = Client::connect(node.gateway).unwrap().get(&format!("/{at}")).unwrap();
        assert_eq!(answer.status, 502, "/{at}");
    }
    node.signal("TERM");
    assert_eq!(node.exit_code(), 0);
}
