//! A service manager that listens to what the node tells it.

use std::{io::ErrorKind, os::unix::net::UnixDatagram, process::Command};

use tempfile::TempDir;

use crate::http::PATIENCE;

/// A service manager.
pub(crate) struct Manager {
    socket: UnixDatagram,
    dir: TempDir,
}

impl Manager {
    pub(crate) fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = UnixDatagram::bind(dir.path().join("notify")).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { socket, dir }
    }

    /// Asks the process to tell this manager.
    pub(crate) fn want_news(&self, command: &mut Command) {
        command.env("NOTIFY_SOCKET", self.dir.path().join("notify"));
    }

    /// The next thing it is told.
    pub(crate) fn heard(&self) -> String {
        let mut buffer = [0; 256];
        let read = self.socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..read]).into_owned()
    }

    /// Nothing more has been told.
    #[track_caller]
    pub(crate) fn assert_heard_all(&self) {
        self.socket.set_nonblocking(true).unwrap();
        let more = self.socket.recv(&mut [0; 256]);
        assert!(more.is_err_and(|error| error.kind() == ErrorKind::WouldBlock));
        self.socket.set_nonblocking(false).unwrap();
    }
}
