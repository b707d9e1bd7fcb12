//! A stream that counts how often something came in, so that a busy connection is not mistaken for a dead one.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::wire::Wire;

/// How often a stream gave something.
#[derive(Clone, Debug, Default)]
pub(super) struct Moves(Arc<AtomicU64>);

impl Moves {
    pub(super) fn reads(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Only the task that drives the connection counts, so nothing is lost in between.
    fn count(&self) {
        self.0.store(self.reads() + 1, Ordering::Relaxed);
    }
}

/// A stream whose reads are counted.
#[derive(Debug)]
pub(super) struct Counted {
    stream: Wire,
    moves: Moves,
}

impl Counted {
    pub(super) fn new(stream: Wire, moves: Moves) -> Self {
        Self { stream, moves }
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        if matches!(polled, Poll::Ready(Ok(()))) {
            self.moves.count();
        }
        polled
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
