//! Connecting through a SOCKS5 proxy (RFC 1928), such as the one of Tor. Names are resolved by the proxy, never here.

use std::{borrow::Cow, fmt, io, net::IpAddr, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::addr::{Endpoint, EndpointError, Host, Target};

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;
/// The longest name that fits a request.
const NAME_MAX: usize = 255;

/// A proxy, as it is written: `socks5://127.0.0.1:9050`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Socks5Proxy(Endpoint);

/// The text names no proxy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Socks5ProxyError {
    /// Another scheme, or none.
    #[error("write socks5://host:port")]
    Scheme,
    /// What follows the scheme is no host and port.
    #[error("write socks5://host:port: {0}")]
    Place(EndpointError),
}

impl Socks5Proxy {
    /// Returns the address of the proxy.
    #[must_use]
    pub const fn endpoint(&self) -> &Endpoint {
        &self.0
    }
}

impl FromStr for Socks5Proxy {
    type Err = Socks5ProxyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let place = text.strip_prefix("socks5://").ok_or(Socks5ProxyError::Scheme)?;
        let endpoint = format!("http://{place}").parse().map_err(Socks5ProxyError::Place)?;
        Ok(Self(endpoint))
    }
}

impl fmt::Display for Socks5Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.target() {
            Target::Tcp { host, port } => write!(f, "socks5://{host}:{port}"),
            Target::Unix(path) => write!(f, "socks5+unix:{}", path.display()),
        }
    }
}

impl TryFrom<String> for Socks5Proxy {
    type Error = Socks5ProxyError;

    fn try_from(text: String) -> Result<Self, Socks5ProxyError> {
        text.parse()
    }
}

impl From<Socks5Proxy> for String {
    fn from(proxy: Socks5Proxy) -> Self {
        proxy.to_string()
    }
}

impl JsonSchema for Socks5Proxy {
    fn schema_name() -> Cow<'static, str> {
        "Socks5Proxy".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A SOCKS5 proxy: `socks5://`, a host and a port.",
            "examples": ["socks5://127.0.0.1:9050"],
        })
    }
}

/// Why a proxy made no connection.
#[derive(Debug, thiserror::Error)]
pub enum Socks5Error {
    /// The connection to the proxy failed.
    #[error("the connection to the proxy failed: {0}")]
    Io(#[from] io::Error),
    /// The answer is not valid SOCKS5 (RFC 1928).
    #[error("the proxy does not speak SOCKS5")]
    Malformed,
    /// It asks for credentials, and there are none to show.
    #[error("the proxy asks for credentials, which are not supported")]
    Credentials,
    /// The name does not fit a request.
    #[error("a name of {0} bytes is too long for a proxy, which accepts {NAME_MAX}")]
    LongName(usize),
    /// It said why there is no connection.
    #[error("the proxy says: {}", reason(*.0))]
    Refused(u8),
}

/// What a reply of the proxy means.
const fn reason(code: u8) -> &'static str {
    match code {
        1 => "general failure",
        2 => "not allowed by its rules",
        3 => "network unreachable",
        4 => "host unreachable, or the name is unknown",
        5 => "connection refused",
        6 => "the time to live expired",
        7 => "command not supported",
        8 => "address type not supported",
        _ => "an unknown reason",
    }
}

/// Asks the proxy at the other end of `stream` for a connection; what is read and written afterwards is the far end's.
///
/// Not cancel safe: dropped half-way, the stream is of no use.
///
/// # Errors
/// [`Socks5Error`].
pub async fn connect<S>(stream: &mut S, host: &Host, port: u16) -> Result<(), Socks5Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let request = request(host, port)?;
    stream.write_all(&[VERSION, 1, NO_AUTHENTICATION]).await?;
    stream.flush().await?;
    let mut chosen = [0; 2];
    stream.read_exact(&mut chosen).await?;
    match chosen {
        [VERSION, NO_AUTHENTICATION] => {}
        [VERSION, _] => return Err(Socks5Error::Credentials),
        _ => return Err(Socks5Error::Malformed),
    }
    stream.write_all(&request).await?;
    stream.flush().await?;
    let mut head = [0; 4];
    stream.read_exact(&mut head).await?;
    let kind = match head {
        [VERSION, 0, 0, kind] => kind,
        [VERSION, 0, ..] => return Err(Socks5Error::Malformed),
        [VERSION, code, ..] => return Err(Socks5Error::Refused(code)),
        _ => return Err(Socks5Error::Malformed),
    };
    skip_address(stream, kind).await
}

/// The address from which the proxy connected, and its port: of no interest, and in front of what is.
async fn skip_address<S: AsyncRead + Unpin>(stream: &mut S, kind: u8) -> Result<(), Socks5Error> {
    let length = match kind {
        IPV4 => 4,
        IPV6 => 16,
        NAME => usize::from(stream.read_u8().await?),
        _ => return Err(Socks5Error::Malformed),
    };
    let mut address = [0; NAME_MAX + 2];
    stream.read_exact(&mut address[..length + 2]).await?;
    Ok(())
}

