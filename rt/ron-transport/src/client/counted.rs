//! A stream that counts how often something went in and out, so that a slow upload is not mistaken for a stalled
//! server, nor a busy connection for a dead one.

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

use super::wire::Wire;

/// How often a stream took or gave something.
#[derive(Clone, Debug, Default)]
pub(super) struct Moves(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    reads: AtomicU64,
    writes: AtomicU64,
}

impl Moves {
    pub(super) fn reads(&self) -> u64 {
        self.0.reads.load(Ordering::Relaxed)
    }

    pub(super) fn writes(&self) -> u64 {
        self.0.writes.load(Ordering::Relaxed)
    }

    /// Whoever drives the connection is the only one to count, so nothing is lost in between.
    fn count<T>(counter: &AtomicU64, polled: &Poll<io::Result<T>>) {
        if matches!(polled, Poll::Ready(Ok(_))) {
            counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }
}

/// A stream whose reads and writes are counted.
#[derive(Debug)]
pub(super) struct Counted {
    stream: Wire,
    moves: Moves,
}

impl Counted {
    pub(super) fn new(stream: Wire, moves: Moves) -> Self {
        Self { stream, moves }
    }

    pub(super) fn into_inner(self) -> Wire {
        self.stream
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        Moves::count(&self.moves.0.reads, &polled);
        polled
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        Moves::count(&self.moves.0.writes, &polled);
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        Moves::count(&self.moves.0.writes, &polled);
        polled
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
