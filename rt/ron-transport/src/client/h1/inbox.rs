//! What a server has sent and nobody has used yet, read in pieces as large as they are likely to be filled.

use std::{
    io,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

use crate::wire::Wire;

/// What is asked for at first, and at least.
const LEAST: usize = 8 * 1024;
/// What is asked for at most.
const MOST: usize = 256 * 1024;
/// Up to here bytes are copied out, so that who keeps a few of them does not keep the whole buffer.
const SMALL: usize = 4 * 1024;

/// Bytes that have been read. Empty, it can be without a buffer.
#[derive(Debug)]
pub(super) struct Inbox {
    bytes: BytesMut,
    /// How much to ask for the next time: more when the last read filled its room, less when most of it stayed empty.
    ask: usize,
}

/// What comes when nobody has asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unasked {
    /// The connection is quiet.
    Nothing,
    /// The end of the connection.
    End,
    /// Something behind the end of the last response.
    More,
}

impl Inbox {
    pub(super) fn new() -> Self {
        Self { bytes: BytesMut::new(), ask: LEAST }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Something that has been read.
    #[cfg(test)]
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Takes the first `len` bytes out.
    pub(super) fn take(&mut self, len: usize) -> Bytes {
        if len > SMALL {
            return self.bytes.split_to(len).freeze();
        }
        let taken = Bytes::copy_from_slice(&self.bytes[..len]);
        self.skip(len);
        taken
    }

    /// Throws the first `len` bytes away.
    pub(super) fn skip(&mut self, len: usize) {
        if len == self.bytes.len() {
            self.bytes.clear();
        } else {
            drop(self.bytes.split_to(len));
        }
    }

    /// Takes everything out.
    pub(super) fn take_all(&mut self) -> Bytes {
        self.take(self.bytes.len())
    }

    /// Gives the buffer up if nothing is in it.
    pub(super) fn rest(&mut self) {
        if self.bytes.is_empty() {
            *self = Self::new();
        }
    }

    /// Reads more; 0 at the end of the stream.
    pub(super) fn poll_fill(&mut self, wire: &mut Wire, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.bytes.reserve(self.ask);
        let room = self.bytes.capacity() - self.bytes.len();
        let read = ready!(pin!(wire.read_buf(&mut self.bytes)).poll(cx))?;
        self.ask = match read {
            all if all == room => (self.ask * 2).min(MOST),
            few if few < self.ask / 4 => (self.ask / 2).max(LEAST),
            _ => self.ask,
        };
        Poll::Ready(Ok(read))
    }

    /// What came while nobody asked. What is heard is lost.
    pub(super) fn listen(&self, wire: &mut Wire, cx: &mut Context<'_>) -> Unasked {
        if !self.bytes.is_empty() {
            return Unasked::More;
        }
        let mut byte = [0];
        let mut heard = ReadBuf::new(&mut byte);
        match Pin::new(wire).poll_read(cx, &mut heard) {
            Poll::Pending => Unasked::Nothing,
            Poll::Ready(Ok(())) if !heard.filled().is_empty() => Unasked::More,
            Poll::Ready(_) => Unasked::End,
        }
    }
}
