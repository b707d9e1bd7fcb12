//! Taking connections from a listening socket, and what a failed attempt means.

use std::{io, net::SocketAddr};

use rustix::{
    io::Errno,
    net::{AddressFamily, SocketFlags},
};
use socket2::Socket;

use crate::stream::{Peer, RawStream};

/// What an accept loop should do after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AcceptFault {
    /// That one connection failed: go on at once.
    Connection,
    /// The process or the system is out of descriptors or memory: wait a little, then go on.
    Resources,
    /// The listening socket itself is broken: stop, and let the supervisor decide.
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
    // One system call where the standard library needs two or three.
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (socket, from) = rustix::net::acceptfrom_with(listening, flags)?;
    if from.as_ref().is_some_and(|from| from.address_family() == AddressFamily::UNIX) {
        return Ok((RawStream::Unix(socket.into()), Peer::unix()));
    }
    let unknown = Peer { addr: None, unix: false };
    let peer = from.and_then(|from| SocketAddr::try_from(from).ok()).map_or(unknown, Peer::tcp);
    Ok((RawStream::Tcp(socket.into()), peer))
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
