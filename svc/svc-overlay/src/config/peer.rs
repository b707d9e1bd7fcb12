//! Whom to dial: `b3:<node id>@node-b.example:9500`.

use std::{borrow::Cow, fmt, str::FromStr};

use ron_transport::addr::{Endpoint, EndpointError, Host, Target};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use types::NodeId;

/// What carries a session with a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// TCP or a Unix socket, with TLS where the node is configured so.
    Socket,
    /// A session over QUIC.
    Quic,
}

/// A node and where it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PeerAddr {
    /// The expected node; [`None`] to accept any.
    pub id: Option<NodeId>,
    /// The transport of the session.
    pub transport: Transport,
    /// The address of the peer.
    pub endpoint: Endpoint,
    /// The address as it was written.
    place: String,
}

/// The text names no peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerAddrError {
    /// What stands before `@` is no node's id.
    #[error("before `@` there must be the id of a node: `b3:` and 64 lower-case hexadecimal digits")]
    Id,
    /// What stands behind it is no place.
    #[error("write b3:<node id>@host:port, b3:<node id>@quic://host:port or b3:<node id>@unix:/path: {0}")]
    Place(EndpointError),
}

impl PeerAddr {
    /// Whether it is on this machine for sure.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self.endpoint.target() {
            Target::Unix(_) => true,
            Target::Tcp { host: Host::Ip(ip), .. } => ip.to_canonical().is_loopback(),
            Target::Tcp { host: Host::Name(name), .. } => name == "localhost",
        }
    }
}

impl PeerAddr {
    /// Whether only Tor knows the name (RFC 7686).
    pub(super) fn is_onion(&self) -> bool {
        matches!(self.endpoint.target(), Target::Tcp { host: Host::Name(name), .. }
            if name.trim_end_matches('.').ends_with(".onion"))
    }
}

impl FromStr for PeerAddr {
    type Err = PeerAddrError;

    fn from_str(text: &str) -> Result<Self, PeerAddrError> {
        let (id, place) = match text.split_once('@') {
            Some((id, place)) => (Some(id.parse().map_err(|_| PeerAddrError::Id)?), place),
            None => (None, text),
        };
        let (transport, url) = if let Some(path) = place.strip_prefix("unix:") {
            (Transport::Socket, format!("http+unix:{path}"))
        } else if let Some(place) = place.strip_prefix("quic://") {
            (Transport::Quic, format!("http://{place}"))
        } else {
            (Transport::Socket, format!("http://{place}"))
        };
        let endpoint = url.parse().map_err(PeerAddrError::Place)?;
        Ok(Self { id, transport, endpoint, place: place.to_owned() })
    }
}

impl fmt::Display for PeerAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.id {
            Some(id) => write!(f, "{id}@{}", self.place),
            None => f.write_str(&self.place),
        }
    }
}

impl TryFrom<String> for PeerAddr {
    type Error = PeerAddrError;

    fn try_from(text: String) -> Result<Self, PeerAddrError> {
        text.parse()
    }
}

impl From<PeerAddr> for String {
    fn from(peer: PeerAddr) -> Self {
        peer.to_string()
    }
}

impl JsonSchema for PeerAddr {
    fn schema_name() -> Cow<'static, str> {
        "PeerAddr".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "x-path": ["@unix:"],
            "description": "A node and where it is: its id, `@`, and a host and port, `quic://` and a host and port, or `unix:` and a path.",
            "examples": ["node-b.example:9500"],
        })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const ID: &str = "b3:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    #[test]
    fn a_peer_reads_as_it_is_written() {
        let quic = format!("{ID}@quic://node-b.example:9500");
        for text in
            [&format!("{ID}@node-b.example:9500"), &format!("{ID}@[::1]:9500"), "127.0.0.1:9500", &quic]
        {
            let peer: PeerAddr = text.parse().unwrap();
            assert_eq!(peer.to_string(), *text);
            assert_eq!(peer.transport == Transport::Quic, text.contains("quic"));
        }
        let unix: PeerAddr = format!("{ID}@unix:/run/o.sock").parse().unwrap();
        assert!(unix.is_local() && unix.id.is_some());
    }

    #[test]
    fn what_is_no_peer_is_refused() {
        assert_eq!("b3:xyz@host:1".parse::<PeerAddr>(), Err(PeerAddrError::Id));
        for text in [
            "",
            "@host:1",
            "host:0",
            "host:port",
            "http://host:1",
            "host:1/path",
            "quic:/x",
            "quic://",
            &format!("{ID}@"),
        ] {
            assert!(text.parse::<PeerAddr>().is_err(), "{text}");
        }
    }
}
