//! Why a listener could not be opened, each with its remedy.

use std::{error::Error, fmt, io, net::SocketAddr, path::PathBuf};

use rustix::io::Errno;

use crate::addr::{ListenAddr, UnixPathError};

/// Ports below this one are reserved to privileged processes on most systems.
const FIRST_UNPRIVILEGED_PORT: u16 = 1024;

/// Why a listener could not be opened. Displayed as the problem and its remedy in one sentence.
#[derive(Debug)]
pub enum BindError {
    /// Another socket listens on the port.
    InUse {
        /// The address asked for.
        addr: SocketAddr,
    },
    /// The listener to be replaced holds the port, on an address that overlaps.
    OwnPort {
        /// The address asked for.
        addr: SocketAddr,
        /// The current address of the listener.
        present: SocketAddr,
    },
    /// The system does not let this process listen there.
    Permission {
        /// The address asked for.
        addr: ListenAddr,
    },
    /// The host has no such address.
    NotAvailable {
        /// The address asked for.
        addr: SocketAddr,
    },
    /// The host does not speak the address's family, e.g. IPv6 is switched off.
    FamilyOff {
        /// The address asked for.
        addr: SocketAddr,
    },
    /// The text cannot be the path of a Unix socket.
    UnixPath(UnixPathError),
    /// The directory of the Unix socket does not exist.
    NoDirectory {
        /// The path of the socket.
        path: PathBuf,
    },
    /// A process answers on the Unix socket.
    PathInUse {
        /// The path of the socket.
        path: PathBuf,
    },
    /// Something that is not a socket is at the path; it is never removed.
    NotASocket {
        /// The path of the file.
        path: PathBuf,
    },
    /// No listener of that name was passed in.
    NotInherited {
        /// The name asked for.
        name: String,
        /// The names that were passed in and are not taken.
        offered: Vec<String>,
    },
    /// Anything else the system reports.
    Io {
        /// The address asked for.
        addr: ListenAddr,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl BindError {
    /// Reads the system's error about `addr`.
    #[must_use]
    pub fn from_io(addr: &ListenAddr, source: io::Error) -> Self {
        let errno = Errno::from_io_error(&source);
        match (addr, source.kind()) {
            (_, io::ErrorKind::PermissionDenied) => Self::Permission { addr: addr.clone() },
            (ListenAddr::Tcp(addr), io::ErrorKind::AddrInUse) => Self::InUse { addr: *addr },
            (ListenAddr::Tcp(addr), io::ErrorKind::AddrNotAvailable) => Self::NotAvailable { addr: *addr },
            (ListenAddr::Tcp(addr), _) if errno == Some(Errno::AFNOSUPPORT) => {
                Self::FamilyOff { addr: *addr }
            }
            (ListenAddr::Unix(path), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Self::NoDirectory { path: path.clone() }
            }
            (ListenAddr::Unix(path), io::ErrorKind::AddrInUse) => Self::PathInUse { path: path.clone() },
            _ => Self::Io { addr: addr.clone(), source },
        }
    }

    /// What is wrong, without the remedy.
    #[must_use]
    pub fn problem(&self) -> String {
        match self {
            Self::InUse { addr } => format!("port {} is in use ({addr})", addr.port()),
            Self::OwnPort { addr, present } => {
                format!("{addr} cannot be opened while this listener is on {present}, which overlaps it")
            }
            Self::Permission { addr } => format!("no permission to listen on {addr}"),
            Self::NotAvailable { addr } => format!("this host has no address {}", addr.ip()),
            Self::FamilyOff { addr } => format!("this host does not speak the family of {addr}"),
            Self::UnixPath(error) => error.to_string(),
            Self::NoDirectory { path } => format!("the directory of {} does not exist", path.display()),
            Self::PathInUse { path } => format!("another process answers on {}", path.display()),
            Self::NotASocket { path } => format!("{} exists and is not a socket", path.display()),
            Self::NotInherited { name, .. } => format!("no listener named `{name}` was passed in"),
            Self::Io { addr, source } => format!("cannot listen on {addr} ({source})"),
        }
    }

    /// What the operator can do about it.
    #[must_use]
    pub fn remedy(&self) -> String {
        match self {
            Self::InUse { .. } => {
                "stop the other process (`ss -ltnp` shows it) or change `listen`".to_owned()
            }
            Self::OwnPort { .. } => "change the port as well, or restart".to_owned(),
            Self::Permission { addr: ListenAddr::Tcp(addr) } if is_privileged(addr.port()) => format!(
                "ports below {FIRST_UNPRIVILEGED_PORT} need CAP_NET_BIND_SERVICE (in a systemd unit: \
                 AmbientCapabilities=CAP_NET_BIND_SERVICE), or change `listen` to a higher port"
            ),
            Self::Permission { addr: ListenAddr::Unix(_) } => {
                "let this process's user write to the socket's directory".to_owned()
            }
            Self::Permission { .. } => "look for a security policy that forbids it".to_owned(),
            Self::NotAvailable { .. } => {
                "`ip addr` lists this host's addresses; 0.0.0.0 or [::] listens on all of them".to_owned()
            }
            Self::FamilyOff { addr } if addr.is_ipv6() => {
                format!("enable IPv6 on this host or listen on 0.0.0.0:{}", addr.port())
            }
            Self::FamilyOff { .. } => "enable IPv4 on this host or listen on an IPv6 address".to_owned(),
            Self::UnixPath(_) => "change `listen`".to_owned(),
            Self::NoDirectory { .. } => "create it, or change `listen`".to_owned(),
            Self::PathInUse { .. } => "stop it (`ss -lxp` shows it) or change `listen`".to_owned(),
            Self::NotASocket { .. } => "move it away or change `listen`; it was left untouched".to_owned(),
            Self::NotInherited { offered, .. } if offered.is_empty() => {
                "start under a service manager that passes it in, or change `listen` to an address".to_owned()
            }
            Self::NotInherited { offered, .. } => format!("the names passed in are {}", offered.join(", ")),
            Self::Io { .. } => "change `listen` or repair what the system reports".to_owned(),
        }
    }
}

fn is_privileged(port: u16) -> bool {
    (1..FIRST_UNPRIVILEGED_PORT).contains(&port)
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Its own words already end in the remedy.
            Self::UnixPath(error) => error.fmt(f),
            _ => write!(f, "{}: {}", self.problem(), self.remedy()),
        }
    }
}

impl Error for BindError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
