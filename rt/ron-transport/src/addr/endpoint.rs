//! Which upstream to dial: `http://127.0.0.1:9001`, `https://api.example` or `http+unix:/run/app.sock`.

use std::{
    borrow::Cow,
    fmt,
    net::{IpAddr, Ipv6Addr},
    path::{Path, PathBuf},
    str::FromStr,
};

use http::Uri;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::{UnixPathError, unix_path};

/// One upstream server; written and read as text, never with a path, query or credentials.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Endpoint {
    scheme: Scheme,
    target: Target,
}

/// Whether the upstream is used without TLS or over TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// HTTP without TLS.
    Http,
    /// HTTP over TLS.
    Https,
}

/// The location of an upstream's socket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// A host and a port, never 0.
    Tcp {
        /// The host name or address.
        host: Host,
        /// The port number.
        port: u16,
    },
    /// The path of a Unix socket.
    Unix(PathBuf),
}

/// The host of an upstream: a name or an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// An address, dialled as it is.
    Ip(IpAddr),
    /// A name in lower case, resolved when it is dialled.
    Name(String),
}

/// Why a text is not an [`Endpoint`]. No variant repeats credentials or a query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// The text is empty.
    #[error("the endpoint is empty: write one such as http://127.0.0.1:9001")]
    Empty,
    /// Credentials in the text.
    #[error("an endpoint cannot carry credentials before `@`: remove them")]
    UserInfo,
    /// No `http://` or `https://` in front.
    #[error("`{0}` has no scheme: write http://{0} or https://{0}")]
    NoScheme(String),
    /// A scheme that is not spoken here.
    #[error("scheme `{0}` is not supported: use http, https, http+unix or https+unix")]
    Scheme(String),
    /// A path, query or fragment follows the authority.
    #[error("`{0}` is followed by a path, query or fragment: an endpoint ends after host and port")]
    NotBare(String),
    /// What follows the host is no port.
    #[error("`{0}` is not a port to dial: write a number from 1 to 65535")]
    BadPort(String),
    /// The host is no IP address and cannot be a DNS name.
    #[error("`{0}` is neither an IP address nor a host name")]
    BadHost(String),
    /// The path of a Unix endpoint cannot be a socket's.
    #[error(transparent)]
    UnixPath(#[from] UnixPathError),
    /// None of the known forms.
    #[error("`{0}` is not an endpoint: write http://host:port, https://host:port or http+unix:/run/app.sock")]
    Unrecognised(String),
}

impl Endpoint {
    /// The endpoint at a host and port.
    ///
    /// # Errors
    /// [`EndpointError::BadPort`] when `port` is 0, which cannot be dialled.
    pub fn tcp(scheme: Scheme, host: Host, port: u16) -> Result<Self, EndpointError> {
        if port == 0 {
            return Err(EndpointError::BadPort(port.to_string()));
        }
        Ok(Self { scheme, target: Target::Tcp { host, port } })
    }

    /// The endpoint behind a Unix socket.
    ///
    /// # Errors
    /// [`EndpointError::UnixPath`] when no socket can have that path.
    pub fn unix(scheme: Scheme, path: &Path) -> Result<Self, EndpointError> {
        super::check_unix_path(path)?;
        Ok(Self { scheme, target: Target::Unix(path.to_owned()) })
    }

    /// Returns the scheme of the endpoint.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Returns the location of the endpoint's socket.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// What a request to it says in `Host` or `:authority`: the port is left out where the scheme implies it.
    #[must_use]
    pub fn authority(&self) -> String {
        match &self.target {
            Target::Tcp { host, port } if *port == self.scheme.default_port() => host.to_string(),
            Target::Tcp { host, port } => format!("{host}:{port}"),
            Target::Unix(_) => "localhost".to_owned(),
        }
    }
}

