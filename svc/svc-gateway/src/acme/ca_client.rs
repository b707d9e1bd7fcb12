//! The HTTP of the ACME library, through this node's own client: bounded in time and size.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, UNIX_EPOCH},
};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Request, StatusCode,
    header::{HOST, RETRY_AFTER},
};
use http_body_util::{BodyExt, Limited};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use ron_kernel::Clock;
use ron_transport::{
    Body,
    addr::{HttpUrl, HttpUrlError},
    client::{self, Once, OpenError, SendFault},
    resolve::Resolver,
    tls::ClientTls,
};

/// The largest answer that is read; a chain of certificates has some 5 KiB.
const MAX_ANSWER: usize = 256 * 1024;
/// The longest wait that a CA is heard with, in seconds. The ACME library adds it to the time of day, which has an end.
const MAX_WAIT: u64 = 30 * 24 * 3600;
/// How long one request may take, from the dialling to the last byte of the answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Why a CA could not be asked, or its answer not be understood.
#[derive(Debug, thiserror::Error)]
pub(super) enum CaError {
    /// The CA named a URL that cannot be asked.
    #[error("the CA gives a URL that cannot be used: {0}")]
    Url(#[from] HttpUrlError),
    /// The CA named a URL without TLS.
    #[error("the CA gives a URL without TLS")]
    Exposed,
    /// The CA cannot be reached.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The connection broke off.
    #[error("the CA's server failed: {0}")]
    Send(String),
    /// The answer is too large, or ended early.
    #[error("the CA's answer cannot be read: {0}")]
    Body(Box<dyn std::error::Error + Send + Sync>),
    /// The CA did not answer in time.
    #[error("the CA did not answer within {REQUEST_TIMEOUT:?}")]
    Timeout,
    /// An error that is no problem document, such as that of a proxy.
    #[error("the CA's server answered {0}")]
    Status(StatusCode),
}

/// Asks a CA. Clones share what they heard of waiting.
#[derive(Clone, Debug)]
pub(super) struct CaClient {
    clock: Clock,
    resolver: Resolver,
    tls: Option<ClientTls>,
    /// Seconds that the last refusal asked to wait; 0 for none.
    retry_after: Arc<AtomicU64>,
}

impl From<SendFault> for CaError {
    /// Without the request, which cannot be sent to another thread.
    fn from(fault: SendFault) -> Self {
        Self::Send(fault.to_string())
    }
}

impl CaClient {
    pub(super) fn new(clock: Clock, resolver: &Resolver, tls: Option<ClientTls>) -> Self {
        Self { clock, resolver: resolver.clone(), tls, retry_after: Arc::default() }
    }

    /// How long the last refusal asked to wait, once.
    pub(super) fn take_retry_after(&self) -> Option<Duration> {
        let seconds = self.retry_after.swap(0, Ordering::Relaxed);
        (seconds > 0).then(|| Duration::from_secs(seconds))
    }

    async fn exchange(&self, request: Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, CaError> {
        let (mut parts, body) = request.into_parts();
        let url: HttpUrl = parts.uri.to_string().parse()?;
        if url.is_exposed() {
            return Err(CaError::Exposed);
        }
        // As the URL has it: the CA compares the host, and whether there is a port, with the URL that was signed.
        let host = parts.uri.authority().and_then(|authority| authority.as_str().parse().ok());
        parts.headers.insert(HOST, host.ok_or(HttpUrlError::Form)?);
        parts.uri = url.path.clone().into();
        let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let mut request = Request::from_parts(parts, Body::from(body));
        let conn = client::open(&url.endpoint, &self.resolver, self.tls.as_ref(), REQUEST_TIMEOUT).await?;
        let (mut parts, body) = conn.send(&mut request, Arc::new(Once)).await?.into_parts();
        bound_wait(&mut parts.headers);
        let answer = Limited::new(body, MAX_ANSWER).collect().await.map_err(CaError::Body)?.to_bytes();
        if !parts.status.is_success() {
            let wait = wait_of(&parts.headers, self.clock.wall());
            self.retry_after.store(wait, Ordering::Relaxed);
            if !answer.trim_ascii_start().starts_with(b"{") {
                return Err(CaError::Status(parts.status));
            }
        }
        Ok(BytesResponse { parts, body: Box::new(answer) })
    }
}

impl HttpClient for CaClient {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let client = self.clone();
        Box::pin(async move {
            let limit = client.clock.within(REQUEST_TIMEOUT);
            let answer = client.clock.by(limit, client.exchange(request)).await;
            answer.unwrap_or(Err(CaError::Timeout)).map_err(|error| Error::Other(Box::new(error)))
        })
    }
}

/// Has a CA that wants to be left alone for longer than [`MAX_WAIT`] say that instead.
fn bound_wait(headers: &mut HeaderMap) {
    let wanted = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse::<u64>().ok());
    if wanted.is_some_and(|seconds| seconds > MAX_WAIT) {
        headers.insert(RETRY_AFTER, HeaderValue::from(MAX_WAIT));
    }
}

/// Seconds to wait, as a number or a date says; 0 for none.
fn wait_of(headers: &HeaderMap, now: Duration) -> u64 {
    let value = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()).unwrap_or_default().trim();
    let until = |date: std::time::SystemTime| date.duration_since(UNIX_EPOCH).unwrap_or_default();
    value.parse().unwrap_or_else(|_| {
        httpdate::parse_http_date(value).map_or(0, |date| until(date).saturating_sub(now).as_secs())
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_ca_says_how_long_to_wait_in_seconds_or_by_a_date() {
        let now = Duration::from_secs(784_111_777);
        for (value, seconds) in [
            ("120", 120),
            ("Sun, 06 Nov 1994 08:50:37 GMT", 60),
            ("Sun, 06 Nov 1994 08:00:00 GMT", 0),
            ("soon", 0),
            ("-5", 0),
        ] {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, value.parse().unwrap())]);
            assert_eq!(wait_of(&headers, now), seconds, "{value}");
        }
        assert_eq!(wait_of(&HeaderMap::new(), now), 0);
    }

    #[test]
    fn a_wait_that_the_clock_cannot_hold_is_shortened() {
        let longest = MAX_WAIT.to_string();
        for (value, expected) in [
            ("5", "5"),
            (longest.as_str(), longest.as_str()),
            ("18446744073709551615", longest.as_str()),
            ("99999999999999999999", "99999999999999999999"),
            ("soon", "soon"),
        ] {
            let mut headers = HeaderMap::from_iter([(RETRY_AFTER, value.parse().unwrap())]);
            bound_wait(&mut headers);
            assert_eq!(headers[RETRY_AFTER], expected, "a number that is none is no wait");
        }
    }
}
