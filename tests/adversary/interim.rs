//! Servers that send interim responses (1xx) without end: they cost their own requests, and nobody else anything.

use std::{
    io::{BufRead, BufReader, Write},
    net::SocketAddr,
};

use crate::{
    h2_frames::{END_HEADERS, HEADERS, block, frame},
    h2_server::{H2Server, ok},
    scripted_server,
    support::{Client, Node, to},
};

/// How many a server may send before its answer.
const MAX_INTERIM: usize = 16;

/// A server that sends so many interim responses before each answer.
fn server(interim: usize) -> SocketAddr {
    scripted_server::start(move |stream| {
        let mut reader = BufReader::new(stream);
        loop {
            let mut line = String::new();
            while line != "\r\n" {
                line.clear();
                if reader.read_line(&mut line)? == 0 {
                    return Ok(());
                }
            }
            let heads = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";
            for _ in 0..interim {
                reader.get_mut().write_all(heads.as_bytes())?;
            }
            reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi")?;
        }
    })
}

/// The same over HTTP/2.
fn h2_server(interim: usize) -> H2Server {
    H2Server::start(move |stream| {
        let early = frame(HEADERS, END_HEADERS, stream, &block(&[(":status", "103"), ("link", "</a>")]));
        [early.repeat(interim), ok(stream, &[], true)].concat()
    })
}

fn statuses(node: &Node) -> [u16; 3] {
    let mut client = Client::connect(node.gateway).unwrap();
    [(); 3].map(|()| client.get("/").unwrap().status)
}

#[test]
fn as_many_interim_responses_as_a_server_may_send_are_followed_by_its_answer() {
    let interim = MAX_INTERIM;
    assert_eq!(statuses(&Node::start(&to(server(interim)))), [200; 3]);
    assert_eq!(statuses(&Node::start(&h2_server(interim).settings())), [200; 3]);
}

#[test]
fn more_interim_responses_are_a_bad_gateway_and_not_waited_for() {
    for interim in [MAX_INTERIM + 1, usize::MAX] {
        let node = Node::start(&to(server(interim)));
        assert_eq!(Client::connect(node.gateway).unwrap().get("/").unwrap().status, 502);
    }
    for interim in [MAX_INTERIM + 1, 1_000_000] {
        let server = h2_server(interim);
        let node = Node::start(&server.settings());
        assert_eq!(Client::connect(node.gateway).unwrap().get("/").unwrap().status, 502);
    }
}
