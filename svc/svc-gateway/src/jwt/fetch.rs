//! Gets a key set from where it is published: bounded in time and in size, and typed in its failures.

use std::{path::Path, sync::Arc, time::Duration};

use http::{
    StatusCode,
    header::{ACCEPT, HOST, USER_AGENT},
};
use http_body_util::{BodyExt, Limited};
use ron_kernel::{
    Clock,
    blocking::{Blocking, BlockingError},
    files,
    retry::Retryable,
};
use ron_transport::{
    Body, Request,
    addr::HttpUrl,
    client::{self, Once, OpenError, SendFault},
    resolve::Resolver,
};

use super::{JwksSettings, JwksSource, KeyError, KeySet};

/// The largest key set read.
const MAX_BYTES: usize = 256 * 1024;

/// The reason why the keys could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The server cannot be spoken to.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The connection broke off.
    #[error("the server failed: {0}")]
    Send(#[from] SendFault),
    /// The issuer did not answer within this time.
    #[error("the key set did not arrive within {0:?}")]
    Timeout(Duration),
    /// It has something else to say.
    #[error("the server answered {0}")]
    Status(StatusCode),
    /// The document is too large, or ended early.
    #[error("the key set cannot be read: {0}")]
    Body(Box<dyn std::error::Error + Send + Sync>),
    /// The file cannot be read.
    #[error("the file cannot be read: {0}")]
    File(std::io::Error),
    /// The pool that reads files is not available.
    #[error(transparent)]
    Blocking(#[from] BlockingError),
    /// The document is no key set.
    #[error(transparent)]
    Keys(#[from] KeyError),
}

impl Retryable for FetchError {
    fn retryable(&self) -> bool {
        match self {
            Self::Open(OpenError::Dial(error)) => error.retryable(),
            Self::Open(OpenError::Handshake(_))
            | Self::Send(_)
            | Self::Timeout(_)
            | Self::Body(_)
            | Self::Blocking(_) => true,
            Self::Status(status) => status.is_server_error() || *status == StatusCode::TOO_MANY_REQUESTS,
            Self::Open(OpenError::NoTls) | Self::File(_) | Self::Keys(_) => false,
        }
    }
}

/// The state that a fetch needs.
#[derive(Clone, Debug)]
pub(super) struct Fetcher {
    pub(super) clock: Clock,
    pub(super) resolver: Resolver,
    pub(super) blocking: Blocking,
}

impl Fetcher {
    /// Gets the key set within the timeout.
    ///
    /// Cancel safe: dropping the future closes the connection.
    pub(super) async fn fetch(&self, settings: &JwksSettings) -> Result<KeySet, FetchError> {
        let document = match &settings.source {
            JwksSource::File(path) => {
                let path = path.clone();
                self.blocking
                    .run("read key set", move || read_file(&path))
                    .await?
                    .map_err(FetchError::File)?
            }
            JwksSource::Http(url) => {
                let exchange = self.get(url, settings);
                let answer = self.clock.by(self.clock.within(settings.timeout), exchange).await;
                answer.unwrap_or(Err(FetchError::Timeout(settings.timeout)))?
            }
        };
        Ok(KeySet::parse(&document)?)
    }

    async fn get(&self, url: &HttpUrl, settings: &JwksSettings) -> Result<Vec<u8>, FetchError> {
        let conn =
            client::open(&url.endpoint, &self.resolver, settings.tls.as_ref(), settings.timeout).await?;
        let request = http::Request::get(url.path.clone())
            .header(HOST, url.endpoint.authority())
            .header(ACCEPT, "application/jwk-set+json, application/json")
            .header(USER_AGENT, "omnigate");
        let mut request: Request =
            request.body(Body::empty()).expect("an endpoint's authority is a header value");
        let response = conn.send(&mut request, Arc::new(Once)).await?;
        if response.status() != StatusCode::OK {
            return Err(FetchError::Status(response.status()));
        }
        let body = Limited::new(response.into_body(), MAX_BYTES).collect().await.map_err(FetchError::Body)?;
        Ok(body.to_bytes().into())
    }
}

/// Reads the file; this call blocks.
fn read_file(path: &Path) -> std::io::Result<Vec<u8>> {
    let document = files::read_regular(path, MAX_BYTES as u64)?;
    if document.len() > MAX_BYTES {
        return Err(std::io::Error::other(format!("it is longer than {MAX_BYTES} bytes")));
    }
    Ok(document)
}
