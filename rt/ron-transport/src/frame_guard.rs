//! What the HTTP/2 library does not check or bound: pseudo-header fields in trailers, and those of requests in responses;
//! the streams that one connection opens at once; and frames that carry nothing.
//!
//! The guard reads the frames that the library is about to read. It holds nothing back but the frames beyond a turn's
//! streams, and changes nothing but one flag of trailers that are malformed.

mod fields;
mod flood;
mod scan;
#[cfg(test)]
mod tests;

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use bytes::BytesMut;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Instant,
};

use flood::Allowance;
use scan::{Scan, Sender, Unsound};

/// How many streams a client may open before other tasks of the core have their turn. A connection that opens hundreds at
/// once otherwise has hundreds of turns where a connection with one request has one.
const STREAMS_PER_TURN: usize = 2;

/// The stream of an HTTP/2 connection, whose frames are looked at on their way to the library.
#[derive(Debug)]
pub(crate) struct Guarded<IO> {
    io: IO,
    scan: Scan,
    idle_frames: Allowance,
    /// What was read and is for the next turns; at most as much as the library asked for at once.
    rest: BytesMut,
    /// `None` for a server's frames, which open no streams.
    turns: Option<Turns>,
}

/// The turns of a connection's task, one for each time that the task is polled. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns(Arc<Shared>);

/// What the task of a connection and the guard of its frames tell each other.
#[derive(Debug, Default)]
struct Shared {
    /// Whether a turn has begun.
    has_begun: AtomicBool,
    /// Why the guard ended the connection, if it did: the library does not pass on its errors.
    ended_by: OnceLock<Unsound>,
}

impl Turns {
    /// The task is polled: a turn begins.
    pub(crate) fn begin(&self) {
        self.0.has_begun.store(true, Ordering::Relaxed);
    }

    /// Whether the guard ended the connection because of its client's frames.
    pub(crate) fn were_refused(&self) -> bool {
        self.0.ended_by.get().is_some()
    }

    /// Whether it did so because too many of them carry nothing.
    pub(crate) fn were_flooded(&self) -> bool {
        self.0.ended_by.get() == Some(&Unsound::Flood)
    }

    /// Whether a turn has begun since this was asked last. A load and a store, because only the connection's task does so.
    fn has_begun(&self) -> bool {
        let has_begun = self.0.has_begun.load(Ordering::Relaxed);
        self.0.has_begun.store(false, Ordering::Relaxed);
        has_begun
    }
}

impl<IO> Guarded<IO> {
    /// For frames of a client, whose connection is polled in these turns, and whose heads may have so many bytes.
    pub(crate) fn of_client(io: IO, turns: Turns, longest_head: usize) -> Self {
        Self::new(io, Scan::new(Sender::Client).with_longest_head(longest_head), Some(turns))
    }

    /// Guards the frames that a server sends.
    pub(crate) fn of_server(io: IO) -> Self {
        Self::new(io, Scan::new(Sender::Server), None)
    }

    fn new(io: IO, scan: Scan, turns: Option<Turns>) -> Self {
        let idle_frames = Allowance::new(Instant::now());
        Self { io, scan, idle_frames, rest: BytesMut::new(), turns }
    }

    /// Judges how many frames came that carry nothing.
    fn judge_idle_frames(&mut self) -> Result<(), Unsound> {
        match self.scan.take_idle() {
            0 => Ok(()),
            idle if self.idle_frames.take(idle, Instant::now) => Ok(()),
            _ => Err(Unsound::Flood),
        }
    }

    /// Looks at what `buf` has got since it had `before` bytes, and keeps what is for the next turn.
    fn look(&mut self, buf: &mut ReadBuf<'_>, before: usize) -> Result<(), Unsound> {
        let fresh = &mut buf.filled_mut()[before..];
        let looked_at = self.scan.look(fresh, STREAMS_PER_TURN)?;
        self.rest.extend_from_slice(&fresh[looked_at..]);
        buf.set_filled(before + looked_at);
        self.judge_idle_frames()
    }

    /// Passes on what an earlier turn kept, up to what is for the next turn.
    fn pass_on_rest(&mut self, buf: &mut ReadBuf<'_>) -> Result<(), Unsound> {
        let fits = self.rest.len().min(buf.remaining());
        let looked_at = self.scan.look(&mut self.rest[..fits], STREAMS_PER_TURN)?;
        buf.put_slice(&self.rest.split_to(looked_at));
        self.judge_idle_frames()
    }

    /// What the library hears of frames that end the connection.
    fn refusal(&self, unsound: Unsound) -> io::Error {
        if let Some(turns) = &self.turns {
            turns.0.ended_by.get_or_init(|| unsound);
        }
        io::Error::new(io::ErrorKind::InvalidData, unsound)
    }
}

/// Looks at the same bytes in two pieces and as a whole; see [`crate::fuzzing`].
#[cfg(any(test, fuzzing))]
pub(crate) fn fuzz(bytes: &[u8], cut: usize) {
    for sender in [Sender::Client, Sender::Server] {
        let mut whole = bytes.to_vec();
        let is_whole_sound = Scan::new(sender).look(&mut whole, usize::MAX).is_ok();
        let changed = bytes.iter().zip(&whole).filter(|(before, after)| before != after);
        assert!(changed.clone().all(|(before, after)| before ^ after == 1), "only flags that end streams");
        let is_changed = changed.count() > 0;
        let (mut scan, mut pieces) = (Scan::new(sender), bytes.to_vec());
        let (first, second) = pieces.split_at_mut(cut.min(bytes.len()));
        let is_sound = scan.look(first, usize::MAX).and_then(|_| scan.look(second, usize::MAX)).is_ok();
        assert!(!is_sound || is_whole_sound, "what ends a connection does so wherever it is cut");
        assert!(!is_sound || (pieces == whole), "what is refused is refused wherever it is cut");
        assert!(is_sound || !is_whole_sound || is_changed, "what is sound is so wherever it is cut");
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Guarded<IO> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.turns.as_ref().is_some_and(Turns::has_begun) {
            this.scan.begin_turn();
        }
        if this.scan.opened_in_turn() >= STREAMS_PER_TURN {
            // The library asks several times in a turn; only the next turn goes on.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if !this.rest.is_empty() {
            return Poll::Ready(this.pass_on_rest(buf).map_err(|unsound| this.refusal(unsound)));
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.io).poll_read(cx, buf))?;
        Poll::Ready(this.look(buf, before).map_err(|unsound| this.refusal(unsound)))
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Guarded<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.io).poll_write(cx, buf))?;
        self.idle_frames.sent(written);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.io).poll_write_vectored(cx, bufs))?;
        self.idle_frames.sent(written);
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
