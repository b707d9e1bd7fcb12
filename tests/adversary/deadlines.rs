//! Clients that ask for impossible deadlines, and servers that must not be blamed for them.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
};

use crate::{
    h2_frames::{DATA, H2Client, RST_STREAM, frame},
    h2_server::{H2Server, ok},
    scripted_server,
    support::{Client, Node, Upstream, ask, eventually, to},
};

/// More requests than the breaker's threshold of failures in a row, each with its own way of giving a deadline.
const BOMBS: usize = 40;

#[test]
fn a_clients_own_deadline_does_not_open_the_breaker() {
    let upstream = Upstream::start();
    let node = Node::in_front_of(upstream.addr);
    let fields = [
        "x-request-timeout-ms: 1",
        "grpc-timeout: 1m",
        "grpc-timeout: 1u",
        "request-timeout: 0.001",
        "deadline: 1",
    ];
    for field in fields {
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
fn a_request_whose_deadline_has_passed_is_not_sent() {
    let server = H2Server::start(|stream| ok(stream, &[], true));
    let node = Node::start(&server.settings());
    assert_eq!(Client::connect(node.gateway).unwrap().get("/").unwrap().status, 200);
    let asked = server.asked();
    for field in ["x-request-timeout-ms: 0", "request-timeout: 0", "grpc-timeout: 0m", "deadline: 1000"] {
        for _ in 0..BOMBS {
            let request = format!("POST / HTTP/1.1\r\nhost: a\r\n{field}\r\ncontent-length: 0\r\n\r\n");
            assert_eq!(ask(node.gateway, request).unwrap().status, 504, "{field}");
        }
    }
    assert_eq!(server.asked(), asked, "what is told to have failed was done");
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
    scripted_server::start(answer_early)
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
    let mut hostile: Vec<Client> = (0..BOMBS).map(|_| Client::connect(node.gateway).unwrap()).collect();
    for client in &mut hostile {
        let head = "POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n";
        client.send_raw(format!("{head}4\r\nsome\r\n")).unwrap();
    }
    for client in &mut hostile {
        client.wait_for_line("early").unwrap();
        // What follows is no chunk, so the body of the request breaks off in the middle of the answer.
        client.send_raw("nonsense\r\n").unwrap();
    }
    for client in &mut hostile {
        let _ = client.wait_for_end();
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

/// Deadlines given several times, as fields or as a list; the first one is never the shortest sound one.
const REPEATED: [&[(&str, &str)]; 6] = [
    &[("grpc-timeout", "9H"), ("grpc-timeout", "500m")],
    &[("grpc-timeout", "nonsense"), ("grpc-timeout", "500m"), ("grpc-timeout", "7M")],
    &[("x-request-timeout-ms", "86400000"), ("x-request-timeout-ms", "500")],
    &[("x-request-timeout-ms", "-1"), ("x-request-timeout-ms", "500")],
    &[("x-request-timeout-ms", "86400000, 500"), ("grpc-timeout", "9H, 8M")],
    &[("request-timeout", "86400"), ("request-timeout", "7, 0.5"), ("deadline", "99999999999")],
];

/// The answer on HTTP/1.1 and on HTTP/2: status and body.
fn on_both(node: &Node, path: &str, fields: &[(&str, &str)]) -> [(u16, String); 2] {
    let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let first = ask(node.gateway, format!("GET {path} HTTP/1.1\r\nhost: a\r\n{lines}\r\n")).unwrap();
    let second = H2Client::connect(node.gateway).unwrap().get("a", path, fields).unwrap();
    [(first.status, first.body), (second.status().unwrap(), second.body().to_owned())]
}

#[test]
fn of_several_deadlines_the_shortest_counts_and_the_server_hears_one() {
    let upstream = Upstream::start();
    let node = Node::start(&format!("{}upstream.up.timeout = \"1h\"\n", to(upstream.addr)));
    for fields in REPEATED {
        for (status, _) in on_both(&node, "/hold", fields) {
            assert_eq!(status, 504, "{fields:?}");
        }
        for (status, head) in on_both(&node, "/head", fields) {
            assert_eq!(status, 200, "{fields:?}");
            let head = head.to_ascii_lowercase();
            for name in ["x-request-timeout-ms: ", "grpc-timeout: ", "request-timeout: "] {
                let told: Vec<&str> = head.lines().filter_map(|line| line.strip_prefix(name)).collect();
                let wanted =
                    usize::from(name.starts_with('x') || fields.iter().any(|(n, _)| name.starts_with(n)));
                assert_eq!(told.len(), wanted, "{fields:?}: {head}");
                assert!(!told.iter().any(|told| told.contains(',') || told.ends_with('H')), "{head}");
            }
        }
    }
    upstream.release();
}

/// Asks until the breaker has opened: then a request is answered 502 and does not reach the server.
#[track_caller]
fn opens_the_breaker(server: &H2Server, what: &str) {
    let node = Node::start(&format!("{}upstream.up.timeout = \"100ms\"\n", server.settings()));
    let mut last = String::new();
    for _ in 0..BOMBS {
        let asked = server.asked();
        let answer = Client::connect(node.gateway).unwrap().get("/");
        if matches!(&answer, Ok(answer) if answer.status == 502) && server.asked() == asked {
            return;
        }
        last = format!("{answer:?}");
    }
    panic!("{what}: the breaker stays closed, last {last}");
}

#[test]
fn an_http2_server_is_blamed_for_its_own_silence_and_its_own_resets() {
    let silent = H2Server::start(|_| Vec::new());
    opens_the_breaker(&silent, "no answer");
    let stalls = H2Server::start(|stream| {
        [ok(stream, &[("content-length", "100")], false), frame(DATA, 0, stream, b"half")].concat()
    });
    opens_the_breaker(&stalls, "half an answer");
    // INTERNAL_ERROR, CANCEL and NO_ERROR, before and inside an answer.
    for code in [2_u32, 8, 0] {
        let reset = move |stream| frame(RST_STREAM, 0, stream, &code.to_be_bytes());
        opens_the_breaker(&H2Server::start(reset), &format!("reset with {code}"));
        let midway = move |stream| {
            let half = frame(DATA, 0, stream, b"half");
            [ok(stream, &[], false), half, reset(stream)].concat()
        };
        opens_the_breaker(&H2Server::start(midway), &format!("reset midway with {code}"));
    }
}

#[test]
fn an_http2_server_is_not_blamed_for_its_clients() {
    let server = H2Server::start(|_| Vec::new());
    let node = Node::start(&format!("{}upstream.up.timeout = \"1h\"\n", server.settings()));
    // More than the breaker bears in a row, and fewer than there are slots: each keeps its own until the server answers.
    for _ in 0..8 {
        // One that does not want to wait, and one that leaves.
        let impatient = "GET / HTTP/1.1\r\nhost: a\r\nx-request-timeout-ms: 1\r\n\r\n";
        assert_eq!(ask(node.gateway, impatient).unwrap().status, 504);
        let (asked, mut leaves) = (server.asked(), Client::connect(node.gateway).unwrap());
        leaves.send("/").unwrap();
        eventually("the server is asked", || (server.asked() > asked).then_some(()));
    }
}
