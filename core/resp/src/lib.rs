//! RESP2, the protocol of Redis and Valkey: commands are written, and replies are read within bounds.
//!
//! It is as much of the protocol as a client needs that sends short commands and reads short replies.
//!
//! ```
//! use resp::{Reply, read, write_command};
//!
//! let mut sent = Vec::new();
//! write_command(&mut sent, &[b"GET", b"key"]);
//! assert_eq!(sent, b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n");
//! let (reply, length) = read(b"$5\r\nvalue\r\n")?.expect("a whole reply");
//! assert_eq!((reply, length), (Reply::Bulk(b"value".to_vec()), 11));
//! # Ok::<(), resp::Malformed>(())
//! ```

mod read;

pub use read::{MAX_BULK, MAX_DEPTH, MAX_ITEMS, MAX_LINE, Malformed, read};

/// A reply of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A short text, such as `OK`.
    Simple(String),
    /// An error; its first word says which.
    Error(String),
    /// A signed number, such as a count.
    Integer(i64),
    /// A string of bytes.
    Bulk(Vec<u8>),
    /// The answer that there is no value.
    Null,
    /// An array of replies, in order.
    Array(Vec<Reply>),
}

impl Reply {
    /// The number, if the reply is one.
    #[must_use]
    pub const fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            _ => None,
        }
    }
}

/// Appends a command to `to`. Any number of commands may be sent before their replies are read.
pub fn write_command(to: &mut Vec<u8>, words: &[&[u8]]) {
    write_length(to, b'*', words.len());
    for word in words {
        write_length(to, b'$', word.len());
        to.extend_from_slice(word);
        to.extend_from_slice(b"\r\n");
    }
}

fn write_length(to: &mut Vec<u8>, kind: u8, length: usize) {
    to.push(kind);
    to.extend_from_slice(length.to_string().as_bytes());
    to.extend_from_slice(b"\r\n");
}
