//! What nodes say to each other: one variant per kind of frame.

use bytes::Bytes;
use types::ObjectId;

use crate::{
    code::ErrorCode,
    gossip::{Accepted, Graft, IHave, IWant, MessageId, Publication, WantedPattern},
    hello::Hello,
    topic::Topic,
};

/// The most bytes of an object that one DATA frame carries.
pub const CHUNK_MAX: usize = 64 * 1024;

/// The bytes of a DATA frame's header before the proof.
const DATA_HEADER_LEN: usize = 16;

/// The most bytes of text in ERROR and GOAWAY.
pub const DETAIL_MAX: usize = 256;

/// A message and the stream it belongs to; [`CONNECTION`](crate::CONNECTION) is the connection itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Zero for what concerns the connection, and for gossip.
    pub stream: u32,
    /// The decoded message.
    pub message: Message,
}

/// The content of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The first frame of either side.
    Hello(Hello),
    /// Opens a stream: an object is asked for, or offered.
    Start(Start),
    /// A piece of the stream's object with its proof.
    Data(Data),
    /// All of what was asked for or offered has been sent; from the receiver of an offer: it is stored.
    End,
    /// The sender of this may be sent so many more bytes of DATA on the stream.
    Ack {
        /// Bytes of header and body of DATA frames, at least one.
        credit: u32,
    },
    /// On a stream: it ends here, and this is why. On the connection: something was refused; the sender says whether it closes.
    Error(Fault),
    /// The sender takes no more streams and is going to close.
    Goaway(Goaway),
    /// To be answered with [`Message::Pong`] and the same number.
    Ping(u64),
    /// The answer to [`Message::Ping`], with the same number.
    Pong(u64),
    /// A publication, from its publisher or passed on.
    Publish(Publication),
    /// What the sender has of a topic.
    IHave(IHave),
    /// What the sender would like to be sent.
    IWant(IWant),
    /// From now on the receiver is to push the topic's publications; perhaps with one that is missing.
    Graft(Graft),
    /// From now on the receiver is to announce the topic's publications rather than push them.
    Prune(Topic),
    /// The sender takes part in the topic.
    Subscribe(Topic),
    /// The sender does not take part in the topic any more.
    Unsubscribe(Topic),
    /// The receiver's own publications that the sender has taken on.
    Accepted(Accepted),
    /// The patterns of topics that the sender wants to hear of, in place of those it said before: in ascending order, each once,
    /// at most [`PATTERNS_MAX`](crate::PATTERNS_MAX).
    Patterns(Vec<WantedPattern>),
}

/// The operation that a stream is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Bytes of an object are asked for.
    Get(Get),
    /// An object is offered.
    Put {
        /// The name of the object.
        id: ObjectId,
        /// The length of the object in bytes.
        len: u64,
    },
}

/// A range of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Get {
    /// The name of the object.
    pub id: ObjectId,
    /// The first byte that is wanted.
    pub offset: u64,
    /// How many bytes are wanted; the answer ends where the object does. [`u64::MAX`] is all the rest.
    pub len: u64,
    /// The object's last group is to be sent before the range: it proves the object's length.
    pub tail: bool,
}

/// Whole groups of an object, and what convinces a reader who knows the object's name that they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    /// The length of the whole object. As good as the sender's word until the last group has been seen.
    pub object_len: u64,
    /// Where the bytes are in the object: the start of a group.
    pub offset: u64,
    /// The nodes beside the groups, as [`b3tree::Tree::proof`] writes them.
    pub proof: Bytes,
    /// The bytes of whole groups, at most [`CHUNK_MAX`].
    pub body: Bytes,
}

/// An ERROR: the reason for a refusal and its details.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The reason for the refusal.
    pub code: ErrorCode,
    /// When trying again makes sense; zero says nothing about it.
    pub retry_after_ms: u32,
    /// The publication that was refused, if it was one.
    pub about: Option<MessageId>,
    /// For people, at most [`DETAIL_MAX`] bytes.
    pub detail: Box<str>,
}

/// The sender takes no more streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Goaway {
    /// The reason why the session ends.
    pub reason: ErrorCode,
    /// The last stream of the receiver's that is still served; zero if none is.
    pub last: u32,
    /// For people, at most [`DETAIL_MAX`] bytes.
    pub detail: Box<str>,
}

impl Data {
    /// What it takes of its stream's credit: the bytes of its header and body.
    #[must_use]
    pub fn cost(&self) -> u64 {
        (DATA_HEADER_LEN + self.proof.len() + self.body.len()) as u64
    }
}

impl Fault {
    /// A reason and a text, which is cut where it is too long.
    #[must_use]
    pub fn new(code: ErrorCode, detail: &str) -> Self {
        Self { code, retry_after_ms: 0, about: None, detail: cut(detail) }
    }

    /// Sets how long the peer should wait before it tries again.
    #[must_use]
    pub fn retry_after_ms(self, retry_after_ms: u32) -> Self {
        Self { retry_after_ms, ..self }
    }

    /// The publication that was refused.
    #[must_use]
    pub fn about(self, id: MessageId) -> Self {
        Self { about: Some(id), ..self }
    }
}

impl Goaway {
    /// A reason and a text, which is cut where it is too long.
    #[must_use]
    pub fn new(reason: ErrorCode, last: u32, detail: &str) -> Self {
        Self { reason, last, detail: cut(detail) }
    }
}

fn cut(detail: &str) -> Box<str> {
    let mut end = detail.len().min(DETAIL_MAX);
    while !detail.is_char_boundary(end) {
        end -= 1;
    }
    detail[..end].into()
}
