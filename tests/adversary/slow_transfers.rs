//! Clients that keep a transfer alive by moving a byte now and then.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use crate::support::{Client, Node, Upstream, ask, eventually, to};

/// A minimum rate that one byte every 50 ms does not reach, and one slot, which the attacker takes.
const SETTINGS: &str = "min_rate = \"1KiB\"\nmin_rate_grace = \"1s\"\nfair_queue.max_inflight = 1\n";

/// More bytes than the attack sends before it is over, however slow the machine is: a minute's worth.
const MOST: usize = 1200;

/// Sends a body byte by byte until the node has had enough, and returns what it says.
fn trickle(node: &Node) -> String {
    let mut stream = TcpStream::connect(node.gateway).unwrap();
    stream.set_nonblocking(true).unwrap();
    let head = "POST /length HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let (mut answer, mut buffer) = (Vec::new(), [0; 4096]);
    for _ in 0..MOST {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => answer.extend_from_slice(&buffer[..n]),
            Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => break,
            Err(_) => {}
        }
        let _ = stream.write(b"x");
        std::thread::park_timeout(Duration::from_millis(50));
    }
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn an_upload_that_trickles_is_answered_408_and_gives_its_slot_back() {
    let upstream = Upstream::start();
    let node = Node::start(&format!("{SETTINGS}{}", to(upstream.addr)));
    let answer = trickle(&node);
    assert!(answer.starts_with("HTTP/1.1 408 "), "the upload is still alive: {answer}");
    assert!(answer.contains("request_timeout"), "{answer}");
    let served =
        eventually("an honest client is served", || Client::connect(node.gateway).ok()?.get("/").ok());
    assert_eq!(served.status, 200);
    let op = "io_timeouts_total{node=\"omnigate\",service=\"gateway\",op=\"read_rate\"}";
    assert!((node.metric(op) - 1.0).abs() < f64::EPSILON);
    assert!((node.rejected("request_timeout") - 1.0).abs() < f64::EPSILON);
}

/// A small body is read before the request takes a slot.
#[test]
fn a_small_upload_that_stops_is_answered_408_too() {
    let upstream = Upstream::start();
    let node = Node::start(&format!("read_timeout = \"1s\"\n{}", to(upstream.addr)));
    for framing in ["content-length: 10\r\n\r\nhalf", "transfer-encoding: chunked\r\n\r\n5\r\nhal"] {
        let answer = ask(node.gateway, format!("POST / HTTP/1.1\r\nhost: a\r\n{framing}")).unwrap();
        assert_eq!((answer.status, answer.json()["reason"].as_str()), (408, Some("request_timeout")));
    }
    let broken = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n1\r\nab\r\n";
    let answer = ask(node.gateway, broken).unwrap();
    assert_eq!(
        (answer.status, answer.json()["detail"].as_str()),
        (400, Some("the body's chunks are broken"))
    );
}

#[test]
fn a_long_upload_at_a_good_speed_is_not_cut() {
    let upstream = Upstream::start();
    let node = Node::start(&format!("request_timeout = \"1s\"\n{}", to(upstream.addr)));
    let piece = "x".repeat(100 * 1024);
    for head in ["content-length: 819200", "transfer-encoding: chunked"] {
        let mut client = Client::connect(node.gateway).unwrap();
        client.send_raw(format!("POST /length HTTP/1.1\r\nhost: localhost\r\n{head}\r\n\r\n")).unwrap();
        let is_chunked = head.ends_with("chunked");
        for _ in 0..8 {
            // Three times the limit in all.
            std::thread::park_timeout(Duration::from_millis(400));
            let framed = if is_chunked { format!("19000\r\n{piece}\r\n") } else { piece.clone() };
            client.send_raw(framed).unwrap();
        }
        if is_chunked {
            client.send_raw("0\r\n\r\n").unwrap();
        }
        let answer = client.receive().unwrap();
        assert_eq!((answer.status, answer.body.as_str()), (200, "819200"), "{head}");
    }
}

#[test]
fn a_request_has_only_so_much_time_in_all() {
    let upstream = Upstream::start();
    let node = Node::start(&format!("request_timeout = \"1s\"\nmin_rate = \"0B\"\n{}", to(upstream.addr)));
    let answer = trickle(&node);
    assert!(answer.starts_with("HTTP/1.1 408 "), "the upload is still alive: {answer}");
}
