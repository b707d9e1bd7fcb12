//! What a service manager is told: that the node is ready, that it is stopping, who follows it (systemd's `sd_notify` protocol).

use std::{
    ffi::OsString,
    io,
    num::NonZeroU32,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStrExt,
            net::{SocketAddr, UnixDatagram},
        },
    },
};

/// The manager's socket.
#[derive(Debug)]
pub(super) struct Manager(OsString);

impl Manager {
    /// The manager that started this process, if it wants to be told.
    pub(super) fn from_env() -> Option<Self> {
        let socket = std::env::var_os("NOTIFY_SOCKET").filter(|path| !path.is_empty())?;
        Some(Self(socket))
    }

    /// Everything is up.
    pub(super) fn ready(&self) {
        self.tell("READY=1\n");
    }

    /// The node begins to stop.
    pub(super) fn stopping(&self) {
        self.tell("STOPPING=1\n");
    }

    /// Another process is the service from now on. Only the main process is believed in this, so its predecessor has
    /// to say it; and the service does not stop, only this process does.
    pub(super) fn succeeded_by(&self, pid: NonZeroU32) {
        self.tell(&format!("MAINPID={pid}\n"));
    }

    fn tell(&self, state: &str) {
        if let Err(error) = self.send(state) {
            tracing::warn!(%error, "the service manager could not be notified");
        }
    }

    /// Sends one datagram. Never waits: a manager that does not read is not worth a pause.
    fn send(&self, state: &str) -> io::Result<()> {
        let name = self.0.as_bytes();
        let addr = match name.strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(&self.0)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        socket.send_to_addr(state.as_bytes(), &addr).map(drop)
    }
}
