//! Byte streams over TCP and Unix sockets: unregistered ([`RawStream`]) and on a runtime ([`Stream`]).
//!
//! An acceptor on one runtime hands [`RawStream`]s to the cores; each core registers its own with
//! [`RawStream::register`], so that no socket is ever woken by a foreign runtime.

use std::{
    fmt,
    future::Future as _,
    io::{self, IoSlice},
    net::SocketAddr,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf},
    net::{TcpStream, UnixStream},
};

/// A connected, nonblocking socket that belongs to no runtime yet.
#[derive(Debug)]
pub enum RawStream {
    /// A TCP connection.
    Tcp(std::net::TcpStream),
    /// Over a Unix socket.
    Unix(std::os::unix::net::UnixStream),
}

/// A connected socket registered with a runtime.
///
/// Dropping it closes the socket without blocking; bytes already written are still sent.
#[derive(Debug)]
pub enum Stream {
    /// A TCP connection.
    Tcp(TcpStream),
    /// Over a Unix socket.
    Unix(UnixStream),
}

/// Who is at the other end of an accepted connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    /// The client's address; IPv4-mapped IPv6 addresses are unmapped. `None` over Unix sockets, and when
    /// the system did not say.
    pub addr: Option<SocketAddr>,
    /// Whether the connection came over a Unix socket.
    pub unix: bool,
}

impl Peer {
    /// A peer over TCP.
    #[must_use]
    pub fn tcp(addr: SocketAddr) -> Self {
        Self { addr: Some(SocketAddr::new(addr.ip().to_canonical(), addr.port())), unix: false }
    }

    /// A peer over a Unix socket.
    #[must_use]
    pub const fn unix() -> Self {
        Self { addr: None, unix: true }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.addr {
            Some(addr) => addr.fmt(f),
            None => f.write_str(if self.unix { "unix" } else { "unknown" }),
        }
    }
}

/// Pieces that are together no longer than this are copied into one: the system takes longer to walk a list of pieces
/// than to copy so little.
const SMALL: usize = 2048;

/// The pieces as one, if there is only one or they are small.
fn gather<'a>(pieces: &'a [IoSlice<'a>], space: &'a mut [u8; SMALL]) -> Option<&'a [u8]> {
    if let [only] = pieces {
        return Some(only);
    }
    let mut filled = 0;
    for piece in pieces {
        let end = filled + piece.len();
        space.get_mut(filled..end)?.copy_from_slice(piece);
        filled = end;
    }
    Some(&space[..filled])
}

impl RawStream {
    /// Registers the socket with the current runtime.
    ///
    /// # Errors
    /// The system's, when the runtime's poller refuses the socket.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O enabled.
    pub fn register(self) -> io::Result<Stream> {
        match self {
            Self::Tcp(socket) => TcpStream::from_std(socket).map(Stream::Tcp),
            Self::Unix(socket) => UnixStream::from_std(socket).map(Stream::Unix),
        }
    }
}

impl Stream {
    /// Takes the socket off its runtime, for registration with another one.
    ///
    /// # Errors
    /// The system's, when the runtime's poller does not let go of the socket.
    pub fn into_raw(self) -> io::Result<RawStream> {
        match self {
            Self::Tcp(socket) => socket.into_std().map(RawStream::Tcp),
            Self::Unix(socket) => socket.into_std().map(RawStream::Unix),
        }
    }

    /// Waits until bytes, the end of the stream or an error can be read. May wake without cause.
    ///
    /// Cancel safe: nothing is consumed.
    ///
    /// # Errors
    /// The system's, or that the runtime is shutting down.
    pub async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.readable().await,
            Self::Unix(socket) => socket.readable().await,
        }
    }

    /// The polled form of [`readable`](Self::readable); only the last caller's waker is kept.
    ///
    /// # Errors
    /// As [`readable`](Self::readable).
    pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(socket) => socket.poll_read_ready(cx),
            Self::Unix(socket) => socket.poll_read_ready(cx),
        }
    }

    /// The far end, as the socket tells it.
    ///
    /// # Errors
    /// The system's; a TCP socket that is no longer connected has no peer.
    pub fn peer(&self) -> io::Result<Peer> {
        match self {
            Self::Tcp(socket) => socket.peer_addr().map(Peer::tcp),
            Self::Unix(_) => Ok(Peer::unix()),
        }
    }
}

/// A stream whose socket tells that the far end has closed or reset it, though bytes before that were not read.
pub(crate) trait HangUp {
    /// Whether the far end sends no more. Once true, it stays so.
    fn has_hung_up(&self) -> bool;

    /// Has the far end see a reset instead of an end when the stream is dropped, where the system can do that.
    fn reset_on_drop(&self);
}

impl HangUp for Stream {
    fn has_hung_up(&self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        let ready = match self {
            Self::Tcp(socket) => pin!(socket.ready(Interest::READABLE)).poll(&mut cx),
            Self::Unix(socket) => pin!(socket.ready(Interest::READABLE)).poll(&mut cx),
        };
        matches!(ready, Poll::Ready(Ok(ready)) if ready.is_read_closed())
    }

    fn reset_on_drop(&self) {
        if let Self::Tcp(socket) = self {
            // Without it the far end sees an end, as over a Unix socket.
            let _ = socket2::SockRef::from(socket).set_linger(Some(Duration::ZERO));
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(socket) => Pin::new(socket).poll_read(cx, buf),
            Self::Unix(socket) => Pin::new(socket).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(socket) => Pin::new(socket).poll_write(cx, buf),
            Self::Unix(socket) => Pin::new(socket).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut space = [0; SMALL];
        if let Some(whole) = gather(bufs, &mut space) {
            return self.poll_write(cx, whole);
        }
        match self.get_mut() {
            Self::Tcp(socket) => Pin::new(socket).poll_write_vectored(cx, bufs),
            Self::Unix(socket) => Pin::new(socket).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(socket) => socket.is_write_vectored(),
            Self::Unix(socket) => socket.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(socket) => Pin::new(socket).poll_flush(cx),
            Self::Unix(socket) => Pin::new(socket).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(socket) => Pin::new(socket).poll_shutdown(cx),
            Self::Unix(socket) => Pin::new(socket).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_pieces_are_sent_as_one_and_large_ones_as_they_are() {
        let (head, body) = ([1; 48], [2; 2000]);
        let mut space = [0; SMALL];
        let whole = gather(&[IoSlice::new(&head), IoSlice::new(&body)], &mut space).map(<[u8]>::to_vec);
        assert_eq!(whole, Some([head.as_slice(), body.as_slice()].concat()));
        let one_more = [2; 2001];
        assert_eq!(gather(&[IoSlice::new(&head), IoSlice::new(&one_more)], &mut space), None);
        let large = [3; 5000];
        assert_eq!(gather(&[IoSlice::new(&large)], &mut space), Some(large.as_slice()));
        assert_eq!(gather(&[], &mut space), Some([].as_slice()));
    }
}
