//! Nodes in one process, and a peer that says exactly what it means.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use oap::{Decoder, Entry, Features, Frame, Hello, Message, MessageId, Parser, Proof, Publication, Topic};
use ron_kernel::{
    Exit, Kernel, Scope,
    config::{Loader, Schema, Snapshot, Sources},
    reload::Reconfigure as _,
};
use ron_transport::{addr::ListenAddr, inherit::Inherited, tls::raw_key::NodeKey};
use svc_overlay::{
    Delivery, EventId, LoadTokens, Overlay, OverlayConfig, OverlayError, OverlaySettings, Published,
    Subscription, TOPOLOGY,
};
use types::NodeId;

/// How long anything may take before a test gives up: ample on a machine that is busy with other things.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// A running node; it drains when the test drops it.
pub(crate) struct Node {
    pub(crate) scope: Scope,
    pub(crate) overlay: Arc<Overlay>,
    runtime: tokio::runtime::Runtime,
    conductor: Option<thread::JoinHandle<Exit>>,
}

/// A configuration of `[overlay]` with these lines.
pub(crate) fn snapshot(lines: &str) -> Snapshot {
    let text = format!("[overlay]\nenabled = true\n{lines}");
    let file = Some(("test.toml".into(), text));
    let sources = Sources { file, ..Sources::default() };
    let loader = Loader::new(Schema::new().table::<OverlayConfig>(), "TEST_");
    loader.load(sources).unwrap_or_else(|report| panic!("{}", report.render(false)))
}

/// The lines of a node without TLS, on a port of the system's choice. Waits that `more` does not set are long, so that a busy
/// machine is not taken for a slow peer.
pub(crate) fn plain(more: &str) -> String {
    let mut lines = "listen = \"127.0.0.1:0\"\nsecurity = \"plaintext\"\n".to_owned();
    for (key, value) in [
        ("peer", "{ max_rps = 0 }"),
        ("timeouts", "{ read = \"60s\", write = \"60s\" }"),
        ("handshake_timeout", "\"30s\""),
        ("objects", "{ patience = \"60s\" }"),
    ] {
        if !more.contains(&format!("{key} =")) {
            lines += &format!("{key} = {value}\n");
        }
    }
    lines + more
}

impl Node {
    pub(crate) fn start(lines: &str) -> Self {
        Self::start_in(None, lines)
    }

    pub(crate) fn start_in(data_dir: Option<&std::path::Path>, lines: &str) -> Self {
        Self::start_with(data_dir, lines, Arc::new(|_| Ok(Default::default())))
    }

    /// A node with one shard, so that all topics share one table.
    pub(crate) fn start_on_one_core(lines: &str) -> Self {
        let kernel = Kernel::builder("test").cores(std::num::NonZeroUsize::MIN);
        Self::start_kernel(kernel, None, lines, Arc::new(|_| Ok(Default::default())))
    }

    pub(crate) fn start_with(data_dir: Option<&std::path::Path>, lines: &str, tokens: LoadTokens) -> Self {
        Self::start_kernel(Kernel::builder("test"), data_dir, lines, tokens)
    }

