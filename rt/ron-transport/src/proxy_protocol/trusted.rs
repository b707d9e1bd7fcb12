//! Whose word about the client's address is taken.

use std::{borrow::Cow, fmt, net::IpAddr, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::stream::Peer;

/// A network in CIDR notation; a bare address is a network of one. IPv4-mapped networks are kept as IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cidr {
    network: IpAddr,
    prefix: u8,
}

/// One entry of [`TrustedSources`]: a network, or `unix` for all clients of a Unix socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum TrustedSource {
    /// All addresses of a network.
    Network(Cidr),
    /// All peers over Unix sockets.
    Unix,
}

/// The peers that are believed when they say who their client is. Empty by default: nobody.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct TrustedSources(Vec<TrustedSource>);

/// Why a text is not a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CidrError {
    /// The part before the slash is no address.
    #[error("`{0}` is not an IP address: write one such as 10.0.0.0/8, 192.0.2.7, ::1 or the word unix")]
    Address(String),
    /// The part after the slash is no prefix length.
    #[error("`{prefix}` is not a prefix length: write a number from 0 to {max}")]
    Prefix {
        /// The part after the slash.
        prefix: String,
        /// The longest for the address's family.
        max: u8,
    },
    /// Bits behind the prefix are set, so either the address or the prefix is a slip.
    #[error("`{text}` has bits set behind its prefix: write {meant} for the network or the address alone")]
    HostBits {
        /// The text as given.
        text: String,
        /// The network the address is in.
        meant: Cidr,
    },
}

impl TrustedSources {
    /// Trusts these and nobody else.
    #[must_use]
    pub fn new(sources: Vec<TrustedSource>) -> Self {
        Self(sources)
    }

    /// Returns true if no peer is trusted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a connection from this peer may carry a PROXY header.
    #[must_use]
    pub fn trusts(&self, peer: &Peer) -> bool {
        match peer.addr {
            Some(addr) => self.contains(addr.ip()),
            None => peer.unix && self.0.contains(&TrustedSource::Unix),
        }
    }

    /// Whether an address is in one of the networks.
    #[must_use]
    pub fn contains(&self, ip: IpAddr) -> bool {
        self.0.iter().any(|source| matches!(source, TrustedSource::Network(network) if network.contains(ip)))
    }
}

impl Cidr {
    /// Whether the address, unmapped if it is IPv4-mapped, is in the network.
    #[must_use]
    pub fn contains(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        ip.is_ipv4() == self.network.is_ipv4() && masked(ip, self.prefix) == self.network
    }
}

/// The address with all bits behind the prefix cleared.
fn masked(ip: IpAddr, prefix: u8) -> IpAddr {
    let prefix = u32::from(prefix);
    match ip {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32_u32.saturating_sub(prefix)).unwrap_or(0);
            IpAddr::V4((ip.to_bits() & mask).into())
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(prefix)).unwrap_or(0);
            IpAddr::V6((ip.to_bits() & mask).into())
        }
    }
}

fn longest_prefix(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 32 } else { 128 }
}

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(a, p)| (a, Some(p)));
        let ip: IpAddr = address.parse().map_err(|_| CidrError::Address(address.to_owned()))?;
        let max = longest_prefix(ip);
        let prefix = match prefix {
            None => max,
            Some(digits) => Some(digits)
                .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
                .and_then(|digits| digits.parse().ok())
                .filter(|prefix| *prefix <= max)
                .ok_or_else(|| CidrError::Prefix { prefix: digits.to_owned(), max })?,
        };
        let network = masked(ip, prefix);
        if network != ip {
            let meant = Self { network, prefix };
            return Err(CidrError::HostBits { text: text.to_owned(), meant });
        }
        // A mapped network's first 96 bits say no more than that it is IPv4.
        match ip.to_canonical() {
            IpAddr::V4(v4) if ip.is_ipv6() && prefix >= 96 => {
                Ok(Self { network: v4.into(), prefix: prefix - 96 })
            }
            _ => Ok(Self { network, prefix }),
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix)
    }
}

impl FromStr for TrustedSource {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "unix" { Ok(Self::Unix) } else { text.parse().map(Self::Network) }
    }
}

impl fmt::Display for TrustedSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(network) => network.fmt(f),
            Self::Unix => f.write_str("unix"),
        }
    }
}

impl TryFrom<String> for TrustedSource {
    type Error = CidrError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<TrustedSource> for String {
    fn from(source: TrustedSource) -> Self {
        source.to_string()
    }
}

impl JsonSchema for TrustedSource {
    fn schema_name() -> Cow<'static, str> {
        "TrustedSource".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A network in CIDR notation, an IP address, or `unix` for peers over Unix sockets.",
            "examples": ["10.0.0.0/8", "::1", "unix"],
        })
    }
}
