//! Very many sessions at once, over TLS, from another process than the node's: what they cost, and that a drain ends them.
//!
//! A few hundred by default; `OMNIGATE_OVERLAY_SESSIONS=10000` for the full proof, and `OMNIGATE_BIN=target/release/omnigate`
//! to have the program measured that is shipped.

use std::{os::unix::fs::OpenOptionsExt as _, sync::Arc, time::Instant};

use bytes::{Bytes, BytesMut};
use captoken::{Caveat, Class, Grant, NameList, RootKey, Token, TokenId, key_text};
use oap::{Decoder, Features, Frame, Hello, Message, Parser};
use ron_transport::{
    stream::Stream,
    tls::{
        TlsStream,
        raw_key::{NodeKey, RawClientTls, RawKeyOptions},
    },
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpSocket,
    sync::Semaphore,
};
use types::NodeId;

use crate::support::{Node, PATIENCE, eventually, free_addr};

/// The full proof.
const FULL: usize = 10_000;
/// What is allowed for ten thousand.
const MEMORY: u64 = 400 * 1024 * 1024;
/// Handshakes at a time; more would only wait for each other.
const AT_ONCE: usize = 64;

struct Guest {
    wire: TlsStream<Stream>,
}

impl Guest {
    /// Connects as a node that nobody has seen before.
    async fn join(addr: std::net::SocketAddr, token: Token) -> Self {
        let key = NodeKey::generate().unwrap();
        let options = RawKeyOptions { alpn: vec![b"oap/1".to_vec()], ..RawKeyOptions::default() };
        let tls = RawClientTls::new(&key, &options, |_| true).unwrap();
        let socket = TcpSocket::new_v4().unwrap().connect(addr).await.unwrap();
        let mut wire = tls.connect(Stream::Tcp(socket), PATIENCE).await.unwrap();
        let node = NodeId::of_key(key.public_key().ed25519());
        let mut channel = [0; captoken::CHANNEL_LEN];
        assert!(wire.export(b"EXPERIMENTAL OAP/1 token", node.as_bytes(), &mut channel));
        let token = token.attenuate(&Caveat::Channel(&channel)).unwrap().encode();
        let hello = Hello {
            version: oap::VERSION,
            node,
            features: Features::NONE,
            max_frame: oap::FRAME_MAX,
            credit: oap::CREDIT_FLOOR,
            max_streams: 1,
            rate: 0,
            token: oap::Token::new(Bytes::copy_from_slice(token.as_bytes())),
            topics: Vec::new(),
        };
        let bytes = Frame::connection(Message::Hello(hello)).to_bytes().unwrap();
        wire.write_all(&bytes).await.unwrap();
        let answer = hear(&mut wire, &mut BytesMut::new(), Decoder::default()).await;
        assert!(matches!(answer, Some(Message::Hello(_))), "{answer:?}");
        Self { wire }
    }

    /// Answers to what a node asks, until it says goodbye; what it said last.
    async fn stay(mut self) -> Option<Message> {
        let (mut received, decoder, mut last) = (BytesMut::new(), Decoder::new(oap::FRAME_MAX, false), None);
        while let Some(message) = hear(&mut self.wire, &mut received, decoder).await {
            if let Message::Ping(number) = message {
                let pong = Frame::connection(Message::Pong(number)).to_bytes().unwrap();
                let _ = self.wire.write_all(&pong).await;
            }
            last = Some(message);
        }
        let _ = self.wire.shutdown().await;
        last
    }
}

async fn hear(wire: &mut TlsStream<Stream>, received: &mut BytesMut, decoder: Decoder) -> Option<Message> {
    loop {
        if let Some(raw) = decoder.next(received).unwrap() {
            return Some(Parser::default().parse(raw).unwrap().message);
        }
        if !matches!(wire.read_buf(received).await, Ok(1..)) {
            return None;
        }
    }
}

/// A folder with a root key, and a token that lets its bearer join.
fn home_with_token() -> (tempfile::TempDir, Token) {
    let dir = tempfile::tempdir().unwrap();
    let secret = key_text(&[7; 32]);
    let mut file = std::fs::OpenOptions::new();
    let path = dir.path().join("root.key");
    let mut file = file.write(true).create_new(true).mode(0o600).open(path).unwrap();
    std::io::Write::write_all(&mut file, secret.as_bytes()).unwrap();
    let key = RootKey::parse(secret.as_bytes()).unwrap();
    let grant = Grant { class: Class::Internal, scopes: NameList::new("overlay.join").unwrap() };
    let token = Token::mint(&key, TokenId::new([1; 16]), &grant, &[]).unwrap();
    (dir, token)
}

#[test]
fn very_many_sessions_cost_little_and_a_drain_ends_them_all() {
    let count: usize = std::env::var("OMNIGATE_OVERLAY_SESSIONS").map_or(300, |count| count.parse().unwrap());
    let (dir, token) = home_with_token();
    let addr = free_addr();
    // For the proof, as long as a node may be given; a busy machine has none.
    let drain = if count >= FULL { "drain_deadline = \"5s\"\n" } else { "" };
    let mut node = Node::start_in(
        dir,
        &format!(
            "enabled = false\n[node]\ndata_dir = \"./data\"\n{drain}[auth]\nroot_keys = [\"root.key\"]\n\
             [overlay]\nenabled = true\nlisten = \"{addr}\"\nsecurity = \"token\"\ntimeouts = {{ idle = \"10m\" }}\n\
             transport = {{ max_conns = {count}, max_conns_per_client = {count} }}\nhandshake_timeout = \"30s\"\n"
        ),
    );
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let before = node.resident_memory();
    let begun = Instant::now();
    let guests = runtime.block_on(async {
        let places = Arc::new(Semaphore::new(AT_ONCE));
        let mut joining = Vec::new();
        for _ in 0..count {
            let place = Arc::clone(&places).acquire_owned().await.unwrap();
            let token = token.clone();
            #[expect(clippy::async_yields_async, reason = "who has joined stays while others join")]
            joining.push(tokio::spawn(async move {
                let guest = Guest::join(addr, token).await;
                drop(place);
                tokio::spawn(guest.stay())
            }));
        }
        let mut staying = Vec::new();
        for join in joining {
            staying.push(join.await.unwrap());
        }
        staying
    });
    let took = begun.elapsed();
    eventually("all are counted", || {
        ((node.metric("overlay_peers{") - count as f64).abs() < 0.5).then_some(())
    });
    let memory = node.resident_memory();
    println!(
        "{count} TLS sessions in {took:?}: {} MiB in all, {} KiB each",
        memory / 1024 / 1024,
        (memory - before) / 1024 / count as u64
    );
    if count >= FULL {
        assert!(memory <= MEMORY, "{memory} bytes");
    }
    let begun = Instant::now();
    node.signal("TERM");
    let code = node.exit_code();
    println!("drained in {:?}", begun.elapsed());
    assert_eq!(code, 0, "{}", node.log());
    let said_goodbye = runtime.block_on(async {
        let mut goodbyes = 0;
        for guest in guests {
            goodbyes += usize::from(matches!(guest.await.unwrap(), Some(Message::Goaway(_))));
        }
        goodbyes
    });
    assert_eq!(said_goodbye, count, "everybody is told");
}
