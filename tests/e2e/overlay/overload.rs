//! Pressure: peers that send more than a node can look at raise `overload`, and publications are refused first, with the time
//! to come back, by every way in. What reads goes on, and once the pressure is gone all is as before.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
};

use bytes::{Bytes, BytesMut};
use oap::{Decoder, Entry, ErrorCode, Frame, Message, Parser, Proof, Publication, Topic};
use ron_transport::tls::raw_key::NodeKey;
use types::NodeId;

use super::{
    conditions::{cleared, standing},
    drain::join,
    node::{Home, OverlayNode, command},
};
use crate::support::{Answer, ask, eventually, free_addr, get};

/// Peers that send without a pause.
const FLOODERS: usize = 24;
/// Publications that a flooder writes at once. Each has a proof, which takes the node longer than all the rest.
const AT_ONCE: u64 = 64;

const BODY: [u8; 2048] = [7; 2048];
/// What the flood sends while it is looked at how much memory the node takes for it.
const MUCH: u64 = 128 << 20;
/// What the node may take more by then: far less than it was sent.
const LITTLE: u64 = 32 << 20;

/// What flooding peers are told.
#[derive(Default)]
struct Flood {
    over: AtomicBool,
    /// Publications refused with `busy` and a second to wait.
    shed: AtomicU64,
    /// Bytes that the node has taken.
    sent: AtomicU64,
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
    }
}

/// Publishes without a pause until the flood is over.
fn flood(addr: SocketAddr, flood: &Arc<Flood>) {
    let (topic, key) = (Topic::new("news").unwrap(), NodeKey::generate().unwrap());
    let publisher = NodeId::of_key(key.public_key().ed25519());
    let socket = join(addr, publisher);
    let (reading, told) = (socket.try_clone().unwrap(), Arc::downgrade(flood));
    thread::spawn(move || {
        let is_over = || told.upgrade().is_none_or(|flood| flood.over.load(Relaxed));
        read_refusals(reading, is_over, || {
            told.upgrade().into_iter().for_each(|flood| _ = flood.shed.fetch_add(1, Relaxed));
        });
    });
    let over = Arc::downgrade(flood);
    thread::spawn(move || {
        let mut socket = socket;
        for batch in 0.. {
            let mut frames = BytesMut::new();
            for seq in batch * AT_ONCE + 1..=(batch + 1) * AT_ONCE {
                let id = Entry { publisher, incarnation: 1, seq }.in_topic(&topic);
                let signature = key.sign(&id.head_bytes());
                let proof = Some(Proof { key: *key.public_key().ed25519(), signature }.into());
                let publication = Publication { proof, ..Publication::new(id, Bytes::from_static(&BODY)) };
                frames
                    .extend_from_slice(&Frame::connection(Message::Publish(publication)).to_bytes().unwrap());
            }
            if over.upgrade().is_none_or(|flood| flood.over.load(Relaxed))
                || socket.write_all(&frames).is_err()
            {
                return;
            }
            over.upgrade()
                .into_iter()
                .for_each(|flood| _ = flood.sent.fetch_add(frames.len() as u64, Relaxed));
        }
    });
}

/// Reads what the node says, and counts the refusals of a node that sheds.
fn read_refusals(mut socket: TcpStream, is_over: impl Fn() -> bool, mut shed: impl FnMut()) {
    let (mut received, mut room) = (BytesMut::new(), [0; 16 * 1024]);
    let decoder = Decoder::new(oap::FRAME_MAX, false);
    while let Ok(read @ 1..) = socket.read(&mut room) {
        received.extend_from_slice(&room[..read]);
        while let Some(raw) = decoder.next(&mut received).unwrap() {
            if let Message::Error(fault) = Parser::default().parse(raw).unwrap().message
                && fault.code == ErrorCode::Busy
                && fault.retry_after_ms == 1000
            {
                assert!(fault.about.is_some(), "the publication is named");
                shed();
            }
        }
        if is_over() {
            return;
        }
    }
}

/// The answer to a publication on the admin listener or on that for applications.
fn publish(addr: SocketAddr, path: &str) -> Option<Answer> {
    let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\nx-omnigate: 1\r\nconnection: close\r\n");
    ask(addr, format!("{head}content-length: 5\r\n\r\nhello")).ok()
}

/// Publishes until that is refused because the node sheds.
#[track_caller]
fn refused_as_degraded(addr: SocketAddr, path: &str) {
    let refusal = eventually(&format!("a publication to {path} is refused"), || {
        publish(addr, path).filter(|answer| answer.status == 503)
    });
    let problem = refusal.json();
    assert_eq!((&problem["reason"], &problem["retry_after_ms"]), (&"degraded".into(), &1000.into()));
    assert_eq!(refusal.header("retry-after"), Some("1"), "{refusal:?}");
}

/// Publishes with `omnigate pub` until that is refused because the node sheds.
fn refused_by_pub(node: &OverlayNode) {
    eventually("`pub` is refused", || {
        let args = ["pub", "--config", "omnigate.toml", "--wait", "1ms", "news", "hello"];
        let output = command(node.node.path(), &args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        (!output.status.success() && said.contains("writes are refused for now")).then_some(())
    });
}

#[test]
fn under_pressure_publications_are_refused_first_by_every_way_in_and_taken_again_after_it() {
    let api = free_addr();
    let node = OverlayNode::start(
        Home::new(),
        &format!(
            "security = \"plaintext\"\ntopics = [\"news\"]\npeer = {{ max_rps = 0, inflight_frames = 512 }}\n\
             gossip = {{ cache_bytes = \"4MiB\", retain_all_bytes = \"4MiB\" }}\n\
             api = {{ enabled = true, listen = \"{api}\", auth = \"none\" }}\n"
        ),
    );
    let pressure = Arc::<Flood>::default();
    (0..FLOODERS).for_each(|_| flood(node.addr, &pressure));
    let condition = eventually("overload stands", || standing(&node.node, "overload"));
    assert_eq!(condition["effect"], "shed_writes");
    assert!(condition["reason"].as_str().unwrap().starts_with("publications wait for"), "{condition}");
    // The condition settles and comes back for as long as the flood lasts.
    thread::scope(|scope| {
        scope.spawn(|| refused_as_degraded(node.node.admin, "/overlay/pub/news"));
        scope.spawn(|| refused_as_degraded(api, "/v1/topics/news"));
        scope.spawn(|| refused_by_pub(&node));
        // On a machine that is busy with other things, a silent runtime is reported as well, and that without a time to wait.
        eventually("readiness says so, and when to come back", || {
            let is_it = |answer: &Answer| answer.status == 503 && answer.header("retry-after") == Some("1");
            get(node.node.admin, "/readyz").ok().filter(is_it)
        });
    });
    eventually("peers are refused", || (pressure.shed.load(Relaxed) > 0).then_some(()));
    let (before, sent) = (node.node.resident_memory(), pressure.sent.load(Relaxed));
    eventually("much more is sent", || (pressure.sent.load(Relaxed) >= sent + MUCH).then_some(()));
    let grown = node.node.resident_memory().saturating_sub(before);
    assert!(grown <= LITTLE, "{grown} bytes more in memory for {MUCH} that were sent");
    assert_eq!(node.peers().len(), FLOODERS, "they stay connected");
    drop(node.subscribe("news"));
    drop(pressure);
    cleared(&node.node, "overload");
    for (addr, path) in [(node.node.admin, "/overlay/pub/quiet"), (api, "/v1/topics/quiet")] {
        eventually("publications are taken again", || {
            publish(addr, path).filter(|answer| answer.status == 200)
        });
    }
}
