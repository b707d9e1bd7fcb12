//! Trailers of requests: a server gets none that it would not get as a header field of the same client.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName};
use http_body::{Body as HttpBody, Frame, SizeHint};
use ron_transport::{Body, BodyError};

use super::{GuardedFields, fields::is_plain};

/// Has a request's body leave out the trailers that could be taken for fields that its client may not send: those that mean
/// something to the gateway, those that the configuration decides about, and those that `Connection` names.
pub(crate) fn clean_trailers(body: &mut Body, guarded: &Arc<GuardedFields>, removed: &[HeaderName]) {
    // What is here as a whole has none.
    if body.is_whole() {
        return;
    }
    let (guarded, removed) = (Arc::clone(guarded), removed.into());
    *body = Body::streaming(CleanTrailers { body: std::mem::take(body), guarded, removed });
}

struct CleanTrailers {
    body: Body,
    guarded: Arc<GuardedFields>,
    removed: Box<[HeaderName]>,
}

impl CleanTrailers {
    fn clean(&self, trailers: &mut HeaderMap) {
        let goes_on = |name: &HeaderName| {
            is_plain(name) && !self.guarded.has_alike(name) && !self.removed.contains(name)
        };
        let dropped: Vec<HeaderName> = trailers.keys().filter(|name| !goes_on(name)).cloned().collect();
        for name in dropped {
            trailers.remove(name);
        }
    }
}

impl HttpBody for CleanTrailers {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        Pin::new(&mut this.body).poll_frame(cx).map_ok(|mut frame| {
            if let Some(trailers) = frame.trailers_mut() {
                this.clean(trailers);
            }
            frame
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
