//! Answers of servers that would send the gateway, or its memory, elsewhere.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
};

use crate::{
    scripted_server::{head_server, json_server, start},
    support::{Client, Node, PATIENCE, UNLIMITED, Upstream, eventually, get, to},
};

#[test]
fn a_redirect_of_a_server_is_passed_on_and_not_followed() {
    let elsewhere = Upstream::start();
    let place = format!("http://{}/secret", elsewhere.addr);
    let said = place.clone();
    let server = head_server(move |head| {
        let status = head.split(['/', ' ']).nth(2).unwrap();
        format!("HTTP/1.1 {status} Elsewhere\r\nlocation: {said}\r\ncontent-length: 0\r\n\r\n")
    });
    let node = Node::start(&format!(
        "{}view.home.parts = [{{ name = \"a\", upstream = \"up\", path = \"/302\", budget = \"30s\" }}]\n",
        to(server)
    ));
    for status in [300, 301, 302, 303, 307, 308] {
        let answer = get(node.gateway, &format!("/{status}")).unwrap();
        assert_eq!((answer.status, answer.header("location")), (status, Some(place.as_str())));
    }
    assert_eq!(get(node.gateway, "/v1/views/home").unwrap().status, 502, "no part of a view");
    assert_eq!(elsewhere.arrived(), 0, "nobody but the configured server was asked");
}

/// A client at 127.0.0.2 that asks for the view and reads nothing of it. Little fits into its socket.
fn stall(gateway: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 2], 0)).into()).unwrap();
    socket.connect(&gateway.into()).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET /v1/views/home HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").unwrap();
    stream
}

#[test]
fn answers_of_views_count_as_buffered_until_they_are_read() {
    // Four parts of nearly a megabyte.
    let server = json_server(|_| format!("\"{}\"", "x".repeat(1_000_000)));
    let parts = ["a", "b", "c", "d"]
        .map(|name| format!("{{ name = \"{name}\", upstream = \"up\", path = \"/\", budget = \"30s\" }}"));
    let node = Node::start(&format!(
        "{UNLIMITED}write_timeout = \"60s\"\nmin_rate = \"0B\"\nlimits.buffer_memory = \"32MiB\"\n\
         view.home.parts = [{}]\nupstream.up.endpoints = [\"http://{server}\"]\n",
        parts.join(", ")
    ));
    let held = || node.metric("gateway_buffer_bytes");
    // One tenant has a quarter of the memory: two answers.
    let unread = [(); 2].map(|()| stall(node.gateway));
    eventually("both answers are held", || (held() >= 8_000_000.0).then_some(()));
    let more = Client::connect_from(2, node.gateway).unwrap().get("/v1/views/home").unwrap();
    assert_eq!((more.status, more.json()["reason"].as_str()), (429, Some("busy")), "its part is taken");
    let other = Client::connect_from(3, node.gateway).unwrap().get("/v1/views/home").unwrap();
    assert_eq!(other.status, 200, "another tenant has its own part");
    for mut stream in unread {
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 200 ") && answer.len() > 4_000_000, "{} bytes", answer.len());
    }
    eventually("all of it is given back", || (held() == 0.0).then_some(()));
}

#[test]
fn a_body_that_is_broken_from_the_start_is_answered_502() {
    for chunk in ["zz\r\n", "3\r\nabcd\r\n", "-1\r\n"] {
        let addr =
            head_server(move |_| format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunk}"));
        let node = Node::start(&to(addr));
        assert_eq!(get(node.gateway, "/").unwrap().status, 502, "{chunk:?}");
    }
    let addr = head_server(|_| {
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n".to_owned()
    });
    let node = Node::start(&to(addr));
    assert_eq!(get(node.gateway, "/").unwrap().body, "abc");
}

/// A client of HTTP/1.0 knows the end of a response without a length by the end of the connection.
#[test]
fn a_client_of_http_1_0_sees_that_an_answer_broke_off() {
    let server = head_server(|head| {
        let half = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n";
        let rest = if head.contains("/whole") { "0\r\n\r\n" } else { "zz\r\n" };
        format!("{half}{rest}")
    });
    let node = Node::start(&to(server));
    let read = |path: &str| {
        let mut stream = TcpStream::connect(node.gateway).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\nhost: a\r\n\r\n").unwrap();
        let mut answer = String::new();
        let end = stream.read_to_string(&mut answer).map_err(|error| error.kind());
        (answer.starts_with("HTTP/1.0 200 OK\r\n") && answer.ends_with("\r\n\r\nhalf"), end.map(drop))
    };
    assert_eq!(read("/whole"), (true, Ok(())));
    assert_eq!(read("/broken").1, Err(std::io::ErrorKind::ConnectionReset));
}

/// A client that got nothing at all might send the request again.
#[test]
fn an_answer_that_breaks_off_after_its_head_is_sent_as_far_as_it_came() {
    let server = start(|mut stream| {
        let mut head = [0; 4096];
        let _ = stream.read(&mut head)?;
        stream.write_all(b"HTTP/1.1 200 OK\r\nx-came: yes\r\ncontent-length: 10\r\n\r\nhalf")
    });
    let node = Node::start(&to(server));
    let mut stream = TcpStream::connect(node.gateway).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("x-came: yes\r\n") && answer.ends_with("\r\n\r\nhalf"), "{answer:?}");
}
