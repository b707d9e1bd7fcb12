//! Trailers of requests and of answers: they never act as header fields, and HTTP/1.1 servers get none.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::SocketAddr,
};

use crate::{
    h2_frames::{H2Client, block},
    h2_upstream, scripted_server,
    support::{Client, Node, UNLIMITED, ask, to},
};

/// A server that answers each request with all that it read of it, and a GET with trailers.
fn server() -> SocketAddr {
    scripted_server::start(|stream| {
        let mut reader = BufReader::new(stream);
        loop {
            let mut seen = String::new();
            while !seen.ends_with("\r\n\r\n") {
                if reader.read_line(&mut seen)? == 0 {
                    return Ok(());
                }
            }
            let length = seen.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            if let Some(length) = length {
                let mut body = vec![0; length];
                reader.read_exact(&mut body)?;
                seen.push_str(&String::from_utf8_lossy(&body));
            } else if seen.contains("transfer-encoding: chunked") {
                let head = seen.len();
                while !seen[head..].ends_with("0\r\n\r\n") {
                    if reader.read_line(&mut seen)? == 0 {
                        return Ok(());
                    }
                    assert!(seen.len() < 10_000, "what is no end: {seen}");
                }
            }
            let is_get = seen.starts_with("GET");
            let trailers = "x-omnigate-tenant: evil\r\nset-cookie: evil=1\r\ncontent-length: 666\r\nx-checksum: fine\r\n";
            let trailers = if is_get { trailers } else { "" };
            write!(
                reader.get_mut(),
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{seen}\r\n0\r\n{trailers}\r\n",
                seen.len()
            )?;
        }
    })
}

#[test]
fn trailers_of_requests_reach_no_http1_server() {
    // All of the body goes on as it comes.
    for settings in ["", "limits.buffer_body_bytes = \"0B\"\n"] {
        let node = Node::start(&format!("{settings}{}", to(server())));
        let request = "POST / HTTP/1.1\r\nhost: a\r\nte: trailers\r\ntransfer-encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\
                       authorization: evil\r\nx-forwarded-for: evil\r\nx-plain: evil\r\n\r\n";
        let answer = ask(node.gateway, request).unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(answer.body.contains("body") && !answer.body.contains("evil"), "{}", answer.body);
        let fields = [("authorization", "evil"), ("x-omnigate-tenant", "evil"), ("x-plain", "evil")];
        let mut client = H2Client::connect(node.gateway).unwrap();
        let answer = client.post_with_trailers("/", &block(&fields)).unwrap();
        assert!(answer.body().contains("body") && !answer.body().contains("evil"), "{answer:?}");
    }
}

#[test]
fn trailers_of_answers_that_act_as_headers_are_dropped() {
    let node = Node::start(&to(server()));
    let mut client = Client::connect(node.gateway).unwrap();
    client.send_raw("GET / HTTP/1.1\r\nhost: a\r\nte: trailers\r\nconnection: close\r\n\r\n").unwrap();
    let answer = String::from_utf8(client.wait_for_end().unwrap()).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\n"), "{answer}");
    assert!(!answer.contains("evil") && !answer.contains("666"), "{answer}");
}

#[test]
fn trailers_of_requests_say_to_no_http2_server_what_headers_may_not() {
    let server = h2_upstream::start(
        100,
        |trailers| {
            let trailers = trailers.unwrap_or_default();
            let mut names: Vec<_> = trailers.keys().map(|name| name.as_str().to_owned()).collect();
            names.sort();
            names.join(" ")
        },
        || true,
    );
    let node = Node::start(&format!(
        "{UNLIMITED}tenant_from = [\"header:x-tenant\", \"ip\"]\n\
         route = [{{ path = \"/\", upstream = \"up\", request_headers = {{ set = {{ x-role = \"user\" }}, \
         remove = [\"x-debug\"] }} }}, \
         {{ path = \"/\", upstream = \"up\", headers = {{ x-version = \"2\" }} }}]\n\
         upstream.up = {{ endpoints = [\"http://{server}\"], protocol = \"h2\" }}\n"
    ));
    let names = [
        "x-checksum",
        // Who the client is.
        "client-ip",
        "true-client-ip",
        "cf-connecting-ip",
        "x-ssl-client-verify",
        "x-client-cert",
        "x_omnigate_tenant",
        "x.omnigate.tenant",
        "x-forwarded",
        "x-scheme",
        // What it really wants.
        "x-host",
        "x-http-method-override",
        // What rules set and remove, what names tenants, what routes are chosen by; and what looks like it.
        "x-role",
        "x_role",
        "x-debug",
        "x-tenant",
        "x-version",
        "x.version",
    ];
    let trailers: Vec<_> = names.iter().map(|name| (*name, "evil")).collect();
    let mut client = H2Client::connect(node.gateway).unwrap();
    let answer = client.post_with_trailers("/", &block(&trailers)).unwrap();
    assert_eq!(answer.body(), "x-checksum");
    let chunked: String = names.iter().map(|name| format!("{name}: evil\r\n")).collect();
    let request = format!(
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n{chunked}\r\n"
    );
    assert_eq!(ask(node.gateway, request).unwrap().body, "x-checksum");
    // A field that the client has removed from its header comes back in no trailer.
    let request = "POST / HTTP/1.1\r\nhost: a\r\nx-plain: 1\r\nconnection: x-plain\r\ntransfer-encoding: chunked\r\n\r\n\
                   4\r\nbody\r\n0\r\nx-plain: evil\r\n\r\n";
    assert_eq!(ask(node.gateway, request).unwrap().body, "");
}
