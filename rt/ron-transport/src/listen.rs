//! Listening sockets: bound with care, accepted from without being tied to one runtime, closed without resets.

mod accept;
mod error;
mod unix_file;

pub use accept::AcceptFault;
pub use error::BindError;

use std::{
    io,
    net::{IpAddr, SocketAddr},
    os::{
        fd::OwnedFd,
        unix::{net::UnixListener, process::parent_id},
    },
    path::Path,
    sync::OnceLock,
};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::{Interest, unix::AsyncFd};

use crate::{
    addr::ListenAddr,
    stream::{Peer, RawStream},
};
use unix_file::SocketFile;

/// Connections the kernel may hold for us before `accept`; the kernel's `somaxconn` caps it further.
pub const BACKLOG: u16 = 4096;

/// Options for binding a listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindOptions {
    /// Permission bits of a Unix socket's file: a user who may write to it may connect.
    pub unix_mode: u32,
}

impl Default for BindOptions {
    /// Owner and group may connect.
    fn default() -> Self {
        Self { unix_mode: 0o660 }
    }
}

/// A nonblocking listening socket.
///
/// Binding needs no runtime. The first [`accept`](Self::accept) registers the socket with the runtime it runs
/// on, where all later ones must run too; the accepted streams belong to no runtime.
///
/// End it with [`close`](Self::close) or, once a successor serves the same socket, with
/// [`release`](Self::release). Dropping it unclosed is logged at debug level and resets what waits in the backlog. One
/// that nobody has accepted from takes a Unix socket's file with it, so that a plan which is given up leaves nothing
/// behind; one that has served leaves the file, which the next bind finds stale and removes.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    local: ListenAddr,
    /// The name by which it was inherited, if it was asked for by name.
    asked_for: Option<ListenAddr>,
    /// The Unix socket's file, if it is ours to remove.
    file: Option<SocketFile>,
    /// The process that handed the socket over. As long as it is there, it may serve on, and the file is its own.
    handed_over_by: Option<u32>,
    /// A duplicate of `socket`, registered with the accepting runtime.
    readiness: OnceLock<AsyncFd<OwnedFd>>,
    closed: bool,
}

impl Listener {
    /// Binds and listens. Touches the file system for Unix sockets, briefly; never waits for a peer.
    ///
    /// A file left at a Unix socket's path is removed only if it is a socket on which nobody answers.
    ///
    /// # Errors
    /// [`BindError`], with what to do about it. [`ListenAddr::Inherited`] cannot be bound: see
    /// [`Inherited::listen`](crate::inherit::Inherited::listen).
    pub fn bind(addr: &ListenAddr, options: BindOptions) -> Result<Self, BindError> {
        match addr {
            ListenAddr::Tcp(socket_addr) => {
                bind_tcp(*socket_addr).map_err(|error| BindError::from_io(addr, error))
            }
            ListenAddr::Unix(path) => bind_unix(path, options),
            ListenAddr::Inherited(name) => {
                Err(BindError::NotInherited { name: name.clone(), offered: Vec::new() })
            }
        }
    }

