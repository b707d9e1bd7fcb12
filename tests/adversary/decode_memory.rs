//! Compressed bodies that cost more than they seem to: memory, held by sending them slowly, and time, by many parts.

use std::io::Write;

use flate2::{Compression, write::GzEncoder};

use crate::support::{Client, Node, Upstream, eventually, to};

/// Few decoders have room in so much: each takes 64 KiB.
const SETTINGS: &str = "limits.decode_memory = \"1MiB\"\nlimits.buffer_body_bytes = 0\n";

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Sends the beginning of a compressed body, and stays there.
fn hold(node: &Node, from: u8, body: &[u8]) -> Client {
    let mut client = Client::connect_from(from, node.gateway).unwrap();
    let head = "POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n";
    let half = &body[..body.len() / 2];
    let chunk = [format!("{:x}\r\n", half.len()).as_bytes(), half, b"\r\n"].concat();
    client.send_raw([head.as_bytes(), &chunk].concat()).unwrap();
    client
}

#[test]
fn two_addresses_do_not_take_all_memory_for_compressed_bodies() {
    let upstream = Upstream::start();
    let node = Node::start(&format!("{}{SETTINGS}", to(upstream.addr)));
    // Random enough not to be decoded from its first half at once.
    let text: Vec<u8> = (0..40_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()).collect();
    let body = gzip(&text);
    let held: Vec<Client> = (0..12).flat_map(|_| [2, 3]).map(|from| hold(&node, from, &body)).collect();
    // However they take turns: each has half of what the other leaves.
    eventually("both have their parts", || {
        let bytes = node.metric("gateway_decode_bytes{node=\"omnigate\",service=\"gateway\"}");
        (bytes >= 600_000.0).then_some(())
    });
    let small = gzip(b"hello");
    let head = format!(
        "POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
        small.len()
    );
    let mut other = Client::connect_from(4, node.gateway).unwrap();
    other.send_raw([head.as_bytes(), &small].concat()).unwrap();
    assert_eq!(other.receive().unwrap().status, 200);
    drop(held);
}

#[test]
fn a_body_of_very_many_compressed_parts_is_refused() {
    let upstream = Upstream::start();
    let node = Node::start(&to(upstream.addr));
    let parts = gzip(b"").repeat(50_000);
    let post = |coding: &str, body: &[u8]| {
        let head = format!(
            "POST /count HTTP/1.1\r\nhost: localhost\r\ncontent-encoding: {coding}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let mut client = Client::connect(node.gateway).unwrap();
        // It may be refused before all of it is sent.
        let _ = client.send_raw([head.as_bytes(), body].concat());
        client.receive().unwrap()
    };
    let answer = post("gzip", &parts);
    assert_eq!(answer.status, 413, "{}", answer.body);
    let answer = post("gzip", &[gzip(b"one"), gzip(b"two")].concat());
    assert_eq!(answer.status, 200, "{}", answer.body);
}
