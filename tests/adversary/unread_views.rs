//! Clients that ask for views and do not read them: what the node keeps for them stays within `limits.buffer_memory`, or twice
//! that with the one answer that every tenant may have.

use std::{
    io::{BufRead, BufReader, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream},
};

use crate::{
    h2_frames::{ACK, END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, block, frame, read_frame},
    scripted_server::{self, json_server},
    support::{Client, Node, PATIENCE, UNLIMITED, eventually},
};

/// Bytes of a part, and parts of the view.
const PART: usize = 1_000_000;
const PARTS: usize = 4;
/// Two views, if one tenant had all of it.
const BUFFER_MEMORY: usize = 8 << 20;
/// Attackers' addresses, and views that each asks for: more than fit.
const ADDRESSES: u8 = 8;
const EACH: u32 = 4;
const VIEW: &str = "/v1/views/home";

fn node() -> Node {
    let server = json_server(|_| format!("\"{}\"", "x".repeat(PART)));
    let part = |at| format!("{{ name = \"p{at}\", upstream = \"up\", path = \"/\", budget = \"60s\" }}");
    let parts = (0..PARTS).map(part).collect::<Vec<_>>().join(", ");
    Node::start(&format!(
        "{UNLIMITED}upstream.up.endpoints = [\"http://{server}\"]\nlimits.buffer_memory = \"{}MiB\"\n\
         min_rate = 0\nview.home.parts = [{parts}]\n",
        BUFFER_MEMORY >> 20
    ))
}

/// A connection from an address that has little room for what it does not read.
fn connect(from: u8, to: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.bind(&SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, from)), 0).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Asks on an HTTP/1.1 connection, and reads the status of the answer and no more.
fn ask_h1(stream: &mut TcpStream) -> bool {
    use std::io::Read;
    write!(stream, "GET {VIEW} HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).unwrap();
    is_answered(&status[9..])
}

/// Asks on an HTTP/2 connection whose streams have no window, and reads the head of the answer.
fn ask_h2(connection: &mut TcpStream, stream: u32) -> bool {
    let head = [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", VIEW)];
    connection.write_all(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &block(&head))).unwrap();
    loop {
        let (kind, flags, on, payload) = read_frame(connection).unwrap();
        match kind {
            SETTINGS if flags & ACK == 0 => connection.write_all(&frame(SETTINGS, ACK, 0, &[])).unwrap(),
            // The entry `:status: 200` of HPACK's static table; any other status is a refusal.
            HEADERS if on == stream => return payload.first() == Some(&0x88),
            _ => {}
        }
    }
}

fn is_answered(status: &[u8]) -> bool {
    assert!([&b"200"[..], b"429"].contains(&status), "{}", String::from_utf8_lossy(status));
    status == b"200"
}

/// Asserts that so many views that nobody reads are within the limit, and by what the node counts too; then that somebody who
/// reads is answered once the attackers have gone.
fn assert_bounded(node: &Node, unread: usize, attackers: Vec<TcpStream>) {
    let counted = || node.metric("gateway_buffer_bytes");
    assert!(unread >= 1, "no view was answered");
    assert!(unread * PARTS * PART <= 2 * BUFFER_MEMORY, "{unread} unread views of {} bytes", PARTS * PART);
    let least = f64::from(u32::try_from(unread * PARTS * PART).unwrap());
    // A body is counted when it is taken up to be written, which may be after its head.
    eventually("what is not read is counted", || (counted() >= least).then_some(()));
    assert!(counted() <= f64::from(u32::try_from(2 * BUFFER_MEMORY).unwrap()), "{} bytes", counted());
    drop(attackers);
    eventually("the memory is free again", || (counted() == 0.0).then_some(()));
    let answer = Client::connect_from(200, node.gateway).unwrap().get(VIEW).unwrap();
    assert!(answer.status == 200 && answer.bytes.len() > PARTS * PART, "{}", answer.status);
}

#[test]
fn parts_that_have_arrived_count_while_their_view_waits_for_others() {
    // The second part never comes, and of the third the end.
    let server = scripted_server::start(|stream| {
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head)? == 0 {
                return Ok(());
            }
        }
        let fields = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
        let text = "x".repeat(PART);
        match &head {
            _ if head.starts_with("GET /0") => {
                write!(reader.get_mut(), "{fields}content-length: {}\r\n\r\n\"{text}\"", PART + 2)?;
            }
            _ if head.starts_with("GET /2") => {
                write!(reader.get_mut(), "{fields}transfer-encoding: chunked\r\n\r\n{PART:x}\r\n{text}\r\n")?;
            }
            _ => {}
        }
        reader.read_line(&mut head).map(drop)
    });
    let part = |at| format!("{{ name = \"p{at}\", upstream = \"up\", path = \"/{at}\", budget = \"60s\" }}");
    let parts = (0..3).map(part).collect::<Vec<_>>().join(", ");
    let node = Node::start(&format!(
        "{UNLIMITED}upstream.up.endpoints = [\"http://{server}\"]\nlimits.buffer_memory = \"{}MiB\"\n\
         upstream.up.timeout = \"60s\"\nview.home.parts = [{parts}]\n",
        BUFFER_MEMORY >> 20
    ));
    let mut waiting = Client::connect_from(10, node.gateway).unwrap();
    waiting.send(VIEW).unwrap();
    let counted = || node.metric("gateway_buffer_bytes");
    eventually("both parts are counted", || (counted() >= 2_000_000.0).then_some(()));
    // A tenant has a quarter of the memory, which is used up.
    let answer = Client::connect_from(10, node.gateway).unwrap().get(VIEW).unwrap();
    assert_eq!((answer.status, answer.json()["reason"].as_str()), (429, Some("busy")));
    drop(waiting);
    eventually("the memory is free again", || (counted() == 0.0).then_some(()));
}

#[test]
fn views_that_are_not_read_stay_within_their_memory_over_http1() {
    let node = node();
    let mut unread = 0;
    let mut attackers = Vec::new();
    for nth in 0..u32::from(ADDRESSES) * EACH {
        let mut stream = connect(10 + u8::try_from(nth / EACH).unwrap(), node.gateway);
        unread += usize::from(ask_h1(&mut stream));
        attackers.push(stream);
    }
    assert_bounded(&node, unread, attackers);
}

#[test]
fn views_that_are_not_read_stay_within_their_memory_over_http2() {
    /// The initial window of streams: none.
    const NO_WINDOW: [u8; 6] = [0, 4, 0, 0, 0, 0];
    let node = node();
    let mut unread = 0;
    let mut attackers = Vec::new();
    for from in 0..ADDRESSES {
        let mut connection = connect(10 + from, node.gateway);
        connection.write_all(PREFACE).unwrap();
        connection.write_all(&frame(SETTINGS, 0, 0, &NO_WINDOW)).unwrap();
        unread += (0..EACH).filter(|nth| ask_h2(&mut connection, 2 * nth + 1)).count();
        attackers.push(connection);
    }
    assert_bounded(&node, unread, attackers);
}
