//! The topics of a node.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Response, Uri, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use rustls::ClientConfig;

use crate::{Error, Published, Subscription, connection::Connection};

/// The topics of a node, as one token sees them.
#[derive(Clone)]
pub struct Topics {
    node: Uri,
    token: Option<HeaderValue>,
    tls: Option<Arc<ClientConfig>>,
}

impl Topics {
    /// The topics of the node at an address: `http://127.0.0.1:9510`, or `https://` with [`with_tls`](Self::with_tls).
    ///
    /// # Errors
    /// [`Error::Address`].
    pub fn new(node: &str) -> Result<Self, Error> {
        let wrong = || Error::Address(node.to_owned());
        let uri: Uri = node.trim_end_matches('/').parse().map_err(|_| wrong())?;
        if uri.host().is_none() || !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(wrong());
        }
        Ok(Self { node: uri, token: None, tls: None })
    }

    /// The same, with a capability token.
    #[must_use]
    pub fn with_token(mut self, token: &str) -> Self {
        let value = HeaderValue::try_from(format!("Bearer {}", token.trim())).ok();
        self.token = value.map(|mut value| {
            value.set_sensitive(true);
            value
        });
        self
    }

    /// The same, over TLS with this configuration.
    #[must_use]
    pub fn with_tls(mut self, config: Arc<ClientConfig>) -> Self {
        self.tls = Some(config);
        self
    }

    /// Publishes, and tells what became of it.
    ///
    /// # Errors
    /// [`Error`]; what was refused was not published.
    pub async fn publish(&self, topic: &str, body: impl Into<Bytes>) -> Result<Published, Error> {
        let path = format!("/v1/topics/{}", encoded(topic));
        let (mut connection, answer) = self.ask(Method::POST, &path, None, body.into()).await?;
        let body = connection.drive(answer.into_body().collect()).await.map_err(Error::connection)?;
        Ok(serde_json::from_slice(&body.to_bytes())?)
    }

    /// What is published in these topics and patterns, from now on or behind the event with the id `after`.
    #[must_use]
    pub fn subscribe<'a>(
        &self,
        patterns: impl IntoIterator<Item = &'a str>,
        after: Option<&str>,
    ) -> Subscription {
        let mut patterns = patterns.into_iter().map(encoded);
        let mut path = format!("/v1/topics/{}/events", patterns.next().unwrap_or_default());
        for (at, pattern) in patterns.enumerate() {
            path.push_str(if at == 0 { "?topic=" } else { "&topic=" });
            path.push_str(&pattern);
        }
        Subscription::new(self.clone(), path, after.map(ToOwned::to_owned))
    }

    /// Asks for something, and waits for the head of a good answer.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        after: Option<&str>,
        body: Bytes,
    ) -> Result<(Connection, Response<Incoming>), Error> {
        let authority = self.node.authority().map(|authority| authority.as_str()).unwrap_or_default();
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, authority);
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, token.clone());
        }
        if let Some(after) = after {
            request = request.header(HeaderName::from_static("last-event-id"), after);
        }
        let request = request.body(Full::new(body)).map_err(Error::connection)?;
        let (mut connection, answer) = Connection::send(&self.node, self.tls.as_ref(), request).await?;
        if answer.status().is_success() {
            return Ok((connection, answer));
        }
        let status = answer.status().as_u16();
        let document = connection.drive(answer.into_body().collect()).await.map_err(Error::connection)?;
        Err(Error::refused(status, &document.to_bytes()))
    }
}

impl fmt::Debug for Topics {
    /// Leaves the token out, so that it reaches no log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Topics").field("node", &self.node).finish_non_exhaustive()
    }
}

/// A topic or pattern as a part of a path.
fn encoded(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let mut path = String::with_capacity(text.len());
    for byte in text.bytes() {
        if is_plain(byte) {
            path.push(char::from(byte));
        } else {
            path.push_str(&format!("%{byte:02X}"));
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_into_paths_and_tokens_are_not_shown() {
        assert_eq!(encoded("a/b.*.>"), "a%2Fb.%2A.%3E");
        let topics = Topics::new("http://127.0.0.1:1/").expect("an address").with_token("og1.secret");
        assert!(!format!("{topics:?}").contains("secret"));
        for wrong in ["", "127.0.0.1:1", "ftp://x", "http://"] {
            assert!(Topics::new(wrong).is_err(), "{wrong}");
        }
    }
}
