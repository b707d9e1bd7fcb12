//! Clients that ask for impossible deadlines, and servers that must not be blamed for them.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    thread,
};

use crate::support::{Client, Node, Upstream, eventually, to};

/// More requests than the breaker's threshold of failures in a row, each with its own way of giving a deadline.
const BOMBS: usize = 40;

#[test]
fn a_clients_own_deadline_does_not_open_the_breaker() {
    let upstream = Upstream::start();
    let node = Node::in_front_of(upstream.addr);
    for field in ["x-request-timeout-ms: 1", "grpc-timeout: 1m", "grpc-timeout: 1u"] {
        for _ in 0..BOMBS {
            let mut hostile = Client::connect(node.gateway).unwrap();
            let answer =
                hostile.ask(format!("GET /wait/300 HTTP/1.1\r\nhost: localhost\r\n{field}\r\n\r\n")).unwrap();
            assert_eq!(answer.status, 504, "{field}: {answer:?}");
            let answer = Client::connect_from(2, node.gateway).unwrap().get("/fine").unwrap();
            assert_eq!((answer.status, answer.body.as_str()), (200, "/fine"), "{field}");
        }
    }
}

#[test]
fn the_servers_own_timeout_still_opens_the_breaker() {
    let upstream = Upstream::start();
    let settings = format!("{}upstream.up.timeout = \"50ms\"\n", to(upstream.addr));
    let node = Node::start(&settings);
    let statuses: Vec<u16> =
        (0..BOMBS).map(|_| Client::connect(node.gateway).unwrap().get("/wait/300").unwrap().status).collect();
    assert!(statuses.contains(&504) && statuses.contains(&502), "{statuses:?}");
}

#[test]
fn waiting_for_our_own_connection_limit_does_not_open_the_breaker() {
    let upstream = Upstream::start();
    let limits = "upstream.up.max_conns = 1\nupstream.up.timeout = \"200ms\"\n";
    let node = Node::start(&format!("{}{limits}", to(upstream.addr)));
    // A reader that takes nothing holds the only connection.
    let mut holder = Client::connect_from(3, node.gateway).unwrap();
    holder.send("/big").unwrap();
    upstream.wait_for(1);
    for _ in 0..BOMBS {
        let answer = Client::connect(node.gateway).unwrap().get("/late").unwrap();
        assert_eq!(answer.status, 504, "{answer:?}");
    }
    drop(holder);
    eventually("the connection is free again", || {
        let answer = Client::connect_from(2, node.gateway).unwrap().get("/fine").unwrap();
        assert_ne!(answer.status, 502, "the breaker has opened: {answer:?}");
        (answer.status == 200).then_some(())
    });
}

/// A server that answers before it has read the body of the request, then waits for the rest of it.
fn early_server() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || answer_early(stream));
        }
    });
    addr
}

fn answer_early(mut stream: TcpStream) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.extend(byte);
    }
    if head.starts_with(b"GET") {
        return stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 4\r\n\r\nfine");
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nearly\r\n")?;
    io::copy(&mut stream, &mut io::sink()).map(drop)
}

#[test]
fn a_broken_upload_after_an_early_answer_does_not_open_the_breaker() {
    let node = Node::in_front_of(early_server());
    for _ in 0..BOMBS {
        let mut hostile = Client::connect(node.gateway).unwrap();
        let head = "POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n";
        hostile.send_raw(format!("{head}4\r\nsome\r\n")).unwrap();
        hostile.wait_for_line("early").unwrap();
        // What follows is no chunk, so the body of the request breaks off in the middle of the answer.
        hostile.send_raw("nonsense\r\n").unwrap();
        let _ = hostile.wait_for_end();
    }
    let answer = Client::connect_from(2, node.gateway).unwrap().get("/fine").unwrap();
    assert_eq!((answer.status, answer.body.as_str()), (200, "fine"));
}

#[test]
fn an_upload_that_stops_after_an_early_answer_does_not_open_the_breaker() {
    // Shorter than what the client may take to send more: the server falls silent, but it is the client's turn.
    let settings = format!("{}upstream.up.timeout = \"200ms\"\n", to(early_server()));
    let node = Node::start(&settings);
    let mut hostile: Vec<Client> = (0..BOMBS).map(|_| Client::connect(node.gateway).unwrap()).collect();
    for client in &mut hostile {
        client.send_raw("POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000\r\n\r\nsome").unwrap();
        client.wait_for_line("early").unwrap();
    }
    for client in &mut hostile {
        // Cut off by the gateway, one way or the other.
        let _ = client.wait_for_end();
    }
    let answer = Client::connect_from(2, node.gateway).unwrap().get("/fine").unwrap();
    assert_eq!((answer.status, answer.body.as_str()), (200, "fine"));
}
