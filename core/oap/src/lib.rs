//! OAP/1: the frames, messages and session rules that nodes speak to each other, without any I/O.

mod gossip;
mod hello;
mod message;
mod topic;

pub use gossip::{Accepted, Entry, Graft, IHave, IWant, LIST_MAX, MessageId, PUBLICATION_MAX, Publication};
pub use hello::{Features, HELLO_TOPICS_MAX, Hello, MAGIC, TOKEN_MAX, Token, VERSION};
pub use message::{CHUNK_MAX, DETAIL_MAX, Data, ErrorCode, Fault, Frame, Get, Goaway, Message, Start};
pub use topic::{InvalidTopic, TOPIC_MAX, Topic};

/// The stream of what concerns the connection, and of gossip.
pub const CONNECTION: u32 = 0;
