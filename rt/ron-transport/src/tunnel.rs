//! Connections that stop speaking HTTP: after a 101 both ends send what they like, and we pass it on.
//!
//! A [`Tunnel`] travels as the body of the 101 response: the client side makes it, the serve loop takes it out once the
//! response's head is written and relays on the connection's own task. Ordinary requests pay nothing for this.

use std::{
    fmt, io,
    pin::Pin,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf, copy_bidirectional_with_sizes},
    time::{sleep, timeout},
};

use crate::rewound::Rewound;

/// What is held of each direction.
const BUFFER: usize = 8 * 1024;
/// How long the far end has to take our goodbye.
const GOODBYE: Duration = Duration::from_millis(500);
/// An idle tunnel is looked at so often before it is closed.
const LOOKS: u32 = 4;

/// A stream of any kind, to the server of a tunnel.
trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// The far end of a connection that has stopped speaking HTTP, on its way from the client side to the serve loop.
pub struct Tunnel {
    upstream: Box<dyn Duplex>,
    limits: TunnelLimits,
    watch: Option<Box<dyn TunnelWatch>>,
}

/// How long a tunnel may last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelLimits {
    /// Without a byte in either direction, or with one end that takes nothing of what waits for it; it is noticed at most a
    /// quarter later.
    pub idle: Duration,
    /// Once the node closes its connections. Has to be less than what is left of the drain deadline then, or the tunnel
    /// is aborted with the node.
    pub grace: Duration,
}

impl Default for TunnelLimits {
    fn default() -> Self {
        Self { idle: Duration::from_secs(60), grace: Duration::from_secs(1) }
    }
}

/// Hears how a tunnel ended; also what a tunnel holds on to while it lasts, such as a place among a tenant's streams.
/// Dropped without a word if the tunnel never began.
pub trait TunnelWatch: Send + 'static {
    /// The tunnel has ended.
    fn ended(self: Box<Self>, traffic: Traffic, end: TunnelEnd);
}

/// What went through a tunnel, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Number of bytes from the client.
    pub from_client: u64,
    /// Number of bytes to the client.
    pub to_client: u64,
}

/// The reason why a tunnel ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunnelEnd {
    /// Both ends were done.
    Closed,
    /// One end broke off.
    Broken,
    /// Nothing moved for too long, or one end took nothing of what waited for it.
    Idle,
    /// The node is shutting down.
    NodeStops,
}

/// Two who hear how a tunnel ended.
struct Both(Box<dyn TunnelWatch>, Box<dyn TunnelWatch>);

impl TunnelWatch for Both {
    fn ended(self: Box<Self>, traffic: Traffic, end: TunnelEnd) {
        self.0.ended(traffic, end);
        self.1.ended(traffic, end);
    }
}

impl Tunnel {
    /// A tunnel to `upstream`, from which `ahead` has already been read.
    pub fn new<IO>(upstream: IO, ahead: Bytes) -> Self
    where
        IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let upstream: Box<dyn Duplex> =
            if ahead.is_empty() { Box::new(upstream) } else { Box::new(Rewound { ahead, stream: upstream }) };
        Self { upstream, limits: TunnelLimits::default(), watch: None }
    }

    /// Sets how long it may last.
    #[must_use]
    pub fn with_limits(mut self, limits: TunnelLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Adds somebody who hears of its end.
    #[must_use]
    pub fn with_watch(mut self, watch: impl TunnelWatch) -> Self {
        self.watch = Some(match self.watch.take() {
            None => Box::new(watch),
            Some(others) => Box::new(Both(others, Box::new(watch))),
        });
        self
    }

    /// Passes bytes both ways between `client` and the far end until both are done, one breaks off, nothing moves for
    /// too long, or the grace is over that begins when `closing` resolves. An end of one direction is passed on, and
    /// the other goes on. The far end is closed; the client's stream is left open for the caller to close.
    ///
    /// Cancel safe: dropping it closes the far end.
    pub async fn relay<IO>(self, client: &mut IO, closing: impl Future<Output = ()>) -> TunnelEnd
    where
        IO: AsyncRead + AsyncWrite + Unpin,
    {
        let Self { mut upstream, limits, watch } = self;
        let sides = Sides::default();
        let mut client = Watched { io: client, side: &sides.client };
        let mut upstream = Watched { io: &mut upstream, side: &sides.upstream };
        let node_stops = async {
            closing.await;
            sleep(limits.grace).await;
        };
        let end = tokio::select! {
            biased;
            done = copy_bidirectional_with_sizes(&mut client, &mut upstream, BUFFER, BUFFER) => {
                if done.is_ok() { TunnelEnd::Closed } else { TunnelEnd::Broken }
            }
            () = node_stops => TunnelEnd::NodeStops,
            () = sides.idle_for(limits.idle) => TunnelEnd::Idle,
        };
        // A server that takes no more will not take this either.
        let _ = timeout(GOODBYE, upstream.shutdown()).await;
        if let Some(watch) = watch {
            watch.ended(sides.traffic(), end);
        }
        end
    }
}

impl fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tunnel").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// What has gone through so far, seen at both ends.
#[derive(Debug, Default)]
struct Sides {
    client: Side,
    upstream: Side,
}

/// What one end has sent and taken, in bytes.
#[derive(Debug, Default)]
struct Side {
    sent: AtomicU64,
    taken: AtomicU64,
    /// Whether it takes no more of what waits for it.
    blocked: AtomicBool,
}

impl Side {
    fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    fn is_blocked(&self) -> bool {
        self.blocked.load(Ordering::Relaxed)
    }
}

impl Sides {
    fn traffic(&self) -> Traffic {
        Traffic { from_client: self.client.sent.load(Ordering::Relaxed), to_client: self.client.taken() }
    }

    /// Resolves once nothing has moved for so long, or an end has taken nothing of what waits for it. Looks now and then
    /// instead of reading the clock at each byte.
    async fn idle_for(&self, limit: Duration) {
        let look = || (self.traffic(), self.client.taken(), self.upstream.taken());
        let (mut before, mut looks) = (look(), [0; 3]);
        while looks.iter().all(|looks| *looks < LOOKS) {
            sleep(limit / LOOKS).await;
            let now = look();
            let stuck = [
                now.0 == before.0,
                now.1 == before.1 && self.client.is_blocked(),
                now.2 == before.2 && self.upstream.is_blocked(),
            ];
            for (looks, stuck) in looks.iter_mut().zip(stuck) {
                *looks = if stuck { *looks + 1 } else { 0 };
            }
            before = now;
        }
    }
}

/// One end of a tunnel, whose bytes are counted.
struct Watched<'a, IO> {
    io: &'a mut IO,
    side: &'a Side,
}

impl<IO: AsyncRead + Unpin> AsyncRead for Watched<'_, IO> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let polled = Pin::new(&mut *this.io).poll_read(cx, buf);
        this.side.sent.fetch_add((buf.filled().len() - before) as u64, Ordering::Relaxed);
        polled
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Watched<'_, IO> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut *this.io).poll_write(cx, buf);
        this.side.blocked.store(polled.is_pending(), Ordering::Relaxed);
        if let Poll::Ready(Ok(n)) = polled {
            this.side.taken.fetch_add(n as u64, Ordering::Relaxed);
        }
        polled
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.get_mut().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.get_mut().io).poll_shutdown(cx)
    }
}
