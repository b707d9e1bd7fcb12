//! Answers with many header fields: they are passed on, and those with too many cost nobody but whoever asks for them.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::{
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
