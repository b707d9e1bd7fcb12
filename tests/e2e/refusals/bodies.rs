//! Bodies that are too large, before or after decoding, and what they cost.

use std::io::Write;

use super::{Row, assert_refused, assert_refused_for_now, check_rows};
use crate::support::{Answer, Client, Node, UNLIMITED, Upstream, ask, eventually};

/// The decoded length of a bomb: what would be noticed if any of it were kept.
const BOMB: usize = 64 << 20;
/// The most memory that any number of bombs may cost: a window of each coding on each core, twice, because the allocator
/// keeps what it was given back for a while. The bombs themselves would be sixty times as much.
const SPARE_MEMORY: u64 = 32 << 20;

fn node(upstream: &Upstream, limits: &str) -> Node {
    Node::start(&format!(
        "{UNLIMITED}limits = {{ {limits} }}\n\
         route = [{{ path = \"/\", upstream = \"up\" }}, \
                  {{ path = \"/small\", upstream = \"up\", max_body_bytes = \"1KiB\" }}]\n\
         upstream.up.endpoints = [\"http://{}\"]\n",
        upstream.addr
    ))
}

fn declared(path: &str, length: usize) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n")
}

/// A whole request whose body comes in chunks of 1 KiB.
fn chunked(path: &str, chunks: usize) -> String {
    let chunk = format!("400\r\n{}\r\n", "x".repeat(1024));
    format!(
        "POST {path} HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n{}0\r\n\r\n",
        chunk.repeat(chunks)
    )
}

#[test]
fn a_body_longer_than_allowed_is_refused_as_soon_as_that_is_known() {
    let upstream = Upstream::start();
    let node = node(&upstream, "max_body_bytes = \"8KiB\"");
    let whole = |head: String, length| head + &"x".repeat(length);
    let row = |what, request| Row { what, request, status: 413, reason: "body_cap" };
    check_rows(
        &node,
        &[
            row("declared, and not sent", declared("/length", 8193)),
            row("declared for a route with less", declared("/small", 1025)),
            row("in chunks", chunked("/length", 9)),
            row("in chunks, on a route with less", chunked("/small", 2)),
        ],
    );
    for (request, length) in [
        (whole(declared("/length", 8192), 8192), "8192"),
        (chunked("/length", 8), "8192"),
        (whole(declared("/length", 0), 0), "0"),
    ] {
        let answer = ask(node.gateway, request).unwrap();
        assert_eq!((answer.status, answer.body.as_str()), (200, length));
    }
    assert_eq!(ask(node.gateway, whole(declared("/small", 1024), 1024)).unwrap().status, 200);
}

/// What a client does wrong is not held against the server it was meant for.
#[test]
fn bodies_that_break_off_do_not_open_the_breaker() {
    let upstream = Upstream::start();
    let node = node(&upstream, "max_body_bytes = \"8KiB\"");
    for _ in 0..12 {
        assert_refused("in chunks", &ask(node.gateway, chunked("/length", 9)).unwrap(), 413, "body_cap");
        let head = "POST /length HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
        let nonsense = ask(node.gateway, format!("{head}4\r\nhalf\r\nzz\r\n")).unwrap();
        assert_refused("no chunk", &nonsense, 400, "malformed");
        let mut client = Client::connect(node.gateway).unwrap();
        client.send_raw(format!("{head}4\r\nhalf\r\n")).unwrap();
        drop(client);
    }
    let answer = ask(node.gateway, chunked("/length", 8)).unwrap();
    assert_eq!((answer.status, answer.body.as_str()), (200, "8192"));
    assert_eq!(node.rejected("bad_gateway"), 0.0);
}

type Encode = fn(&[u8]) -> Vec<u8>;

/// The codings, and what encodes in them.
const CODINGS: [(&str, Encode); 4] = [("gzip", gzip), ("deflate", deflate), ("br", br), ("zstd", zstd)];

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

