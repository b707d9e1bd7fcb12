//! Taking connections from a listening socket, and what a failed attempt means.

use std::io;

use rustix::io::Errno;
use socket2::Socket;

use crate::stream::{Peer, RawStream};

/// What an accept loop should do after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AcceptFault {
    /// That one connection failed: go on at once.
    Connection,
    /// The process or the system is out of descriptors or memory: wait a little, then go on.
    Resources,
    /// The listening socket itself is broken: stop, and open a new one.
    Fatal,
}

impl AcceptFault {
    /// Classifies an error of [`Listener::accept`](super::Listener::accept).
    #[must_use]
    pub fn of(error: &io::Error) -> Self {
        let Some(errno) = Errno::from_io_error(error) else {
            return Self::Fatal;
        };
        match errno {
            // Pending network errors of the new connection are reported here too (accept(2)).
            Errno::CONNABORTED
            | Errno::CONNRESET
            | Errno::INTR
            | Errno::AGAIN
            | Errno::PROTO
            | Errno::PERM
            | Errno::TIMEDOUT
            | Errno::NETDOWN
            | Errno::NETUNREACH
            | Errno::HOSTDOWN
            | Errno::HOSTUNREACH
            | Errno::NONET
            | Errno::NOPROTOOPT => Self::Connection,
            Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM => Self::Resources,
            _ => Self::Fatal,
        }
    }
}

/// Accepts one connection as a nonblocking stream of no runtime.
pub(super) fn accept(listening: &Socket) -> io::Result<(RawStream, Peer)> {
    let (socket, from) = listening.accept()?;
    if from.is_unix() {
        let stream = std::os::unix::net::UnixStream::from(socket);
        stream.set_nonblocking(true)?;
        return Ok((RawStream::Unix(stream), Peer::unix()));
    }
    let stream = std::net::TcpStream::from(socket);
    stream.set_nonblocking(true)?;
    let peer = from.as_socket().map_or(
        Peer {
            addr: None,
            unix: false,
        },
        Peer::tcp,
    );
    Ok((RawStream::Tcp(stream), peer))
}

/// Accepts what is waiting, at most `max`.
pub(super) fn drain(listening: &Socket, max: usize) -> Vec<(RawStream, Peer)> {
    let mut waiting = Vec::new();
    // Attempts are bounded as well: a failed one costs its connection, never the loop's end.
    for _ in 0..max {
        match accept(listening) {
            Ok(accepted) => waiting.push(accepted),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if AcceptFault::of(&error) == AcceptFault::Connection => {}
            Err(_) => break,
        }
    }
    waiting
}
