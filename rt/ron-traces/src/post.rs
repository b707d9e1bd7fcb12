//! One batch to the collector, and what it says to that.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{
    HeaderValue, StatusCode,
    header::{AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT},
};
use http_body_util::{BodyExt, Limited};
use ron_kernel::Scope;
use ron_transport::{
    Request,
    addr::{HttpUrl, Scheme},
    client::{self, Once, OpenError, Protocol, SendFault},
    resolve::Resolver,
    tls::{ClientTls, ClientTlsConfig, Roots},
};
use serde::Deserialize;

use crate::{StartError, TracesConfig};

/// The longest answer that is read.
const MAX_ANSWER: usize = 64 * 1024;

/// The collector that spans are sent to.
#[derive(Debug)]
pub(crate) struct Collector {
    url: HttpUrl,
    tls: Option<ClientTls>,
    authorization: Option<HeaderValue>,
    resolver: Resolver,
    pub(crate) timeout: Duration,
}

/// Why a batch was not taken. Says nothing of what was sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PostError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("the collector broke off: {0}")]
    Send(#[from] SendFault),
    #[error("the collector answered {0}")]
    Status(StatusCode),
    #[error("the collector took too long")]
    Timeout,
}

impl PostError {
    /// Whether the same batch may be taken later; as OTLP has it.
    pub(crate) fn retryable(&self) -> bool {
        match self {
            Self::Open(OpenError::NoTls) => false,
            Self::Open(_) | Self::Send(_) | Self::Timeout => true,
            Self::Status(status) => matches!(status.as_u16(), 429 | 502..=504),
        }
    }
}

impl Collector {
    /// Makes the collector from the configuration.
    pub(crate) async fn load(scope: &Scope, config: &TracesConfig) -> Result<Self, StartError> {
        let url: HttpUrl = config.url.parse()?;
        let ca_path = config.ca_path.clone();
        let tls = match url.endpoint.scheme() {
            Scheme::Https => Some(
                scope
                    .blocking()
                    .run("load authorities", move || {
                        let roots = Roots::named_or_system(&ca_path).ok_or(StartError::NoRoots)?;
                        let alpn = Protocol::Http1.alpn();
                        Ok::<_, StartError>(ClientTls::load(&ClientTlsConfig {
                            alpn,
                            ..ClientTlsConfig::new(roots)
                        })?)
                    })
                    .await??,
            ),
            Scheme::Http => None,
        };
        let secret = config.authorization.as_ref().and_then(|secret| secret.expose().parse().ok());
        let authorization = secret.map(|mut value: HeaderValue| {
            value.set_sensitive(true);
            value
        });
        let (resolver, timeout) = (Resolver::new(scope), config.timeout.as_duration());
        Ok(Self { url, tls, authorization, resolver, timeout })
    }

    /// Hands over a batch; returns how many of its spans the collector refuses.
    ///
    /// Cancel safe: dropping the future closes the connection; the collector may have the batch all the same.
    pub(crate) async fn post(&self, batch: Bytes) -> Result<u64, PostError> {
        let conn = client::open(&self.url.endpoint, &self.resolver, self.tls.as_ref(), self.timeout).await?;
        let mut request = http::Request::post(self.url.path.clone())
            .header(HOST, self.url.endpoint.authority())
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, concat!("omnigate/", env!("CARGO_PKG_VERSION")));
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        let mut request: Request =
            request.body(batch.into()).expect("an endpoint's authority is a header value");
        let response = conn.send(&mut request, Arc::new(Once)).await?;
        if !response.status().is_success() {
            return Err(PostError::Status(response.status()));
        }
        // What it took it has taken, whatever becomes of the answer.
        let answer = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
        Ok(answer.map_or(0, |answer| refused(&answer.to_bytes())))
    }
}

/// What a collector says of spans that it does not want.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    partial_success: Option<PartialSuccess>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PartialSuccess {
    #[serde(default)]
    rejected_spans: Count,
}

/// 64-bit numbers are text in OTLP's JSON, and numbers with some who write it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Count {
    Number(u64),
    Text(String),
}

impl Default for Count {
    fn default() -> Self {
        Self::Number(0)
    }
}

fn refused(answer: &[u8]) -> u64 {
    let answer: Option<Answer> = serde_json::from_slice(answer).ok();
    match answer.and_then(|answer| answer.partial_success).map(|partial| partial.rejected_spans) {
        Some(Count::Number(count)) => count,
        Some(Count::Text(count)) => count.parse().unwrap_or(0),
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_that_are_refused_are_counted_as_collectors_write_it() {
        for (answer, count) in [
            ("", 0),
            ("{}", 0),
            (r#"{"partialSuccess":{}}"#, 0),
            (r#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"x"}}"#, 3),
            (r#"{"partialSuccess":{"rejectedSpans":4}}"#, 4),
        ] {
            assert_eq!(refused(answer.as_bytes()), count, "{answer}");
        }
    }
}
