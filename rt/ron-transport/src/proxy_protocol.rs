//! The PROXY protocol, versions 1 and 2: how a load balancer tells who the client is.
//!
//! [`parse`] is pure and incremental, [`read_header`] feeds it from a stream, [`encode_v1`] and [`encode_v2`] write
//! headers for upstreams. A header is only to be believed from [`TrustedSources`].

mod read;
mod trusted;
mod v1;
mod v2;

pub use read::read_header;
pub use trusted::{Cidr, CidrError, TrustedSource, TrustedSources};
pub use v1::encode as encode_v1;
pub use v2::{EncodeError, encode as encode_v2};

use std::{
    io,
    net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6},
};

/// Longest version 1 header in bytes, line end included.
pub const V1_MAX: usize = 107;
/// Longest version 2 block of addresses and TLVs accepted, in bytes; the format would allow 65,535.
pub const V2_BLOCK_MAX: usize = 4096;

/// The length of `PROXY UNKNOWN` and its line end.
const SHORTEST: usize = 15;

/// A decoded PROXY protocol header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The version it was written in.
    pub version: Version,
    /// The client that the connection is for.
    pub origin: Origin,
    /// Further facts; version 2 with known addresses only.
    pub tlvs: Vec<Tlv>,
}

/// The version of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// A line of text.
    V1,
    /// The binary format, version 2.
    V2,
}

/// Whom a proxied connection is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The proxy itself, e.g. its health check: the connection's own addresses hold.
    Local,
    /// The proxy does not tell: the connection's own addresses hold.
    Unknown,
    /// A client over TCP and IPv4.
    Tcp4 {
        /// The address of the client.
        source: SocketAddrV4,
        /// The address it connected to.
        destination: SocketAddrV4,
    },
    /// A client over TCP and IPv6.
    Tcp6 {
        /// The address of the client.
        source: SocketAddrV6,
        /// The address it connected to.
        destination: SocketAddrV6,
    },
    /// A client over a Unix socket; the names are at most 108 bytes and end in no NUL.
    Unix {
        /// The client's socket name, often empty.
        source: Vec<u8>,
        /// The name of the socket it connected to.
        destination: Vec<u8>,
    },
}

/// One type-length-value entry of a version 2 header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tlv {
    /// What it tells; see the constants.
    pub kind: u8,
    /// The bytes of the value.
    pub value: Vec<u8>,
}

impl Tlv {
    /// The application protocol negotiated with the client.
    pub const ALPN: u8 = 0x01;
    /// The host name the client asked for.
    pub const AUTHORITY: u8 = 0x02;
    /// A checksum of the header; verified on receipt, filled in by [`encode_v2`].
    pub const CRC32C: u8 = 0x03;
    /// An id of the connection.
    pub const UNIQUE_ID: u8 = 0x05;
}

/// The result of [`parse`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// So far a header, not yet complete.
    NeedMore {
        /// Bytes still missing, at least; never 0.
        at_least: usize,
    },
    /// The header is complete.
    Done {
        /// Its length; what follows belongs to the connection.
        consumed: usize,
        /// The decoded header.
        header: Header,
    },
}

/// Why a connection has no usable header.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    /// The bytes are not a PROXY header.
    #[error("the connection does not begin with a PROXY header")]
    NotProxy,
    /// A version 1 line does not end in time, or a version 2 block is larger than [`V2_BLOCK_MAX`].
    #[error("the PROXY header is longer than the {limit} bytes accepted")]
    TooLong {
        /// The limit that was met.
        limit: usize,
    },
    /// Bytes that the format forbids.
    #[error("the PROXY header is malformed: {0}")]
    Malformed(&'static str),
    /// A version 2 header of another version, command, family or transport.
    #[error("the PROXY header's {what} {byte:#04x} is not supported")]
    Unsupported {
        /// The name of the invalid field.
        what: &'static str,
        /// The invalid byte.
        byte: u8,
    },
    /// The header's checksum does not match.
    #[error("the PROXY header's checksum does not match")]
    Checksum,
    /// The header did not arrive in time.
    #[error("the PROXY header did not arrive in time")]
    Timeout,
    /// The peer closed before the header was complete; with 0 bytes received, most likely a port probe.
    #[error("the peer closed after {received} bytes, before its PROXY header was complete")]
    Closed {
        /// Number of bytes received.
        received: usize,
    },
    /// Reading from the connection failed.
    #[error("reading the PROXY header failed: {0}")]
    Io(io::ErrorKind),
}

/// Parses the beginning of a connection. Input that may still become a header yields [`Parsed::NeedMore`]; a header
/// within the limits is complete after at most 16 + [`V2_BLOCK_MAX`] bytes.
///
/// # Errors
/// [`ProxyError`], as soon as the bytes cannot become a header any more.
pub fn parse(input: &[u8]) -> Result<Parsed, ProxyError> {
    if input.is_empty() {
        Ok(Parsed::NeedMore { at_least: SHORTEST })
    } else if agree(input, v2::SIGNATURE) {
        v2::parse(input)
    } else if agree(input, v1::SIGNATURE) {
        v1::parse(input)
    } else {
        Err(ProxyError::NotProxy)
    }
}

/// Whether one is the beginning of the other.
fn agree(input: &[u8], signature: &[u8]) -> bool {
    input.iter().zip(signature).all(|(a, b)| a == b)
}

impl Header {
    /// The client's address, if the header tells one.
    #[must_use]
    pub fn client(&self) -> Option<SocketAddr> {
        match self.origin {
            Origin::Tcp4 { source, .. } => Some(source.into()),
            Origin::Tcp6 { source, .. } => Some(source.into()),
            Origin::Local | Origin::Unknown | Origin::Unix { .. } => None,
        }
    }

    /// The value of the first entry of a kind.
    #[must_use]
    pub fn tlv(&self, kind: u8) -> Option<&[u8]> {
        self.tlvs.iter().find(|tlv| tlv.kind == kind).map(|tlv| tlv.value.as_slice())
    }
}

impl Origin {
    /// A client over TCP. Of a mixed pair the IPv4 address is written in its IPv6-mapped form.
    #[must_use]
    pub fn tcp(source: SocketAddr, destination: SocketAddr) -> Self {
        match (source, destination) {
            (SocketAddr::V4(source), SocketAddr::V4(destination)) => Self::Tcp4 { source, destination },
            _ => Self::Tcp6 { source: to_v6(source), destination: to_v6(destination) },
        }
    }
}

/// Flow and scope are dropped: the header cannot carry them.
fn to_v6(addr: SocketAddr) -> SocketAddrV6 {
    let ip = match addr.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    SocketAddrV6::new(ip, addr.port(), 0, 0)
}
