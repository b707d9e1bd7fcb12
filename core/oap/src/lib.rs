//! OAP/1: the frames, messages and session rules of the protocol between nodes, without any I/O.
//!
//! The specification is `docs/oap-1.md`; its examples are the test vectors. Bytes are decoded in three steps, and
//! each can reject them:
//!
//! 1. [`Decoder`] takes [`RawFrame`]s from the front of a buffer, however the bytes were divided. A frame that is
//!    too long is rejected by its length, before memory is allocated.
//! 2. [`Parser`] decodes a [`Frame`]: a stream and a [`Message`]. Every field is checked, and no bytes may be left
//!    over.
//! 3. [`Session`] checks whether the message is allowed now: HELLO first, streams in their states, DATA within its
//!    credit.
//!
//! [`Chunks`] and [`Checker`] verify the pieces of an object against its name.
//!
//! ```
//! use bytes::BytesMut;
//! use oap::{Decoder, Frame, Message, Parser};
//!
//! let mut buffer = BytesMut::new();
//! let ping = Frame::connection(Message::Ping(7));
//! ping.encode(&mut buffer)?;
//! let raw = Decoder::default().next(&mut buffer)?.expect("all of it is there");
//! assert_eq!(Parser::default().parse(raw)?, ping);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod code;
mod crc32c;
mod decode;
mod encode;
mod frame;
mod gossip;
mod hello;
mod kind;
mod message;
mod rules;
mod session;
mod slices;
mod streams;
mod topic;
mod wire;

pub use code::ErrorCode;
pub use decode::{DecodeError, Parser};
pub use frame::{Decoder, FRAME_FLOOR, FRAME_MAX, FrameError, HELLO_FRAME_MAX, RawFrame, put_with_checksum};
pub use gossip::{
    Accepted, Entry, Graft, HEADS_MAX, Head, IHave, IWant, LIST_MAX, MessageId, PATTERN_HOPS_MAX,
    PATTERNS_MAX, PUBLICATION_MAX, Proof, Publication, WantedPattern,
};
pub use hello::{
    Agreed, CREDIT_FLOOR, CREDIT_MAX, Features, HELLO_TOPICS_MAX, Hello, MAGIC, NoAgreement, TOKEN_MAX,
    Token, VERSION,
};
pub use kind::counts_for_rate;
pub use message::{CHUNK_MAX, DETAIL_MAX, Data, Fault, Frame, Get, Goaway, Message, Start};
pub use rules::InvalidMessage;
pub use session::{Incoming, Session, Violation};
pub use slices::{Checker, Chunks, NotTheObject};
pub use streams::{OpenError, SendError, Side, Streams};
pub use topic::{InvalidTopic, TOPIC_MAX, Topic};

/// The stream of what concerns the connection, and of gossip.
pub const CONNECTION: u32 = 0;