impl Scheme {
    /// Returns `http` or `https`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// Returns the default port: 80 or 443.
    #[must_use]
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Err(EndpointError::Empty);
        }
        for scheme in [Scheme::Http, Scheme::Https] {
            let path = text.strip_prefix(scheme.as_str()).and_then(|rest| rest.strip_prefix("+unix:"));
            if let Some(path) = path {
                let path = if path.starts_with("///") { &path[2..] } else { path };
                return Ok(Self { scheme, target: Target::Unix(unix_path(path)?) });
            }
        }
        // First of all, so that no later message can repeat a password.
        if text.contains('@') {
            return Err(EndpointError::UserInfo);
        }
        parse_url(text)
    }
}

fn parse_url(text: &str) -> Result<Endpoint, EndpointError> {
    // A query may hold a secret: messages show what stands before it.
    let shown = text.split(['?', '#']).next().unwrap_or_default();
    // `http::Uri` drops fragments in silence.
    if text.contains('#') {
        return Err(EndpointError::NotBare(shown.to_owned()));
    }
    let uri: Uri = text.parse().map_err(|_| EndpointError::Unrecognised(shown.to_owned()))?;
    let scheme = match uri.scheme_str() {
        None => return Err(EndpointError::NoScheme(shown.to_owned())),
        Some("http") => Scheme::Http,
        Some("https") => Scheme::Https,
        Some(other) => return Err(EndpointError::Scheme(other.to_owned())),
    };
    let authority = uri.authority().ok_or_else(|| EndpointError::Unrecognised(shown.to_owned()))?;
    if uri.path() != "/" || uri.query().is_some() {
        return Err(EndpointError::NotBare(format!("{}://{authority}", scheme.as_str())));
    }
    let host = authority.host();
    let port = match authority.as_str().strip_prefix(host).unwrap_or_default() {
        "" => scheme.default_port(),
        rest => parse_port(rest.strip_prefix(':').unwrap_or(rest))?,
    };
    Endpoint::tcp(scheme, host.parse()?, port)
}

/// `u16::from_str` alone would take `+80`.
fn parse_port(text: &str) -> Result<u16, EndpointError> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let port = text.parse().ok().filter(|port| digits && *port != 0);
    port.ok_or_else(|| EndpointError::BadPort(text.to_owned()))
}

impl FromStr for Host {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || EndpointError::BadHost(text.to_owned());
        if let Some(inner) = text.strip_prefix('[') {
            let address: Ipv6Addr =
                inner.strip_suffix(']').and_then(|inner| inner.parse().ok()).ok_or_else(bad)?;
            return Ok(Self::Ip(address.into()));
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Ip(address));
        }
        if is_dns_name(text) { Ok(Self::Name(text.to_ascii_lowercase())) } else { Err(bad()) }
    }
}

/// Letters, digits, `-` and `_` in labels of 1 to 63 bytes, at most 253 in all. A last label made of digits is
/// refused: resolvers read names such as `127.1` as addresses.
fn is_dns_name(text: &str) -> bool {
    let name = text.strip_suffix('.').unwrap_or(text);
    let label_ok = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= 253
        && name.split('.').all(label_ok)
        && !name.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()))
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(IpAddr::V6(address)) => write!(f, "[{address}]"),
            Self::Ip(address) => address.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.scheme.as_str();
        match &self.target {
            Target::Tcp { host, port } => write!(f, "{scheme}://{host}:{port}"),
            Target::Unix(path) => write!(f, "{scheme}+unix:{}", path.display()),
        }
    }
}

impl TryFrom<String> for Endpoint {
    type Error = EndpointError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Endpoint> for String {
    fn from(endpoint: Endpoint) -> Self {
        endpoint.to_string()
    }
}

impl JsonSchema for Endpoint {
    fn schema_name() -> Cow<'static, str> {
        "Endpoint".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "x-path": ["http+unix:", "https+unix:"],
            "description": "An upstream server: scheme, host and port, or `http+unix:` and a socket's path.",
            "examples": ["http://127.0.0.1:9001", "https://api.example", "http+unix:/run/app.sock"],
        })
    }
}