fn request(host: &Host, port: u16) -> Result<Vec<u8>, Socks5Error> {
    let mut request = vec![VERSION, CONNECT, 0];
    match host {
        Host::Ip(IpAddr::V4(ip)) => {
            request.push(IPV4);
            request.extend(ip.octets());
        }
        Host::Ip(IpAddr::V6(ip)) => {
            request.push(IPV6);
            request.extend(ip.octets());
        }
        Host::Name(name) => {
            let length = u8::try_from(name.len()).map_err(|_| Socks5Error::LongName(name.len()))?;
            request.extend([NAME, length]);
            request.extend(name.as_bytes());
        }
    }
    request.extend(port.to_be_bytes());
    Ok(request)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use tokio::io::duplex;

    use super::*;

    /// What a proxy that says exactly this is asked, and what comes of it.
    async fn ask(host: &str, said: &[u8]) -> (Vec<u8>, Result<(), Socks5Error>) {
        let (mut here, mut there) = duplex(1024);
        there.write_all(said).await.unwrap();
        there.shutdown().await.unwrap();
        let outcome = connect(&mut here, &host.parse().unwrap(), 9500).await;
        drop(here);
        let mut asked = Vec::new();
        there.read_to_end(&mut asked).await.unwrap();
        (asked, outcome)
    }

    const YES: &[u8] = &[5, 0, 5, 0, 0, 1, 127, 0, 0, 1, 0, 80];

    #[tokio::test]
    async fn a_name_is_sent_as_it_is_and_an_address_as_an_address() {
        let (asked, outcome) = ask("abc.onion", YES).await;
        outcome.unwrap();
        let name = [&[5, 1, 0, 5, 1, 0, 3, 9], b"abc.onion".as_slice(), &9500u16.to_be_bytes()].concat();
        assert_eq!(asked, name);
        let (asked, _) = ask("192.0.2.7", YES).await;
        assert_eq!(asked[3..], [5, 1, 0, 1, 192, 0, 2, 7, 37, 28]);
        let (asked, _) = ask("[::1]", YES).await;
        assert_eq!(asked[3..7], [5, 1, 0, 4]);
        assert_eq!(asked.len(), 3 + 4 + 16 + 2);
    }

    #[tokio::test]
    async fn what_follows_the_answer_is_left_to_the_reader() {
        for address in
            [&[1, 9, 9, 9, 9][..], &[3, 2, b'a', b'b'], &[4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]]
        {
            let (mut here, mut there) = duplex(1024);
            there.write_all(&[&[5, 0, 5, 0, 0], address, &[0, 80], b"HELLO"].concat()).await.unwrap();
            there.shutdown().await.unwrap();
            connect(&mut here, &"a.example".parse().unwrap(), 1).await.unwrap();
            let mut rest = Vec::new();
            here.read_to_end(&mut rest).await.unwrap();
            assert_eq!(rest, b"HELLO");
        }
    }

    #[tokio::test]
    async fn every_refusal_is_told_apart_and_every_cut_answer_is_an_error() {
        assert!(matches!(ask("a.example", &[5, 0xff]).await.1, Err(Socks5Error::Credentials)));
        assert!(matches!(ask("a.example", &[5, 2]).await.1, Err(Socks5Error::Credentials)));
        assert!(matches!(ask("a.example", b"HTTP/1.1").await.1, Err(Socks5Error::Malformed)));
        assert!(matches!(ask("a.example", &[5, 0, 5, 0, 0, 2, 0, 0]).await.1, Err(Socks5Error::Malformed)));
        for code in 1..=9 {
            let (_, outcome) = ask("a.example", &[5, 0, 5, code, 0, 1, 0, 0, 0, 0, 0, 0]).await;
            assert!(matches!(outcome, Err(Socks5Error::Refused(said)) if said == code), "{outcome:?}");
        }
        for length in 0..YES.len() {
            let (_, outcome) = ask("a.example", &YES[..length]).await;
            assert!(matches!(outcome, Err(Socks5Error::Io(_))), "{length}: {outcome:?}");
        }
    }

    #[test]
    fn a_proxy_reads_as_it_is_written() {
        for text in ["socks5://127.0.0.1:9050", "socks5://[::1]:9050", "socks5://proxy.example:1080"] {
            assert_eq!(text.parse::<Socks5Proxy>().unwrap().to_string(), text);
        }
        for text in ["", "127.0.0.1:9050", "http://127.0.0.1:9050", "socks5://", "socks5://user:pw@host:1"] {
            assert!(text.parse::<Socks5Proxy>().is_err(), "{text}");
        }
    }
}
