//! A connection for one request, which moves while it is waited for.

use std::{future::Future, pin::Pin, sync::Arc};

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::Full;
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

use crate::Error;

trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// Moves bytes while it is polled; ends with its connection.
type Driver = Pin<Box<dyn Future<Output = Result<(), hyper::Error>> + Send>>;

/// The connection of one request.
pub(crate) struct Connection {
    driver: Option<Driver>,
}

impl Connection {
    /// Sends a request, and waits for the head of its answer.
    pub(crate) async fn send(
        node: &Uri,
        tls: Option<&Arc<ClientConfig>>,
        request: Request<Full<Bytes>>,
    ) -> Result<(Self, Response<Incoming>), Error> {
        let stream = connect(node, tls).await?;
        let (mut sender, driver) = http1::handshake(TokioIo::new(stream)).await.map_err(Error::connection)?;
        let mut connection = Self { driver: Some(Box::pin(driver)) };
        let answer = connection.drive(sender.send_request(request)).await.map_err(Error::connection)?;
        Ok((connection, answer))
    }

    /// Waits for something that comes over the connection.
    ///
    /// Cancel safe if `work` is.
    pub(crate) async fn drive<F: Future>(&mut self, work: F) -> F::Output {
        let mut work = std::pin::pin!(work);
        if let Some(driver) = &mut self.driver {
            tokio::select! {
                biased;
                done = &mut work => return done,
                // What was read before the end is still to be had.
                _ = driver => {}
            }
            self.driver = None;
        }
        work.await
    }
}

async fn connect(node: &Uri, tls: Option<&Arc<ClientConfig>>) -> Result<Box<dyn Duplex>, Error> {
    let host = node.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let is_tls = node.scheme_str() == Some("https");
    let port = node.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    #[expect(
        clippy::disallowed_methods,
        reason = "a library for other programs, which have no kernel of ours"
    )]
    let stream = TcpStream::connect((host, port)).await.map_err(Error::connection)?;
    stream.set_nodelay(true).map_err(Error::connection)?;
    if !is_tls {
        return Ok(Box::new(stream));
    }
    let config = tls.ok_or_else(|| Error::Address("https needs `with_tls`".to_owned()))?;
    let name = ServerName::try_from(host.to_owned()).map_err(Error::connection)?;
    let stream = TlsConnector::from(Arc::clone(config)).connect(name, stream).await;
    Ok(Box::new(stream.map_err(Error::connection)?))
}
