//! Where to listen: `127.0.0.1:8080`, `[::]:80`, `unix:/run/x.sock` or `inherit:web`.

use std::{
    borrow::Cow,
    fmt,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    str::FromStr,
};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::{UnixPathError, unix_path};

/// A place to listen on; written and read as text.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ListenAddr {
    /// An IP address and port; port 0 lets the system choose.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
    /// A listener passed in by the service manager or a predecessor, by its name.
    Inherited(String),
}

/// Why a text is not a [`ListenAddr`], and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListenAddrError {
    /// The text is empty.
    #[error("the address is empty: write one such as 127.0.0.1:8080")]
    Empty,
    /// The address has a port and no host.
    #[error("`{text}` has no host: write 127.0.0.1:{port} or 0.0.0.0:{port}")]
    NoHost {
        /// The text as given.
        text: String,
        /// The port in it.
        port: String,
    },
    /// The address has a host and no port.
    #[error("`{0}` has no port: write {0}:8080")]
    NoPort(String),
    /// An IPv6 address outside brackets, where its end and the port cannot be told apart.
    #[error("`{0}` is an IPv6 address outside brackets: write [address]:port, such as [::1]:8080")]
    NoBrackets(String),
    /// What follows the last colon is no port.
    #[error("`{0}` is not a port: write a number from 0 to 65535")]
    BadPort(String),
    /// A star for every address.
    #[error("`*` is not an address: write 0.0.0.0:{0} for IPv4 or [::]:{0} for IPv4 and IPv6")]
    Wildcard(u16),
    /// A host name, which may have several addresses or other ones tomorrow.
    #[error("`{name}` is not an IP address: write the address to listen on, such as 127.0.0.1:{port}")]
    Name {
        /// The host part of the address.
        name: String,
        /// The port part of the address.
        port: u16,
    },
    /// A URL, not repeated because it may hold credentials.
    #[error("a URL is not an address to listen on: write only host and port, such as 127.0.0.1:8080")]
    Url,
    /// The path behind `unix:` cannot be a socket's.
    #[error(transparent)]
    UnixPath(#[from] UnixPathError),
    /// The name behind `inherit:` cannot be a listener's.
    #[error(
        "`{0}` cannot name an inherited listener: use 1 to {max} visible ASCII characters, no colon",
        max = ListenAddr::INHERITED_NAME_MAX
    )]
    BadName(String),
    /// None of the known forms.
    #[error("`{0}` is not an address: write 127.0.0.1:8080, [::]:8080, unix:/run/app.sock or inherit:name")]
    Unrecognised(String),
}

impl ListenAddr {
    /// Longest name of an inherited listener, in bytes (what systemd allows).
    pub const INHERITED_NAME_MAX: usize = 255;

    /// Whether `name` may name an inherited listener: names travel separated by colons.
    #[must_use]
    pub fn is_inherited_name(name: &str) -> bool {
        (1..=Self::INHERITED_NAME_MAX).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':')
    }
}

impl FromStr for ListenAddr {
    type Err = ListenAddrError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Err(ListenAddrError::Empty);
        }
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Self::Unix(unix_path(path)?));
        }
        if let Some(name) = text.strip_prefix("inherit:") {
            return if Self::is_inherited_name(name) {
                Ok(Self::Inherited(name.to_owned()))
            } else {
                Err(ListenAddrError::BadName(name.to_owned()))
            };
        }
        text.parse().map(Self::Tcp).map_err(|_| diagnose(text))
    }
}

/// Says what is wrong with a text that is no socket address.
fn diagnose(text: &str) -> ListenAddrError {
    let shown = || text.to_owned();
    if text.contains("://") {
        return ListenAddrError::Url;
    }
    let bare = text.strip_prefix(':').unwrap_or(text);
    if is_digits(bare) {
        return ListenAddrError::NoHost { text: shown(), port: bare.to_owned() };
    }
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => return ListenAddrError::NoPort(shown()),
        Ok(IpAddr::V6(_)) => return ListenAddrError::NoBrackets(shown()),
        Err(_) => {}
    }
    if text.starts_with('[') && text.ends_with(']') {
        return ListenAddrError::NoPort(shown());
    }
    let Some((host, port)) = text.rsplit_once(':') else {
        return ListenAddrError::Unrecognised(shown());
    };
    if !is_digits(port) {
        return ListenAddrError::BadPort(port.to_owned());
    }
    match port.parse() {
        Err(_) => ListenAddrError::BadPort(port.to_owned()),
        Ok(port) if host == "*" => ListenAddrError::Wildcard(port),
        Ok(_) if host.contains(':') && !host.starts_with('[') => ListenAddrError::NoBrackets(shown()),
        Ok(_) if host.contains(['[', ']', '/', ' ']) => ListenAddrError::Unrecognised(shown()),
        Ok(port) => ListenAddrError::Name { name: host.to_owned(), port },
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

impl fmt::Display for ListenAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(addr) => addr.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Inherited(name) => write!(f, "inherit:{name}"),
        }
    }
}

impl TryFrom<String> for ListenAddr {
    type Error = ListenAddrError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ListenAddr> for String {
    fn from(addr: ListenAddr) -> Self {
        addr.to_string()
    }
}

impl JsonSchema for ListenAddr {
    fn schema_name() -> Cow<'static, str> {
        "ListenAddr".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "x-path": ["unix:"],
            "description": "Where to listen: an IP address and port, `unix:` and a path, or `inherit:` and a name.",
            "examples": ["127.0.0.1:8080", "[::]:80", "unix:/run/app.sock", "inherit:web"],
        })
    }
}