fn deflate(plain: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

fn br(plain: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::new();
    let mut encoder = brotli::CompressorWriter::new(&mut encoded, 4096, 5, 22);
    encoder.write_all(plain).unwrap();
    drop(encoder);
    encoded
}

fn zstd(plain: &[u8]) -> Vec<u8> {
    zstd::encode_all(plain, 3).unwrap()
}

fn post(node: &Node, coding: &str, body: &[u8]) -> Answer {
    let mut client = Client::connect(node.gateway).unwrap();
    let head = format!("POST /length HTTP/1.1\r\nhost: a\r\ncontent-encoding: {coding}\r\ncontent-length");
    client.send_raw(format!("{head}: {}\r\n\r\n", body.len())).unwrap();
    // It may be refused before it was sent whole.
    let _ = client.send_raw(body);
    client.receive().unwrap_or_else(|error| panic!("{coding}: {error}"))
}

#[test]
fn a_compressed_body_arrives_decoded() {
    let upstream = Upstream::start();
    let node = node(&upstream, "");
    let plain: Vec<u8> =
        (0..20_000_u32).flat_map(|n| (n.wrapping_mul(2_654_435_761) >> 8).to_be_bytes()).collect();
    for (coding, encode) in CODINGS {
        let answer = post(&node, coding, &encode(&plain));
        assert_eq!((answer.status, answer.body.as_str()), (200, "80000"), "{coding}");
    }
}

#[test]
fn bombs_are_refused_for_how_much_they_expand_and_cost_next_to_no_memory() {
    let upstream = Upstream::start();
    let (by_ratio, by_cap) = (node(&upstream, ""), node(&upstream, "decode_abs_cap_bytes = \"32KiB\""));
    let zeros = vec![0; BOMB];
    let bombs = CODINGS.map(|(coding, encode)| (coding, encode(&zeros)));
    for (node, reason) in [(&by_ratio, "decoded-ratio"), (&by_cap, "decoded-cap")] {
        // Whatever a first request of each kind costs once is no cost of a bomb.
        for (coding, encode) in CODINGS {
            assert_eq!(post(node, coding, &encode(b"small")).status, 200, "{coding}");
        }
        let before = node.peak_memory();
        std::thread::scope(|scope| {
            for (coding, bomb) in bombs.iter().cycle().take(32) {
                scope.spawn(move || assert_refused(coding, &post(node, coding, bomb), 413, reason));
            }
        });
        assert_eq!(node.rejected(reason), 32.0);
        let grown = node.peak_memory() - before;
        assert!(grown <= SPARE_MEMORY, "{reason}: {grown} bytes more for 32 bombs at once");
    }
}

#[test]
fn codings_that_are_not_decoded_here_are_unsupported() {
    let upstream = Upstream::start();
    let node = node(&upstream, "");
    let row = |what, fields: &str| Row {
        what,
        request: format!("POST /length HTTP/1.1\r\nhost: a\r\n{fields}content-length: 1\r\n\r\nx"),
        status: 415,
        reason: "unsupported",
    };
    check_rows(
        &node,
        &[
            row("two", "content-encoding: gzip, br\r\n"),
            row("the same twice", "content-encoding: gzip, gzip\r\n"),
            row("two in two fields", "content-encoding: gzip\r\ncontent-encoding: gzip\r\n"),
            row("an unknown one", "content-encoding: lzma\r\n"),
        ],
    );
    assert_eq!(upstream.arrived(), 0);
}

#[test]
fn a_body_that_is_not_what_its_coding_says_is_malformed() {
    let upstream = Upstream::start();
    let node = node(&upstream, "");
    for (coding, encode) in CODINGS {
        let cut = encode(&[7; 1000]);
        for body in [&cut[..cut.len() - 1], b"this was never encoded"] {
            assert_refused(coding, &post(&node, coding, body), 400, "malformed");
        }
    }
    assert_eq!(node.rejected("bad_gateway"), 0.0);
}

#[test]
fn slow_clients_cannot_hold_more_memory_for_decoding_than_there_is() {
    let upstream = Upstream::start();
    let node =
        Node::start(&format!("limits.decode_memory = \"1MiB\"\n{}", crate::support::to(upstream.addr)));
    let head = |coding: &str| {
        format!("POST /length HTTP/1.1\r\nhost: a\r\n{coding}transfer-encoding: chunked\r\n\r\n")
    };
    let compressed = head("content-encoding: gzip\r\n");
    let begin = |from: u8| {
        let mut client = Client::connect_from(from, node.gateway).unwrap();
        client.send_raw(&compressed).unwrap();
        client
    };
    let held = |bytes: f64| {
        eventually("decoders hold so much", || (node.metric("gateway_decode_bytes{") == bytes).then_some(()));
    };
    // Each takes half of what the others leave, and is refused more.
    let mut first: Vec<Client> = (0..8).map(|_| begin(2)).collect();
    held(512.0 * 1024.0);
    let busy = begin(2).receive().unwrap();
    assert_refused_for_now("more than a tenant's half", &busy, 429, "busy");
    let mut others: Vec<Client> = (0..4).map(|_| begin(3)).collect();
    held(768.0 * 1024.0);
    let busy = begin(3).receive().unwrap();
    assert_refused_for_now("more than half of the rest", &busy, 429, "busy");
    others.extend([4, 4].map(begin));
    held(896.0 * 1024.0);
    others.push(begin(5));
    held(960.0 * 1024.0);
    let degraded = begin(6).receive().unwrap();
    assert_refused_for_now("more than there is", &degraded, 503, "degraded");
    assert_eq!(node.metric("gateway_decode_refused_total{"), 3.0);
    // What is not compressed needs none of it.
    let plain = ask(node.gateway, format!("{}3\r\nabc\r\n0\r\n\r\n", head(""))).unwrap();
    assert_eq!((plain.status, plain.body.as_str()), (200, "3"));
    // And who held it gives it back at the end.
    let body = gzip(b"hello");
    first[0].send_raw(format!("{:x}\r\n", body.len())).unwrap();
    first[0].send_raw(&body).unwrap();
    first[0].send_raw("\r\n0\r\n\r\n").unwrap();
    let answer = first[0].receive().unwrap();
    assert_eq!((answer.status, answer.body.as_str()), (200, "5"));
    drop((first, others));
    held(0.0);
}
