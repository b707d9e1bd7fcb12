//! Answers with many header fields: they are passed on, and those with too many cost nobody but whoever asks for them.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::{
    h2_frames::{END_HEADERS, END_STREAM, HEADERS, block, frame},
    h2_server::H2Server,
    scripted_server::head_server,
    support::{Client, Node, to},
};

/// The most fields that an answer may have, that of its length included.
const MAX_FIELDS: usize = 1024;

/// A server that answers `/<number>` with so many fields, and counts its requests.
fn server() -> (SocketAddr, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let addr = head_server(move |head| {
        counted.fetch_add(1, Ordering::SeqCst);
        let path = head.split(' ').nth(1).unwrap_or_default();
        let fields: usize = path.trim_start_matches('/').parse().unwrap();
        let cookies: String = (1..fields).map(|at| format!("set-cookie: c{at}=1\r\n")).collect();
        format!("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n{cookies}\r\nok")
    });
    (addr, asked)
}

#[test]
fn answers_with_many_fields_are_passed_on() {
    let (addr, _) = server();
    let node = Node::start(&to(addr));
    for fields in [99, 101, 151, MAX_FIELDS] {
        let mut client = Client::connect(node.gateway).unwrap();
        let answer = client.get(&format!("/{fields}")).unwrap();
        assert_eq!(answer.status, 200, "{fields}");
        let cookies = answer.headers.iter().filter(|(name, _)| name == "set-cookie").count();
        assert_eq!(cookies, fields - 1, "{fields}");
    }
}

#[test]
fn an_answer_with_too_many_fields_is_told_and_does_not_count_against_its_server() {
    let (addr, asked) = server();
    let node = Node::start(&to(addr));
    for from in 2..22 {
        let mut client = Client::connect_from(from, node.gateway).unwrap();
        let answer = client.get(&format!("/{}", MAX_FIELDS + 1)).unwrap();
        assert_eq!(answer.status, 502);
        assert!(answer.body.contains("more than 1024 header fields"), "{answer:?}");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 20, "no request is tried again");
    assert_eq!(Client::connect(node.gateway).unwrap().get("/1").unwrap().status, 200);
}

/// The head of an answer with so many fields that have values of this length, in as many frames as it takes.
fn h2_head(stream: u32, fields: usize, length: usize) -> Vec<u8> {
    const CONTINUATION: u8 = 9;
    let names: Vec<String> = (0..fields).map(|at| format!("x-{at}")).collect();
    let value = "v".repeat(length);
    let fields: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), value.as_str())).collect();
    let block = [vec![0x88], block(&fields)].concat();
    let parts: Vec<&[u8]> = block.chunks(16_000).collect();
    let frames = parts.iter().enumerate().map(|(at, part)| {
        let (kind, begins) = if at == 0 { (HEADERS, END_STREAM) } else { (CONTINUATION, 0) };
        let ends = if at + 1 == parts.len() { END_HEADERS } else { 0 };
        frame(kind, begins | ends, stream, part)
    });
    frames.collect::<Vec<_>>().concat()
}

#[test]
fn a_head_of_64_kib_is_too_large_for_an_answer_over_http2() {
    for (fields, length, status) in [(40, 1000, 200), (80, 1000, 502), (2000, 1, 502)] {
        let server = H2Server::start(move |stream| h2_head(stream, fields, length));
        let node = Node::start(&server.settings());
        let answer = Client::connect(node.gateway).unwrap().get("/").unwrap();
        assert_eq!(answer.status, status, "{fields} fields of {length} bytes");
    }
}

#[test]
fn an_answer_without_content_has_no_length() {
    let addr = head_server(|_| "HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\n".to_owned());
    let node = Node::start(&to(addr));
    for method in ["HEAD", "GET"] {
        let mut client = Client::connect(node.gateway).unwrap();
        client.send_raw(format!("{method} / HTTP/1.1\r\nhost: a\r\n\r\n")).unwrap();
        let head = client.receive_head().unwrap();
        assert_eq!((head.status, head.header("content-length")), (204, None), "{method}");
    }
}

#[test]
fn a_status_without_a_name_is_passed_on_without_one() {
    let addr = head_server(|_| "HTTP/1.1 299 Whatever\r\ncontent-length: 0\r\n\r\n".to_owned());
    let node = Node::start(&to(addr));
    let mut client = Client::connect(node.gateway).unwrap();
    client.send_raw("GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").unwrap();
    client.wait_for_line("HTTP/1.1 299").unwrap();
}
