//! Objects over the overlay: put at one node, found by another, served by its gateway; and a peer that lies.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::Command,
    thread,
};

use bytes::{Bytes, BytesMut};
use oap::{Data, Decoder, Features, Frame, Hello, Message, Parser};
use types::{NodeId, ObjectId};

use crate::support::{Node, PATIENCE, ask, config, eventually, free_addr, get};

const ROUTE: &str = "route = [{ path = \"/v1/o\", service = \"objects\" }]\n";

fn omnigate(dir: &Path, args: &[&str]) -> String {
    let run = Command::new(env!("CARGO_BIN_EXE_omnigate"))
        .args(args)
        .current_dir(dir)
        .env_clear()
        .output()
        .unwrap();
    assert!(run.status.success(), "{args:?}: {}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap().trim().to_owned()
}

fn overlay(listen: SocketAddr, more: &str) -> String {
    format!("{ROUTE}[overlay]\nenabled = true\nlisten = \"{listen}\"\n{more}\n")
}

/// A folder with a node's key, and who that makes it.
fn identity() -> (tempfile::TempDir, NodeId) {
    let dir = tempfile::tempdir().unwrap();
    let unused = config(free_addr(), free_addr(), &overlay(free_addr(), ""));
    std::fs::write(dir.path().join("omnigate.toml"), unused).unwrap();
    let id = omnigate(dir.path(), &["node", "id", "--config", "omnigate.toml"]);
    (dir, id.parse().unwrap())
}

fn wait_for_peers(node: &Node, count: usize) {
    eventually("the nodes are connected", || {
        let peers = get(node.admin, "/overlay/peers").ok()?.json();
        (peers["peers"].as_array()?.len() == count).then_some(())
    });
}

fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect()
}

/// Two nodes that prove their keys to each other.
fn pair() -> (Node, Node, NodeId) {
    let ((dir_a, id_a), (dir_b, id_b)) = (identity(), identity());
    let (listen_a, listen_b) = (free_addr(), free_addr());
    let a = Node::start_in(dir_a, &overlay(listen_a, &format!("allow = [\"{id_b}\"]")));
    let b = Node::start_in(dir_b, &overlay(listen_b, &format!("peers = [\"{id_a}@{listen_a}\"]")));
    // Each knows by itself when it is connected.
    wait_for_peers(&a, 1);
    wait_for_peers(&b, 1);
    (a, b, id_b)
}

#[test]
fn an_object_put_at_one_node_is_served_by_the_gateway_of_another() {
    let (a, b, _) = pair();
    let content = content(3_000_000);
    std::fs::write(a.path().join("big"), &content).unwrap();
    let id = omnigate(a.path(), &["object", "put", "big", "--config", "omnigate.toml"]);
    assert_eq!(id, ObjectId::new(*blake3::hash(&content).as_bytes()).to_string());
    let path = format!("/v1/o/{id}");
    let with = |field: &str| {
        ask(b.gateway, format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{field}\r\n\r\n"))
            .unwrap()
    };
    let part = with("range: bytes=100000-199999");
    assert!(part.status == 206 && part.bytes == content[100_000..200_000], "{}", part.status);
    assert_eq!(part.header("content-range"), Some("bytes 100000-199999/3000000"));
    let last = with("range: bytes=-1");
    assert!(last.status == 206 && last.bytes == content[2_999_999..], "{}", last.status);
    assert_eq!(with("range: bytes=3000000-").status, 416);
    let etag = format!("\"{id}\"");
    assert_eq!(with(&format!("if-none-match: {etag}")).status, 304);
    let head = format!("HEAD {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    let mut socket = TcpStream::connect(b.gateway).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.write_all(head.as_bytes()).unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 ") && text.contains("content-length: 3000000"), "{text}");
    let whole = get(b.gateway, &path).unwrap();
    assert!(whole.status == 200 && whole.bytes == content, "{}", whole.status);
    assert_eq!(whole.header("etag"), Some(etag.as_str()));
    assert_eq!(get(b.gateway, &format!("/v1/o/{}", ObjectId::new([7; 32]))).unwrap().status, 404);
    assert_eq!(get(b.gateway, "/v1/o/nonsense").unwrap().status, 400);
    drop(a);
    wait_for_peers(&b, 0);
    let kept = get(b.gateway, &path).unwrap();
    assert!(kept.status == 200 && kept.bytes == content, "what passed through whole is kept");
}

