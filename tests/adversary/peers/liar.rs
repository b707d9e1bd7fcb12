//! A peer that was let in and says what it likes.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use oap::{Decoder, Entry, Features, Frame, Head, Hello, Message, Parser, Proof, Publication, Topic};
use ron_transport::tls::raw_key::NodeKey;
use types::NodeId;

use crate::support::PATIENCE;

/// One session of a liar.
pub(super) struct Liar {
    pub(super) key: NodeKey,
    pub(super) node: NodeId,
    socket: TcpStream,
    heard: mpsc::Receiver<Frame>,
    is_over: Arc<AtomicBool>,
}

/// The topic that honest nodes use.
pub(super) fn news() -> Topic {
    Topic::new("news").unwrap()
}

impl Liar {
    /// Joins as a node of its own. None if the node does not let it in now.
    pub(super) fn join(addr: SocketAddr) -> Option<Self> {
        let key = NodeKey::generate().unwrap();
        let node = NodeId::of_key(key.public_key().ed25519());
        let mut socket = TcpStream::connect(addr).ok()?;
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
        let hello = Hello {
            version: oap::VERSION,
            node,
            features: Features::OBJECTS,
            max_frame: oap::FRAME_MAX,
            credit: oap::CREDIT_FLOOR,
            max_streams: 64,
            rate: 0,
            token: None,
            topics: vec![news()],
        };
        socket.write_all(&Frame::connection(Message::Hello(hello)).to_bytes().unwrap()).ok()?;
        let reading = socket.try_clone().unwrap();
        let (tell, heard) = mpsc::sync_channel(1024);
        let is_over = Arc::<AtomicBool>::default();
        let over = Arc::clone(&is_over);
        thread::spawn(move || {
            read(reading, &tell);
            over.store(true, Relaxed);
        });
        match heard.recv_timeout(PATIENCE).ok()?.message {
            Message::Hello(_) => Some(Self { key, node, socket, heard, is_over }),
            _ => None,
        }
    }

    /// Says something on the connection; false once the node has ended the session.
    pub(super) fn say(&mut self, message: Message) -> bool {
        self.say_on(oap::CONNECTION, message)
    }

    /// The same on a stream.
    pub(super) fn say_on(&mut self, stream: u32, message: Message) -> bool {
        self.write(&Frame { stream, message }.to_bytes().unwrap())
    }

    /// Writes bytes as they are.
    pub(super) fn write(&mut self, bytes: &[u8]) -> bool {
        !self.is_over.load(Relaxed) && self.socket.write_all(bytes).is_ok()
    }

    /// What the node has said meanwhile.
    pub(super) fn heard(&self) -> impl Iterator<Item = Frame> {
        self.heard.try_iter()
    }

    /// Waits until the node has said something, a second at most, and forgets all that it has said.
    pub(super) fn wait_for_words(&self) {
        let _ = self.heard.recv_timeout(Duration::from_secs(1));
        self.heard().for_each(drop);
    }

    /// Its word for a number of its own.
    pub(super) fn proof(&self, entry: Entry) -> Proof {
        let signature = self.key.sign(&entry.in_topic(&news()).head_bytes());
        Proof { key: *self.key.public_key().ed25519(), signature }
    }

    /// A head of its own, with its word for it.
    pub(super) fn head(&self, incarnation: u64, seq: u64) -> Head {
        let entry = Entry { publisher: self.node, incarnation, seq };
        Head { entry, proof: self.proof(entry) }
    }

    /// A publication of its own, as an honest node would send it.
    pub(super) fn publication(&self, incarnation: u64, seq: u64) -> Publication {
        let entry = Entry { publisher: self.node, incarnation, seq };
        let publication = Publication::new(entry.in_topic(&news()), Bytes::from_static(b"of the liar"));
        Publication { proof: Some(self.proof(entry).into()), ..publication }
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }
}

/// Reads all there is, so that nobody waits for the liar, and tells as much of it as there is room for.
fn read(mut socket: TcpStream, tell: &mpsc::SyncSender<Frame>) {
    let (mut received, mut room) = (BytesMut::new(), [0; 64 * 1024]);
    let decoder = Decoder::new(oap::FRAME_MAX, false);
    while let Ok(read @ 1..) = socket.read(&mut room) {
        received.extend_from_slice(&room[..read]);
        while let Ok(Some(raw)) = decoder.next(&mut received) {
            if let Ok(frame) = Parser::default().parse(raw) {
                let _ = tell.try_send(frame);
            }
        }
    }
}
