//! OAP/1: the frames, messages and session rules that nodes speak to each other, without any I/O.
//!
//! The specification is `docs/oap-1.md`; its examples are the tests' vectors. From bytes to meaning there are three steps,
//! and each can refuse:
//!
//! 1. [`Decoder`] takes [`RawFrame`]s off the front of a buffer, however the bytes were cut into pieces. A frame that is
//!    too long is refused by its length, before there is room for it.
//! 2. [`Parser`] makes a [`Frame`] of it: a stream and a [`Message`]. Every field is checked, and nothing may be left.
//! 3. [`Session`] says whether it may be said now: HELLO first, streams in their states, DATA within its credit.
//!
//! What convinces the reader of an object that its bytes are right is in [`Chunks`] and [`Checker`].
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
    Accepted, Entry, Graft, HEADS_MAX, Head, IHave, IWant, LIST_MAX, MessageId, PUBLICATION_MAX, Proof,
    Publication,
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
