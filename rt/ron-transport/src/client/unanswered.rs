//! What is heard of a request before its answer: interim responses, and that its caller has left.
//!
//! A server seldom notices that a connection was closed, and goes on working. So a caller that counts what it has its
//! servers do is told of such a request, and can wait for its end.

use std::{
    fmt,
    future::poll_fn,
    pin::{Pin, pin},
};

use bytes::Bytes;
use http::response::Parts;
use http_body::Body as HttpBody;

use crate::Response;

/// The most that is read of an answer for nobody. A connection with more to come is closed.
const MAX_UNREAD: usize = 64 * 1024;

/// Hears of what happens to a request before the answer comes.
pub trait RequestWatch: Send {
    /// Takes over a request that the server has got, or a part of it over HTTP/1.1. Dropping it closes the connection, or
    /// resets the stream.
    fn left(&mut self, request: Unanswered);

    /// Hears of an interim response (1xx), but for 101, which is an answer.
    fn interim(&mut self, _head: &Parts) {}
}

/// A request that the server has got, and whose answer nobody waits for.
pub struct Unanswered(Pin<Box<dyn Future<Output = Option<Response>> + Send>>);

impl Unanswered {
    /// `answer` gives the response, or nothing if the server fails.
    pub(super) fn new(answer: impl Future<Output = Option<Response>> + Send + 'static) -> Self {
        Self(Box::pin(answer))
    }

    /// Waits until the server has answered; the head of the answer, or nothing if the server fails. The rest is thrown away,
    /// and the connection can be used again unless the answer is long or a part of the request is missing.
    ///
    /// Cancel safe: dropping the future closes the connection, or resets the stream.
    pub async fn finish(self) -> Option<Parts> {
        let (head, body) = self.0.await?.into_parts();
        let mut body = pin!(body);
        let mut read = 0;
        while read <= MAX_UNREAD
            && let Some(Ok(frame)) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await
        {
            read += frame.data_ref().map_or(0, Bytes::len);
        }
        Some(head)
    }
}

impl fmt::Debug for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unanswered")
    }
}
