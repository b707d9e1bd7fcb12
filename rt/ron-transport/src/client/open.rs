//! A connection of its own for a request that comes seldom: a key set, a batch of spans.

use std::time::Duration;

use super::{Home, HttpConn};
use crate::{
    addr::{Endpoint, Host, Scheme, Target},
    dial::{DialError, dial},
    resolve::Resolver,
    tls::{ClientTls, HandshakeError},
};

/// Why a server cannot be spoken to.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The server cannot be reached.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// It did not prove to be who it should be.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// It wants TLS, and nobody said whom to trust.
    #[error("the server's certificate cannot be verified without a list of CA certificates")]
    NoTls,
}

/// Connects to a server and speaks HTTP/1.1 to it; dialling and the handshake may take `limit` each.
///
/// Cancel safe: dropping the future closes the connection.
///
/// # Errors
/// [`OpenError`].
pub async fn open(
    endpoint: &Endpoint,
    resolver: &Resolver,
    tls: Option<&ClientTls>,
    limit: Duration,
) -> Result<HttpConn, OpenError> {
    let stream = dial(endpoint, resolver, limit).await?;
    if endpoint.scheme() == Scheme::Http {
        return Ok(HttpConn::open(stream));
    }
    let tls = tls.ok_or(OpenError::NoTls)?;
    let stream = tls.connect(stream, &server_name(endpoint), limit).await?;
    Ok(HttpConn::open_tls(stream))
}

/// Whom the server's certificate has to be for.
fn server_name(endpoint: &Endpoint) -> String {
    match endpoint.target() {
        Target::Tcp { host: Host::Ip(ip), .. } => ip.to_string(),
        Target::Tcp { host: Host::Name(name), .. } => name.clone(),
        Target::Unix(_) => "localhost".to_owned(),
    }
}

/// The home of connections that are used once.
#[derive(Clone, Copy, Debug)]
pub struct Once;

impl Home for Once {
    fn put_back(&self, _: HttpConn) {}
}