    /// Takes over a listening TCP socket.
    ///
    /// # Errors
    /// The system's; `InvalidInput` if the socket is not listening.
    pub fn from_tcp(listener: std::net::TcpListener) -> io::Result<Self> {
        let socket = Socket::from(listener);
        prepare(&socket)?;
        // Accepted sockets inherit the options, which spares a system call each.
        socket.set_tcp_nodelay(true)?;
        #[cfg(any(target_os = "linux", target_os = "android"))]
        socket.set_tcp_notsent_lowat(UNSENT)?;
        let local = socket.local_addr()?.as_socket().ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Self::new(socket, ListenAddr::Tcp(local), None))
    }

    /// Takes over a listening Unix socket known as `name`; with `owns_path`, closing removes its file.
    ///
    /// # Errors
    /// The system's; `InvalidInput` if the socket is not listening.
    pub fn from_unix(listener: UnixListener, name: &str, owns_path: bool) -> io::Result<Self> {
        let socket = Socket::from(listener);
        prepare(&socket)?;
        let addr = socket.local_addr()?;
        let Some(path) = addr.as_pathname() else {
            return Ok(Self::new(socket, ListenAddr::Inherited(name.to_owned()), None));
        };
        let file = if owns_path { SocketFile::at(path).ok() } else { None };
        Ok(Self::new(socket, ListenAddr::Unix(path.to_owned()), file))
    }

    /// Waits for the next connection. Many callers may wait at once.
    ///
    /// Ask [`AcceptFault::of`] what an error means for the loop.
    ///
    /// Cancel safe: a connection is either returned or still in the backlog.
    ///
    /// # Errors
    /// The system's, or that the runtime of the first call is shutting down.
    pub async fn accept(&self) -> io::Result<(RawStream, Peer)> {
        let readiness = self.readiness()?;
        loop {
            // Under a flood the socket is always ready; this lets the runtime's other tasks run.
            tokio::task::consume_budget().await;
            let mut guard = readiness.readable().await?;
            if let Ok(accepted) = guard.try_io(|_| accept::accept(&self.socket)) {
                return accepted;
            }
        }
    }

    /// Takes up to `max` connections that already wait in the backlog, without waiting for more.
    #[must_use = "dropping the streams closes them"]
    pub fn drain_backlog(&self, max: usize) -> Vec<(RawStream, Peer)> {
        accept::drain(&self.socket, max)
    }

    /// Where it listens, with the port the system chose. [`ListenAddr::Inherited`] only for a Unix socket
    /// that has no path.
    #[must_use]
    pub fn local_addr(&self) -> &ListenAddr {
        &self.local
    }

    /// What it was asked for by: `inherit:name` if it was taken by its name, else where it listens.
    #[must_use]
    pub fn asked_for(&self) -> &ListenAddr {
        self.asked_for.as_ref().unwrap_or(&self.local)
    }

    /// A second descriptor of the same socket, closed on exec.
    ///
    /// # Errors
    /// The system's, when the process is out of descriptors.
    pub fn try_clone_fd(&self) -> io::Result<OwnedFd> {
        self.socket.try_clone().map(OwnedFd::from)
    }

    /// Stops listening and returns the connections that were waiting, at most [`BACKLOG`], so that each can
    /// be answered instead of being reset.
    ///
    /// A Unix socket's file goes first, if it is still the one we made, and so nobody arrives after the last
    /// look. Over TCP a handshake that completes between the last look and the close is still reset; handing
    /// the socket to a successor is the way to lose none.
    #[must_use = "dropping the streams closes them"]
    pub fn close(mut self) -> Vec<(RawStream, Peer)> {
        self.closed = true;
        self.remove_file();
        self.drain_backlog(usize::from(BACKLOG))
    }

    /// Closes this process's share of a socket that a successor or the service manager keeps open: the backlog
    /// and a Unix socket's file stay for them.
    pub fn release(mut self) {
        self.closed = true;
        self.file = None;
    }

    /// Closes a socket nobody here serves: its file goes if it is ours, its backlog is left alone because
    /// another process may hold the same socket.
    pub(crate) fn discard(mut self) {
        self.closed = true;
        self.remove_file();
    }

    /// Remembers by what it was asked for.
    pub(crate) fn asked_by(mut self, addr: &ListenAddr) -> Self {
        self.asked_for = Some(addr.clone());
        self
    }

    /// The same listener, known to come from the process `predecessor`, our parent.
    pub(crate) fn handed_over_by(mut self, predecessor: u32) -> Self {
        self.handed_over_by = Some(predecessor);
        self
    }

    fn new(socket: Socket, local: ListenAddr, file: Option<SocketFile>) -> Self {
        Self {
            socket,
            local,
            asked_for: None,
            file,
            handed_over_by: None,
            readiness: OnceLock::new(),
            closed: false,
        }
    }

    fn readiness(&self) -> io::Result<&AsyncFd<OwnedFd>> {
        if let Some(registered) = self.readiness.get() {
            return Ok(registered);
        }
        // A duplicate, because the poller refuses the same descriptor twice and two first calls may race:
        // the loser's is dropped.
        #[expect(
            deprecated,
            reason = "unsound only for types whose descriptor can change; an OwnedFd's cannot"
        )]
        let registered = AsyncFd::with_interest(self.try_clone_fd()?, Interest::READABLE)?;
        Ok(self.readiness.get_or_init(|| registered))
    }

    fn remove_file(&mut self) {
        if self.handed_over_by == Some(parent_id()) {
            return self.file = None;
        }
        if let Some(file) = self.file.take()
            && let Err(error) = file.remove_if_ours()
        {
            tracing::warn!(listen = %self.local, %error, "the socket's file could not be removed");
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if self.closed {
            return;
        }
        tracing::debug!(listen = %self.local, "a listener was dropped unclosed");
        if self.readiness.get().is_none() {
            self.remove_file();
        }
    }
}

/// What the system may hold of what a client is not ready to take. Without a limit that is megabytes, of which a third has to
/// go before the socket takes more: a client that reads steadily, but not quickly, would seem to have stopped.
#[cfg(any(target_os = "linux", target_os = "android"))]
const UNSENT: u32 = 64 * 1024;

fn bind_tcp(addr: SocketAddr) -> io::Result<Listener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if addr.ip() == IpAddr::from(std::net::Ipv6Addr::UNSPECIFIED) {
        // Said explicitly, because the system's default differs between hosts.
        socket.set_only_v6(false)?;
    }
    socket.bind(&addr.into())?;
    socket.listen(BACKLOG.into())?;
    Listener::from_tcp(socket.into())
}

fn bind_unix(path: &Path, options: BindOptions) -> Result<Listener, BindError> {
    let addr = ListenAddr::Unix(path.to_owned());
    let (socket, file) = unix_file::bind(path)?;
    let listen = || {
        // Before `listen`: until then every connect is refused, whatever the file's first mode was.
        file.set_mode(options.unix_mode)?;
        socket.listen(BACKLOG.into())?;
        prepare(&socket)
    };
    match listen() {
        Ok(()) => Ok(Listener::new(socket, addr, Some(file))),
        Err(error) => {
            // The failure matters to the caller, not whether the empty file could be taken back.
            let _ = file.remove_if_ours();
            Err(BindError::from_io(&addr, error))
        }
    }
}

/// Makes a listening socket fit for [`Listener`].
fn prepare(socket: &Socket) -> io::Result<()> {
    if !socket.is_listener()? {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the socket is not listening"));
    }
    socket.set_nonblocking(true)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_handed_over_is_removed_only_once_the_predecessor_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("web.sock");
        let handed = || Listener::from_unix(UnixListener::bind(&path).unwrap(), "web", true).unwrap();
        assert!(handed().handed_over_by(parent_id()).close().is_empty());
        assert!(path.exists(), "the predecessor may serve on");
        std::os::unix::net::UnixStream::connect(&path).unwrap_err();
        unix_file::bind(&path).map(|(_, file)| file.remove_if_ours()).unwrap().unwrap();
        assert!(handed().handed_over_by(u32::MAX).close().is_empty());
        assert!(!path.exists(), "nobody else is left to remove it");
    }
}
