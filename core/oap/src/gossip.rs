//! What gossip says: publications, and who has which of them.

use bytes::Bytes;
use types::NodeId;

use crate::topic::Topic;

/// The most bytes a publication's body has.
pub const PUBLICATION_MAX: usize = 64 * 1024;

/// The most publications named in one IHAVE, IWANT or PUBACK.
pub const LIST_MAX: usize = 1024;

/// The most heads in one IHAVE.
pub const HEADS_MAX: usize = 512;

/// The most patterns in one PATTERNS.
pub const PATTERNS_MAX: usize = 32;

/// The most links that a pattern is passed on over.
pub const PATTERN_HOPS_MAX: u8 = 8;

/// Topics that the sender wants to hear of, though it does not know their names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WantedPattern {
    /// A pattern with wildcards, as it is written.
    pub pattern: Box<str>,
    /// How many links it goes over, this one included: 1 to [`PATTERN_HOPS_MAX`].
    pub hops: u8,
}

/// Which publication of a topic: who published it, in which of its lives, and its number there, counted from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entry {
    /// The node that published it.
    pub publisher: NodeId,
    /// Which life of the publisher's: a later one has a higher number.
    pub incarnation: u64,
    /// The publication's number in the topic and the incarnation; the first is one.
    pub seq: u64,
}

/// A publisher's own word that it has published up to a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The publisher's raw Ed25519 public key, whose BLAKE3 is the publisher's name.
    pub key: [u8; 32],
    /// The publisher's signature over [`MessageId::head_bytes`].
    pub signature: [u8; 64],
}

/// The highest number that a publisher has signed in one of its lives, and its signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Whose, which life, and the number.
    pub entry: Entry,
    /// The publisher's word for it.
    pub proof: Proof,
}

/// The name of a publication.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId {
    /// The node that published it.
    pub publisher: NodeId,
    /// Which life of the publisher's: a later one has a higher number.
    pub incarnation: u64,
    /// The topic that it was published in.
    pub topic: Topic,
    /// Its number in the topic and the incarnation; the first is one.
    pub seq: u64,
}

/// What was published, and how far it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication {
    /// The id of the publication.
    pub id: MessageId,
    /// BLAKE3 of the body, as the sender says.
    pub digest: [u8; 32],
    /// How many times it was passed on; zero from its publisher.
    pub hops: u8,
    /// The publisher's Ed25519 signature over [`Publication::signed_bytes`].
    pub signature: Option<[u8; 64]>,
    /// The publisher's word that this is the highest number it has published, on some of its publications. In a box, because
    /// most have none.
    pub proof: Option<Box<Proof>>,
    /// At most [`PUBLICATION_MAX`] bytes.
    pub body: Bytes,
}

/// What the sender has of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IHave {
    /// The topic of the publications.
    pub topic: Topic,
    /// Publications that can be asked for, and those below them; at most [`LIST_MAX`].
    pub entries: Vec<Entry>,
    /// The highest number proven of each publisher and incarnation; at most [`HEADS_MAX`].
    pub heads: Vec<Head>,
}

/// What the sender would like to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IWant {
    /// The topic of the publications.
    pub topic: Topic,
    /// The publications, at least one and at most [`LIST_MAX`].
    pub entries: Vec<Entry>,
}

/// The receiver is to push the topic from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graft {
    /// The topic of the publications.
    pub topic: Topic,
    /// A publication that is missing, to be sent at once.
    pub missing: Option<Entry>,
}

/// The receiver's own publications that the sender has taken on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The topic of the publications.
    pub topic: Topic,
    /// The receiver's incarnation in which they were published.
    pub incarnation: u64,
    /// Their numbers, at least one and at most [`LIST_MAX`].
    pub seqs: Vec<u64>,
}

impl Entry {
    /// The name of this publication in its topic.
    #[must_use]
    pub fn in_topic(self, topic: &Topic) -> MessageId {
        let Self { publisher, incarnation, seq } = self;
        MessageId { publisher, incarnation, topic: topic.clone(), seq }
    }
}

impl MessageId {
    /// The name without its topic.
    #[must_use]
    pub fn entry(&self) -> Entry {
        Entry { publisher: self.publisher, incarnation: self.incarnation, seq: self.seq }
    }

    /// What a publisher signs to prove that it has published up to this number: a fixed text and the name.
    #[must_use]
    pub fn head_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64 + self.topic.as_str().len());
        bytes.extend_from_slice(b"OAP/1 head\0");
        bytes.extend_from_slice(self.publisher.as_bytes());
        bytes.extend_from_slice(&self.incarnation.to_be_bytes());
        bytes.extend_from_slice(&self.seq.to_be_bytes());
        bytes.extend_from_slice(self.topic.as_str().as_bytes());
        bytes
    }
}

impl Proof {
    /// Whether the key is that of a node. The caller verifies the signature.
    #[must_use]
    pub fn is_key_of(&self, publisher: NodeId) -> bool {
        NodeId::of_key(&self.key) == publisher
    }
}

impl Publication {
    /// What a publisher says: no hops, no signature, no proof, and the digest of the body.
    #[must_use]
    pub fn new(id: MessageId, body: Bytes) -> Self {
        let digest = *blake3::hash(&body).as_bytes();
        Self { id, digest, hops: 0, signature: None, proof: None, body }
    }

    /// Whether the digest is that of the body. Reading a frame does not check it.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        blake3::hash(&self.body).as_bytes() == &self.digest
    }

    /// What a publisher signs: a fixed text, the name, and the digest. Hops change on the way and are left out.
    #[must_use]
    pub fn signed_bytes(&self) -> Vec<u8> {
        let MessageId { publisher, incarnation, topic, seq } = &self.id;
        let mut bytes = Vec::with_capacity(96 + topic.as_str().len());
        bytes.extend_from_slice(b"OAP/1 publication\0");
        bytes.extend_from_slice(publisher.as_bytes());
        bytes.extend_from_slice(&incarnation.to_be_bytes());
        bytes.extend_from_slice(&seq.to_be_bytes());
        bytes.extend_from_slice(&self.digest);
        bytes.extend_from_slice(topic.as_str().as_bytes());
        bytes
    }
}
