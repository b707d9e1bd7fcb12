//! Clients that make the node write to its log.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use crate::support::{Client, Node, UNLIMITED, Upstream, eventually, to};

/// Frames that the attack sends.
const PINGS: usize = 1_500;

/// The beginning of an HTTP/2 connection: preface and empty settings.
const HELLO: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

#[test]
fn answers_to_pings_that_nobody_sent_do_not_fill_the_log() {
    let upstream = Upstream::start();
    let node = Node::start(&to(upstream.addr));
    let mut stream = TcpStream::connect(node.gateway).unwrap();
    let mut attack = HELLO.to_vec();
    for number in 0..PINGS {
        attack.extend_from_slice(b"\0\0\x08\x06\x01\0\0\0\0");
        attack.extend_from_slice(&(number as u64).to_be_bytes());
    }
    // A ping that is answered once everything before it has been read.
    attack.extend_from_slice(b"\0\0\x08\x06\0\0\0\0\0lastping");
    stream.write_all(&attack).unwrap();
    let mut heard = Vec::new();
    let mut buffer = [0; 4096];
    while !heard.windows(8).any(|window| window == b"lastping") {
        let n = stream.read(&mut buffer).unwrap();
        assert!(n > 0, "the connection ended before all was read");
        heard.extend_from_slice(&buffer[..n]);
    }
    let lines = node.log().lines().count();
    assert!(lines < 200, "{PINGS} frames made the node write {lines} lines");
    eventually("what was suppressed is counted", || {
        (node.metric("log_lines_suppressed_total") > 1000.0).then_some(())
    });
}

#[test]
fn long_lines_that_nobody_reads_are_dropped_before_they_are_many() {
    let route = "route = [{ path = \"/\", redirect = { to = \"https://a.example\", status = 301 } }]\n";
    let node = Node::start_unread(&format!("{UNLIMITED}access_log.enabled = true\n{route}"));
    let mut client = Client::connect(node.gateway).unwrap();
    let path = format!("/{}", "x".repeat(12_000));
    // More bytes than may wait, and far fewer lines.
    for _ in 0..2500 {
        assert_eq!(client.get(&path).unwrap().status, 301);
    }
    let dropped = node.scrape();
    let dropped = dropped.lines().find(|line| {
        line.starts_with("queue_dropped_total{")
            && line.contains("queue=\"access_log\"")
            && !line.ends_with(" 0")
    });
    assert!(dropped.is_some(), "{}", node.scrape());
    assert_eq!(client.get("/short").unwrap().status, 301, "requests do not wait for the log");
}
