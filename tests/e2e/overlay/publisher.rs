//! A peer that publishes as a test tells it.

use std::net::{SocketAddr, TcpStream};

use bytes::Bytes;
use oap::{Entry, Head, IHave, Message, Proof, Publication, Topic};
use ron_transport::tls::raw_key::NodeKey;
use types::NodeId;

use super::drain::{join, say};

/// A peer that publishes in one topic as the test tells it, with its own word for each number.
pub(super) struct Publisher {
    topic: Topic,
    key: NodeKey,
    pub(super) id: NodeId,
    socket: TcpStream,
}

impl Publisher {
    /// Joins a node that speaks in the clear.
    pub(super) fn join(addr: SocketAddr, topic: &str) -> Self {
        let key = NodeKey::generate().unwrap();
        let id = NodeId::of_key(key.public_key().ed25519());
        Self { topic: Topic::new(topic).unwrap(), key, id, socket: join(addr, id) }
    }

    /// Sends the publication of this number.
    pub(super) fn publish(&mut self, seq: u64, body: &'static str) {
        let id = self.entry(seq).in_topic(&self.topic);
        let publication = Publication::new(id, Bytes::from_static(body.as_bytes()));
        let proof = Some(self.proof(seq).into());
        say(&mut self.socket, Message::Publish(Publication { proof, ..publication }));
    }

    /// Proves that there are so many, and sends none of them.
    pub(super) fn announce(&mut self, seq: u64) {
        let heads = vec![Head { entry: self.entry(seq), proof: self.proof(seq) }];
        let announced = IHave { topic: self.topic.clone(), entries: Vec::new(), heads };
        say(&mut self.socket, Message::IHave(announced));
    }

    fn entry(&self, seq: u64) -> Entry {
        Entry { publisher: self.id, incarnation: 1, seq }
    }

    fn proof(&self, seq: u64) -> Proof {
        let signature = self.key.sign(&self.entry(seq).in_topic(&self.topic).head_bytes());
        Proof { key: *self.key.public_key().ed25519(), signature }
    }
}
