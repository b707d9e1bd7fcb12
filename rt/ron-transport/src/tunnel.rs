//! Connections that stop speaking HTTP: after a 101 both ends send what they like, and we pass it on.
//!
//! A [`Tunnel`] travels as the body of the 101 response: the client side makes it, the serve loop takes it out once the
//! response's head is written and relays on the connection's own task. Ordinary requests pay nothing for this.

use std::{
    fmt, io,
    pin::Pin,
    sync::atomic::{AtomicU64, Ordering},
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
    /// Without a byte in either direction; it is noticed at most a quarter later.
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
    /// From the client.
    pub from_client: u64,
    /// To the client.
    pub to_client: u64,
}

/// Why a tunnel ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunnelEnd {
    /// Both ends were done.
    Closed,
    /// One end broke off.
    Broken,
    /// Nothing moved for too long.
    Idle,
    /// The node stops.
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
        let counts = Counts::default();
        let mut client = Watched { io: client, counts: &counts };
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
            () = counts.idle_for(limits.idle) => TunnelEnd::Idle,
        };
        // A server that takes no more will not take this either.
        let _ = timeout(GOODBYE, upstream.shutdown()).await;
        if let Some(watch) = watch {
            watch.ended(counts.traffic(), end);
        }
        end
    }
}

impl fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tunnel").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// What has gone through so far.
#[derive(Debug, Default)]
struct Counts {
    from_client: AtomicU64,
    to_client: AtomicU64,
}

impl Counts {
    fn traffic(&self) -> Traffic {
        Traffic {
            from_client: self.from_client.load(Ordering::Relaxed),
            to_client: self.to_client.load(Ordering::Relaxed),
        }
    }

    /// Resolves once nothing has moved for so long. Looks now and then instead of reading the clock at each byte.
    async fn idle_for(&self, limit: Duration) {
        let (mut before, mut quiet) = (self.traffic(), 0);
        while quiet < LOOKS {
            sleep(limit / LOOKS).await;
            let now = self.traffic();
            quiet = if now == before { quiet + 1 } else { 0 };
            before = now;
        }
    }
}

/// The client's stream, through which every byte of a tunnel goes once.
struct Watched<'a, IO> {
    io: &'a mut IO,
    counts: &'a Counts,
}

impl<IO: AsyncRead + Unpin> AsyncRead for Watched<'_, IO> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let polled = Pin::new(&mut *this.io).poll_read(cx, buf);
        this.counts.from_client.fetch_add((buf.filled().len() - before) as u64, Ordering::Relaxed);
        polled
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Watched<'_, IO> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut *this.io).poll_write(cx, buf);
        if let Poll::Ready(Ok(n)) = polled {
            this.counts.to_client.fetch_add(n as u64, Ordering::Relaxed);
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