    fn start_kernel(
        kernel: ron_kernel::KernelBuilder,
        data_dir: Option<&std::path::Path>,
        lines: &str,
        tokens: LoadTokens,
    ) -> Self {
        let kernel = kernel.drain_deadline(SOON).build().unwrap();
        let scope = kernel.scope(&TOPOLOGY);
        let config = snapshot(lines);
        // Peers in a test's hands are silent for as long as the test is busy with something else.
        let settings =
            OverlaySettings { config: &config, data_dir, idle: SOON * 10, tokens, held_elsewhere: None };
        let mut inherited = Inherited::from_env().unwrap();
        let overlay = kernel.block_on(Overlay::build(&scope, settings, &mut inherited)).unwrap();
        let conductor = thread::spawn(move || kernel.run().unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { scope, overlay, runtime, conductor: Some(conductor) }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        match self.overlay.local_addr() {
            ListenAddr::Tcp(addr) => addr,
            other => panic!("{other}"),
        }
    }

    /// How others write it.
    pub(crate) fn peer(&self) -> String {
        format!("{}@{}", self.overlay.node(), self.addr())
    }

    pub(crate) fn publish(&self, topic: &str, body: &str) -> Published {
        let publishing =
            self.overlay.publish(Topic::new(topic).unwrap(), Bytes::copy_from_slice(body.as_bytes()));
        self.runtime.block_on(async { tokio::time::timeout(SOON, publishing).await }).unwrap().unwrap()
    }

    /// Publishes so many numbers at once, and says what became of each.
    pub(crate) fn publish_many(
        &self,
        topic: &str,
        count: u32,
    ) -> Vec<(u32, Result<Published, OverlayError>)> {
        let topic = Topic::new(topic).unwrap();
        let publish = |number: u32| {
            let (overlay, topic) = (Arc::clone(&self.overlay), topic.clone());
            async move { (number, overlay.publish(topic, Bytes::from(number.to_string())).await) }
        };
        self.runtime.block_on(async {
            let mut all: tokio::task::JoinSet<_> = (0..count).map(publish).collect();
            let mut outcomes = Vec::new();
            while let Some(outcome) = tokio::time::timeout(SOON, all.join_next()).await.unwrap() {
                outcomes.push(outcome.unwrap());
            }
            outcomes
        })
    }

    pub(crate) fn subscribe(&self, topic: &str) -> Subscription {
        self.runtime.block_on(self.overlay.subscribe(Topic::new(topic).unwrap())).unwrap()
    }

    /// Comes back after an event.
    pub(crate) fn resume(&self, topic: &str, after: EventId) -> Subscription {
        self.runtime.block_on(self.overlay.resume(Topic::new(topic).unwrap(), after)).unwrap()
    }

    /// The next event, and its id.
    pub(crate) fn next_event(&self, subscription: &mut Subscription) -> (EventId, Delivery) {
        let next = async { tokio::time::timeout(SOON, subscription.next_event()).await };
        self.runtime.block_on(next).expect("something is heard in time").expect("the node goes on")
    }

    pub(crate) fn next(&self, subscription: &mut Subscription) -> Delivery {
        let next = async { tokio::time::timeout(SOON, subscription.next()).await };
        self.runtime.block_on(next).expect("something is heard in time").expect("the node goes on")
    }

    /// The next publication's text.
    pub(crate) fn hear(&self, subscription: &mut Subscription) -> String {
        loop {
            match self.next(subscription) {
                Delivery::Publication { body, .. } => return String::from_utf8(body.to_vec()).unwrap(),
                Delivery::Gap(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    pub(crate) fn reload(&self, lines: &str) {
        let new = Arc::new(snapshot(lines));
        let commit = self.runtime.block_on(self.overlay.prepare(new)).unwrap();
        commit();
    }

    pub(crate) fn wait_for_peers(&self, count: usize) {
        eventually("peers", || self.overlay.peers().len() == count);
    }

    pub(crate) fn metric(&self, line: &str) -> u64 {
        let text = self.scope.all_metrics().prometheus_text();
        let found = text.lines().find(|l| l.starts_with(line)).and_then(|l| l.rsplit(' ').next());
        found.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {line} in\n{text}"))
    }

    pub(crate) fn rejects(&self, reason: &str) -> u64 {
        self.metric(&format!("frame_reject_total{{node=\"test\",service=\"overlay\",reason=\"{reason}\"}}"))
    }

    pub(crate) fn closes(&self, reason: &str) -> u64 {
        self.metric(&format!("session_close_total{{node=\"test\",service=\"overlay\",reason=\"{reason}\"}}"))
    }

    /// Drains, and says how that went.
    pub(crate) fn stop(mut self) -> Exit {
        self.scope.shutdown().request("the test is over");
        self.conductor.take().unwrap().join().unwrap()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.scope.shutdown().request("the test is over");
        if let Some(conductor) = self.conductor.take() {
            let exit = conductor.join().unwrap();
            if !thread::panicking() {
                assert_eq!(exit.code, ron_kernel::ExitCode::Clean, "{exit}");
            }
        }
    }
}

/// Looks until it is so.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < SOON, "{what} did not come about");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A peer in the test's own hands.
pub(crate) struct Hand {
    pub(crate) socket: TcpStream,
    received: BytesMut,
    decoder: Decoder,
}

pub(crate) fn hello(node: NodeId) -> Hello {
    Hello {
        version: 1,
        node,
        features: Features::NONE,
        max_frame: oap::FRAME_MAX,
        credit: oap::CREDIT_FLOOR,
        max_streams: 8,
        rate: 0,
        token: None,
        topics: Vec::new(),
    }
}

/// The node of that number; it has a key.
pub(crate) fn any_node(number: u64) -> NodeId {
    NodeId::of_key(key_of(number).public_key().ed25519())
}

/// The key of the node of that number: the same one for as long as the tests run.
pub(crate) fn key_of(number: u64) -> NodeKey {
    static KEYS: Mutex<BTreeMap<u64, NodeKey>> = Mutex::new(BTreeMap::new());
    let mut keys = KEYS.lock().unwrap();
    keys.entry(number).or_insert_with(|| NodeKey::generate().unwrap()).clone()
}

/// The word of the node of that number that it has published up to this one.
pub(crate) fn proof(number: u64, head: &MessageId) -> Proof {
    let key = key_of(number);
    Proof { key: *key.public_key().ed25519(), signature: key.sign(&head.head_bytes()) }
}

/// A publication of the node of that number, with its word for it.
pub(crate) fn publication(publisher: u64, seq: u64, body: Bytes) -> Publication {
    let entry = Entry { publisher: any_node(publisher), incarnation: 1, seq };
    let publication = Publication::new(entry.in_topic(&Topic::new("news").unwrap()), body);
    Publication { proof: Some(proof(publisher, &publication.id).into()), ..publication }
}

impl Hand {
    /// Connected, and nothing more.
    pub(crate) fn connect(addr: SocketAddr) -> Self {
        Self::on(TcpStream::connect(addr).unwrap())
    }

    fn on(socket: TcpStream) -> Self {
        socket.set_read_timeout(Some(SOON)).unwrap();
        Self { socket, received: BytesMut::new(), decoder: Decoder::default() }
    }

    /// Connected, and introduced as that node.
    pub(crate) fn join(addr: SocketAddr, node: NodeId) -> Self {
        Self::connect(addr).introduced(node)
    }

    /// The same, with so little room for what it does not read that others notice soon.
    pub(crate) fn join_with_little_room(addr: SocketAddr, node: NodeId) -> Self {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        socket.connect(&addr.into()).unwrap();
        Self::on(socket.into()).introduced(node)
    }

    fn introduced(self, node: NodeId) -> Self {
        let mut hand = self;
        hand.say(Message::Hello(hello(node)));
        match hand.hear() {
            Some(Message::Hello(_)) => {}
            other => panic!("{other:?}"),
        }
        hand.decoder = Decoder::new(oap::FRAME_MAX, false);
        hand
    }

    pub(crate) fn say(&mut self, message: Message) {
        let bytes = Frame::connection(message).to_bytes().unwrap();
        self.socket.write_all(&bytes).unwrap();
    }

    /// Reads whatever comes and forgets it, until the node closes the connection.
    pub(crate) fn read_in_background(self) {
        let mut socket = self.socket;
        thread::spawn(move || {
            let mut room = [0; 4096];
            while socket.read(&mut room).is_ok_and(|read| read > 0) {}
        });
    }

    /// Publishes as peers do: what the node refuses, because it has too much to do, is offered again until it is taken on.
    pub(crate) fn publish(&mut self, publication: Publication) {
        let id = publication.id.clone();
        let begun = Instant::now();
        self.say(Message::Publish(publication.clone()));
        loop {
            assert!(begun.elapsed() < SOON, "{id:?} is not taken on");
            match self.hear() {
                Some(Message::Accepted(accepted)) if accepted.seqs.contains(&id.seq) => return,
                Some(Message::Error(fault)) if fault.about.as_ref() == Some(&id) => {
                    thread::sleep(Duration::from_millis(fault.retry_after_ms.max(10).into()));
                    self.say(Message::Publish(publication.clone()));
                }
                Some(Message::Ping(number)) => self.say(Message::Pong(number)),
                Some(_) => {}
                None => panic!("the node closed the connection"),
            }
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    /// The next message; none once the node has closed the connection.
    pub(crate) fn hear(&mut self) -> Option<Message> {
        loop {
            if let Some(raw) = self.decoder.next(&mut self.received).unwrap() {
                return Some(Parser::default().parse(raw).unwrap().message);
            }
            let mut room = [0; 4096];
            match self.socket.read(&mut room) {
                Ok(0) => return None,
                Ok(read) => self.received.extend_from_slice(&room[..read]),
                Err(error) => panic!("the node says nothing: {error}"),
            }
        }
    }

    /// Whether something comes within a while.
    pub(crate) fn hears_within(&mut self, wait: Duration) -> bool {
        if !self.received.is_empty() {
            return true;
        }
        self.socket.set_read_timeout(Some(wait)).unwrap();
        let something = self.socket.peek(&mut [0]).is_ok();
        self.socket.set_read_timeout(Some(SOON)).unwrap();
        something
    }

    /// From now on frames have checksums.
    pub(crate) fn expect_checksums(&mut self) {
        self.decoder = Decoder::new(oap::FRAME_MAX, true);
    }

    /// The next message that is wanted; others are passed over.
    pub(crate) fn hear_one(&mut self, wanted: impl Fn(&Message) -> bool) -> Message {
        loop {
            match self.hear() {
                Some(message) if wanted(&message) => return message,
                Some(_) => {}
                None => panic!("the node closed the connection"),
            }
        }
    }
}