#[test]
fn an_object_is_handed_over_and_got_from_the_command_line() {
    let (a, b, id_b) = pair();
    let content = content(500_000);
    std::fs::write(a.path().join("file"), &content).unwrap();
    let to = id_b.to_string();
    let put = ["object", "put", "file", "--to", &to, "--json", "--config", "omnigate.toml"];
    let put: serde_json::Value = serde_json::from_str(&omnigate(a.path(), &put)).unwrap();
    assert_eq!((put["len"].as_u64(), put["to"][0].as_str()), (Some(500_000), Some(to.as_str())));
    let id = put["id"].as_str().unwrap();
    let taken = "overlay_objects_total{node=\"omnigate\",service=\"overlay\",op=\"take\",outcome=\"done\"}";
    eventually("it is counted", || (b.metric(taken) == 1.0).then_some(()));
    drop(a);
    omnigate(b.path(), &["object", "get", id, "--output", "copy", "--config", "omnigate.toml"]);
    assert!(std::fs::read(b.path().join("copy")).unwrap() == content);
    let missing = ObjectId::new([9; 32]).to_string();
    let run = Command::new(env!("CARGO_BIN_EXE_omnigate"))
        .args(["object", "get", &missing, "--output", "none", "--config", "omnigate.toml"])
        .current_dir(b.path())
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&run.stderr).contains("nobody has this object"));
    assert!(!b.path().join("none").exists() && !b.path().join("none.part").exists());
}

/// Introduces itself as a peer, and answers whatever it is asked for with the same wrong bytes.
fn lie(mut socket: TcpStream, me: NodeId) {
    let hello = Hello {
        version: oap::VERSION,
        node: me,
        features: Features::OBJECTS,
        max_frame: oap::FRAME_MAX,
        credit: oap::CREDIT_FLOOR,
        max_streams: 8,
        rate: 0,
        token: None,
        topics: Vec::new(),
    };
    socket.write_all(&Frame::connection(Message::Hello(hello)).to_bytes().unwrap()).unwrap();
    let (mut received, mut room, mut parser) = (BytesMut::new(), [0; 4096], Parser::default());
    while let Ok(read @ 1..) = socket.read(&mut room) {
        received.extend_from_slice(&room[..read]);
        while let Some(raw) = Decoder::default().next(&mut received).unwrap() {
            let frame = parser.parse(raw).unwrap();
            if matches!(frame.message, Message::Start(_)) {
                let body = Bytes::from_static(b"a lie");
                let data = Data { object_len: 5, offset: 0, proof: Bytes::new(), body };
                let _ = socket.write_all(&Frame::on(frame.stream, Message::Data(data)).to_bytes().unwrap());
            }
        }
    }
}

#[test]
fn bytes_of_a_peer_that_lies_reach_nobody() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (addr, liar) = (listener.local_addr().unwrap(), NodeId::new([3; 32]));
    thread::spawn(move || listener.incoming().flatten().for_each(|socket| lie(socket, liar)));
    let lines = format!("security = \"plaintext\"\npeers = [\"{liar}@{addr}\"]");
    let node = Node::start(&overlay(free_addr(), &lines));
    wait_for_peers(&node, 1);
    let path = format!("/v1/o/{}", ObjectId::new(*blake3::hash(b"the truth").as_bytes()));
    let answer = get(node.gateway, &path).unwrap();
    assert_eq!(answer.status, 502, "{}", answer.body);
    assert!(!answer.body.contains("a lie") && answer.body.contains("bad_gateway"), "{}", answer.body);
    let lies = "frame_reject_total{node=\"omnigate\",service=\"overlay\",reason=\"mismatch\"}";
    eventually("it is counted", || (node.metric(lies) == 1.0).then_some(()));
    wait_for_peers(&node, 1);
}
