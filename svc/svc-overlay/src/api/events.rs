//! A subscriber's stream of server-sent events.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, header};
use http_body::Frame;
use http_body_util::StreamBody;
use ron_kernel::topology::Stage;
use ron_transport::{Body, BodyError, Response};

use super::{access::Caller, places::Place, state::State};
use crate::{Feed, told};

/// How long a stream may be silent before a comment shows that it is alive.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The event stream of one subscriber.
struct Stream {
    feed: Feed,
    state: Arc<State>,
    caller: Caller,
    greeting: Option<String>,
    /// What is said before the end.
    last: bool,
    _place: Place,
}

/// The response that tells a subscriber what it hears.
pub(super) fn response(state: &Arc<State>, feed: Feed, caller: Caller, place: Place) -> Response {
    let stream = Stream {
        feed,
        state: Arc::clone(state),
        caller,
        // Sent at once, so that a client knows that it takes part.
        greeting: Some(": subscribed\n\n".to_owned()),
        last: false,
        _place: place,
    };
    let frames = stream::unfold(stream, |mut stream| async move {
        let text = stream.next().await?;
        Some((Ok::<_, BodyError>(Frame::data(Bytes::from(text))), stream))
    });
    let mut response = Response::new(Body::streaming(StreamBody::new(frames)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // For proxies that would gather what is small.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

impl Stream {
    async fn next(&mut self) -> Option<String> {
        if let Some(greeting) = self.greeting.take() {
            return Some(greeting);
        }
        if self.last {
            return None;
        }
        if let Some(over) = self.state.over(&self.caller) {
            self.last = true;
            return Some(format!("event: closed\ndata: {{\"reason\":\"{over}\"}}\n\n"));
        }
        tokio::select! {
            biased;
            heard = self.feed.next() => {
                let (cursor, delivery) = heard?;
                self.state.metrics.told(&delivery);
                let (name, data) = told::event_json(&delivery);
                Some(format!("id: {cursor}\nevent: {name}\ndata: {data}\n\n"))
            }
            // The drain waits for requests in flight, of which this is one.
            () = self.state.scope.shutdown().reached(Stage::Workers) => None,
            () = tokio::time::sleep(KEEP_ALIVE) => Some(": still here\n\n".to_owned()),
        }
    }
}
