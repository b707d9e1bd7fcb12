//! What a peer has sent and nobody has used yet, read in pieces as large as they are likely to be filled.

use std::{
    io,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

/// What is asked for at first, and at least.
const LEAST: usize = 8 * 1024;
/// What is asked for at most, of a server.
const MOST: usize = 256 * 1024;
/// Up to here bytes are copied out, so that who keeps a few of them does not keep the whole buffer.
const SMALL: usize = 4 * 1024;

/// Bytes that have been read. Empty, it can be without a buffer.
#[derive(Debug)]
pub(crate) struct Inbox {
    bytes: BytesMut,
    /// How much to ask for the next time: more when the last read filled its room, less when most of it stayed empty.
    ask: usize,
    /// What is asked for at most.
    most: usize,
}

/// What comes when nobody has asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unasked {
    /// The connection is quiet.
    Nothing,
    /// The end of the connection.
    End,
    /// Something behind the end of the last response.
    More,
}

impl Inbox {
    pub(crate) fn new() -> Self {
        Self { bytes: BytesMut::new(), ask: LEAST, most: MOST }
    }

    /// An inbox with what was read before, that asks for at most so much.
    pub(crate) fn with(ahead: Bytes, most: usize) -> Self {
        Self { bytes: BytesMut::from(ahead), ask: LEAST, most }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Something that has been read.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Takes the first `len` bytes out.
    pub(crate) fn take(&mut self, len: usize) -> Bytes {
        if len > SMALL {
            return self.bytes.split_to(len).freeze();
        }
        let taken = Bytes::copy_from_slice(&self.bytes[..len]);
        self.skip(len);
        taken
    }

    /// Throws the first `len` bytes away.
    pub(crate) fn skip(&mut self, len: usize) {
        if len == self.bytes.len() {
            self.bytes.clear();
        } else {
            drop(self.bytes.split_to(len));
        }
    }

    /// Takes all buffered bytes.
    pub(crate) fn take_all(&mut self) -> Bytes {
        self.take(self.bytes.len())
    }

    /// Gives the buffer up if nothing is in it.
    pub(crate) fn rest(&mut self) {
        if self.bytes.is_empty() {
            self.bytes = BytesMut::new();
            self.ask = LEAST;
        }
    }

    /// Reads more; 0 at the end of the stream.
    pub(crate) fn poll_fill<IO: AsyncRead + Unpin>(
        &mut self,
        io: &mut IO,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        self.bytes.reserve(self.ask);
        let room = self.bytes.capacity() - self.bytes.len();
        let read = ready!(pin!(io.read_buf(&mut self.bytes)).poll(cx))?;
        self.ask = match read {
            all if all == room => (self.ask * 2).min(self.most),
            // Slowly, because the head of a large response often comes alone.
            few if few < self.ask / 4 => (self.ask - self.ask / 8).max(LEAST),
            _ => self.ask,
        };
        Poll::Ready(Ok(read))
    }

    /// What came while nobody asked. What is heard is lost.
    pub(crate) fn listen<IO: AsyncRead + Unpin>(&self, io: &mut IO, cx: &mut Context<'_>) -> Unasked {
        if !self.bytes.is_empty() {
            return Unasked::More;
        }
        let mut byte = [0];
        let mut heard = ReadBuf::new(&mut byte);
        match Pin::new(io).poll_read(cx, &mut heard) {
            Poll::Pending => Unasked::Nothing,
            Poll::Ready(Ok(())) if !heard.filled().is_empty() => Unasked::More,
            Poll::Ready(_) => Unasked::End,
        }
    }
}
