//! A stream that notes its progress, and can be given back bytes that were read ahead.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Activity;

/// A stream whose reads and writes are noted in its connection's [`Activity`]. Shutting it down does nothing, so that
/// the HTTP machinery gives the stream back open and its end can be made clean.
#[derive(Debug)]
pub(super) struct Metered<IO> {
    io: IO,
    ahead: Bytes,
    activity: Arc<Activity>,
}

impl<IO> Metered<IO> {
    pub(super) fn new(io: IO, ahead: Bytes, activity: Arc<Activity>) -> Self {
        Self { io, ahead, activity }
    }

    /// The stream, and what was read ahead of it and is still here.
    pub(super) fn into_parts(self) -> (IO, Bytes) {
        (self.io, self.ahead)
    }

    /// Returns the wrapped stream.
    pub(super) const fn get_ref(&self) -> &IO {
        &self.io
    }

    fn note_write(&self, wrote: &Poll<io::Result<usize>>) {
        self.activity.wrote(match wrote {
            Poll::Pending => None,
            Poll::Ready(result) => Some(result.as_ref().map_or(0, |bytes| *bytes)),
        });
    }

    fn note_read(&self, bytes: usize) -> io::Result<()> {
        if bytes == 0 {
            self.activity.read_ended();
        } else if !self.activity.read(bytes) {
            return Err(io::Error::other("too much that belongs to no request"));
        }
        Ok(())
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Metered<IO> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.ahead.has_remaining() {
            let n = this.ahead.len().min(buf.remaining());
            buf.put_slice(&this.ahead.split_to(n));
            return Poll::Ready(this.note_read(n));
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.io).poll_read(cx, buf))?;
        Poll::Ready(this.note_read(buf.filled().len() - before))
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Metered<IO> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let wrote = Pin::new(&mut this.io).poll_write(cx, buf);
        this.note_write(&wrote);
        wrote
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let wrote = Pin::new(&mut this.io).poll_write_vectored(cx, bufs);
        this.note_write(&wrote);
        wrote
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // Under TLS a write only fills the session's buffer; whether the socket takes it shows here.
        let flushed = Pin::new(&mut this.io).poll_flush(cx);
        this.activity.flushed(flushed.is_pending());
        flushed
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}
