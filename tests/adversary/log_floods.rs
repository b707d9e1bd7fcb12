//! Clients that make the node write to its log.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use crate::support::{Node, Upstream, eventually, to};

/// Frames that the attack sends.
const PINGS: usize = 5000;

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
        (node.metric("log_lines_suppressed_total") > 4000.0).then_some(())
    });
}
