//! Interim responses (1xx) of servers: clients that can take them get them, and servers that send them without end cost
//! their own requests, and nobody else anything.

use std::{
    io::{BufRead, BufReader, Write},
    net::SocketAddr,
};

use crate::{
    h2_frames::{END_HEADERS, HEADERS, block, frame},
    h2_server::{H2Server, ok},
    scripted_server,
    support::{Answer, Client, Node, to},
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

/// A client's request, and the heads that answer it up to the final one.
fn heads(client: &mut Client, request: &str) -> Vec<Answer> {
    client.send_raw(request).unwrap();
    let mut heads = Vec::new();
    loop {
        let head = client.receive_head().unwrap();
        if head.status >= 200 {
            heads.push(client.receive_body(head).unwrap());
            return heads;
        }
        heads.push(head);
    }
}

fn statuses_of(heads: &[Answer]) -> Vec<u16> {
    heads.iter().map(|head| head.status).collect()
}

const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";

#[test]
fn a_client_of_http_1_1_gets_interim_responses_before_the_answer() {
    let many = [vec![103; MAX_INTERIM], vec![200]].concat();
    for (interim, expected) in [(0, vec![200]), (2, vec![103, 103, 200]), (MAX_INTERIM, many)] {
        let h2 = h2_server(interim);
        for settings in [to(server(interim)), h2.settings()] {
            let node = Node::start(&settings);
            let mut client = Client::connect(node.gateway).unwrap();
            for _ in 0..2 {
                let heads = heads(&mut client, GET);
                assert_eq!(statuses_of(&heads), expected);
                for early in &heads[..interim] {
                    assert_eq!(early.header("link"), Some("</a>"));
                }
                assert_eq!(heads[interim].header("link"), None);
            }
        }
    }
}

#[test]
fn a_client_of_http_1_0_gets_the_answer_alone() {
    let node = Node::start(&to(server(3)));
    let mut client = Client::connect(node.gateway).unwrap();
    let heads = heads(&mut client, "GET / HTTP/1.0\r\nhost: a\r\n\r\n");
    assert_eq!(statuses_of(&heads), [200]);
}

#[test]
fn hints_come_while_the_server_still_works_on_the_answer() {
    for cache in ["", ", cache = {}"] {
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let gone = std::sync::Mutex::new(gone);
        let addr = scripted_server::start(move |stream| {
            let mut reader = BufReader::new(stream);
            let mut line = String::new();
            while line != "\r\n" {
                line.clear();
                if reader.read_line(&mut line)? == 0 {
                    return Ok(());
                }
            }
            reader.get_mut().write_all(b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n")?;
            // The answer follows once the client has the hint.
            let _ = gone.lock().unwrap().recv();
            reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi")
        });
        let node = Node::start(&format!(
            "route = [{{ path = \"/\", upstream = \"up\"{cache} }}]\nupstream.up.endpoints = [\"http://{addr}\"]\n"
        ));
        let mut client = Client::connect(node.gateway).unwrap();
        client.send_raw(GET).unwrap();
        assert_eq!(client.receive_head().unwrap().status, 103, "{cache}");
        go.send(()).unwrap();
        assert_eq!(client.receive().unwrap().body, "hi", "{cache}");
    }
}

#[test]
fn an_interim_response_is_cleaned_as_an_answer_is() {
    let addr = scripted_server::start(move |stream| {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
        }
        let early = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\nconnection: x-mine\r\nx-mine: 1\r\nx-secret: 1\r\n\
                     keep-alive: 1\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n\
                     HTTP/1.1 100 Continue\r\n\r\n";
        reader.get_mut().write_all(early.as_bytes())?;
        reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi")
    });
    let node = Node::start(&format!(
        "route = [{{ path = \"/\", upstream = \"up\", response_headers.remove = [\"x-secret\"] }}]\n\
         upstream.up.endpoints = [\"http://{addr}\"]\n"
    ));
    let heads = heads(&mut Client::connect(node.gateway).unwrap(), GET);
    assert_eq!(statuses_of(&heads), [103, 200]);
    assert_eq!(heads[0].headers, [("link".to_owned(), "</a>".to_owned())]);
}
