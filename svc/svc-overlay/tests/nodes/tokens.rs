//! Tokens in the hands of others: whoever gets one that a node has shown can use it nowhere.

use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use captoken::{Caveat, KeyRing, RevocationList};
use oap::{Decoder, ErrorCode, Fault, Frame, Hello, Message, Parser};
use ron_transport::{
    stream::Stream,
    tls::{
        TlsStream,
        raw_key::{NodeKey, RawClientTls, RawKeyOptions, RawServerTls},
    },
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use types::NodeId;

use crate::{
    secure::{id_of, lines, token},
    support::{Node, SOON, eventually, hello},
};

/// A node that lets in whoever shows a token, with these further lines.
fn start(dir: Option<&std::path::Path>, more: &str) -> Node {
    let tokens =
        |_: &_| Ok((KeyRing::new(vec![token("overlay.join", &[]).0]).unwrap(), RevocationList::default()));
    Node::start_with(dir, &lines(&format!("security = \"token\"\n{more}")), std::sync::Arc::new(tokens))
}

/// Somebody between two nodes, with a key of its own.
struct Between {
    key: NodeKey,
    node: NodeId,
}

impl Between {
    fn new() -> Self {
        let key = NodeKey::generate().unwrap();
        let node = NodeId::of_key(key.public_key().ed25519());
        Self { key, node }
    }

    fn options() -> RawKeyOptions {
        RawKeyOptions { alpn: vec![b"oap/1".to_vec()], ..RawKeyOptions::default() }
    }

    /// Answers the next connection as a node would.
    async fn answer(&self, listener: &TcpListener) -> TlsStream<Stream> {
        let tls = RawServerTls::new(&self.key, &Self::options(), |_| true).unwrap();
        let (socket, _) = listener.accept().await.unwrap();
        tls.accept(Stream::Tcp(socket), SOON).await.unwrap()
    }

    /// Dials a node, shows a token, and gives what the node says.
    async fn show(&self, addr: SocketAddr, token: Option<oap::Token>) -> Message {
        let tls = RawClientTls::new(&self.key, &Self::options(), |_| true).unwrap();
        let socket = TcpStream::connect(addr).await.unwrap();
        let mut wire = tls.connect(Stream::Tcp(socket), SOON).await.unwrap();
        say(&mut wire, Hello { token, ..hello(self.node) }).await;
        hear(&mut wire).await
    }
}

async fn say(wire: &mut TlsStream<Stream>, hello: Hello) {
    let bytes = Frame::connection(Message::Hello(hello)).to_bytes().unwrap();
    wire.write_all(&bytes).await.unwrap();
    wire.flush().await.unwrap();
}

async fn hear(wire: &mut TlsStream<Stream>) -> Message {
    let mut received = BytesMut::new();
    loop {
        if let Some(raw) = Decoder::default().next(&mut received).unwrap() {
            return Parser::default().parse(raw).unwrap().message;
        }
        assert_ne!(wire.read_buf(&mut received).await.unwrap(), 0, "the node says nothing");
    }
}

#[track_caller]
fn assert_unauth(answer: Message, why: &str) {
    let Message::Error(Fault { code, detail, .. }) = answer else { panic!("{answer:?}") };
    assert_eq!((code, &*detail), (ErrorCode::Unauth, why));
}

#[test]
fn who_answers_in_a_nodes_place_can_neither_use_its_token_nor_show_it_back() {
    let good = token("overlay.join", &[]).1;
    let a = start(None, "");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let addr = listener.local_addr().unwrap();
    // It dials an address, and takes whoever answers there and shows a token.
    let b = start(None, &format!("peers = [\"{addr}\"]\ntoken = \"{good}\""));
    runtime.block_on(async {
        let between = Between::new();
        let mut wire = between.answer(&listener).await;
        let Message::Hello(shown) = hear(&mut wire).await else { panic!("no HELLO") };
        assert_ne!(shown.token.as_ref().map(oap::Token::reveal), Some(good.as_bytes()), "not as it is");
        let elsewhere = between.show(a.addr(), shown.token.clone()).await;
        assert_unauth(elsewhere, "the token is bound to another connection");
        say(&mut wire, Hello { token: shown.token, ..hello(between.node) }).await;
        assert_unauth(hear(&mut wire).await, "the token is bound to another connection");
        let as_it_is = oap::Token::new(Bytes::copy_from_slice(good.as_bytes()));
        assert_unauth(between.show(a.addr(), as_it_is).await, "the token is not bound to the connection");
        assert_unauth(between.show(a.addr(), None).await, "the node is not listed, and shows no token");
    });
    drop((listener, runtime));
    assert!(a.overlay.peers().is_empty() && b.overlay.peers().is_empty());
}

#[test]
fn a_token_is_for_the_nodes_that_it_names() {
    let (named, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let mut room = Vec::new();
    let nodes = Caveat::nodes(&[id_of(named.path())], &mut room).unwrap();
    let good = token("overlay.join", &[nodes]).1;
    let a = start(None, &format!("token = \"{}\"", token("overlay.join", &[]).1));
    let dial = format!("peers = [\"{}\"]\ntoken = \"{good}\"", a.addr());
    let b = start(Some(named.path()), &dial);
    a.wait_for_peers(1);
    b.wait_for_peers(1);
    let c = start(Some(other.path()), &dial);
    eventually("another node is refused", || a.rejects("unauth") > 0);
    assert!(c.overlay.peers().is_empty());
    assert_eq!(a.overlay.peers()[0].node, id_of(named.path()));
}

#[test]
fn a_node_that_is_unlisted_during_its_handshake_does_not_stay() {
    let between = Between::new();
    let node = Node::start(&lines(&format!("allow = [\"{}\"]", between.node)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut wire = runtime.block_on(async {
        let tls = RawClientTls::new(&between.key, &Between::options(), |_| true).unwrap();
        let socket = TcpStream::connect(node.addr()).await.unwrap();
        tls.connect(Stream::Tcp(socket), SOON).await.unwrap()
    });
    // The node has proven its key, so it knows whom it expects here.
    node.reload(&lines(""));
    let said = runtime.block_on(async {
        say(&mut wire, hello(between.node)).await;
        let (mut received, mut said) = (BytesMut::new(), Vec::new());
        while wire.read_buf(&mut received).await.unwrap_or(0) > 0 {
            while let Some(raw) = Decoder::default().next(&mut received).unwrap() {
                said.push(Parser::default().parse(raw).unwrap().message);
            }
        }
        said
    });
    assert_unauth(said.last().unwrap().clone(), "the node is not listed any more");
    node.wait_for_peers(0);
}
