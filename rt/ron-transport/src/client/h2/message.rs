//! Requests and responses as HTTP/2 has them.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use ::h2::RecvStream;
use bytes::Bytes;
use http::{
    HeaderName, Uri, Version, header,
    request::Parts,
    uri::{Authority, Scheme},
};
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;

use crate::{
    Body, BodyError,
    client::{Home, stall::StallWatch, upload::Upload},
    field_values,
};

/// An answer that is malformed by RFC 9113, 8.2.1.
#[derive(Debug, thiserror::Error)]
#[error("the value of a field in the server's answer begins or ends with whitespace")]
pub(super) struct BlanksAround;

/// Fields that belong to an HTTP/1.1 connection.
const CONNECTION_FIELDS: [HeaderName; 6] = [
    header::HOST,
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// A request's head: an absolute URI, no `Host`, nothing that belongs to a connection.
pub(super) fn head(mut parts: Parts, https: bool) -> http::Request<()> {
    let authority = match parts.uri.authority() {
        Some(authority) => Some(authority.clone()),
        None => parts.headers.get(header::HOST).and_then(|host| Authority::try_from(host.as_bytes()).ok()),
    };
    if let Some(authority) = authority {
        let mut uri = std::mem::take(&mut parts.uri).into_parts();
        uri.scheme = Some(if https { Scheme::HTTPS } else { Scheme::HTTP });
        uri.authority = Some(authority);
        // Without a path there would be no URI; `*` and CONNECT have no place here.
        uri.path_and_query.get_or_insert_with(|| http::uri::PathAndQuery::from_static("/"));
        parts.uri = Uri::from_parts(uri).unwrap_or_default();
    }
    for name in &CONNECTION_FIELDS {
        parts.headers.remove(name);
    }
    if parts.headers.get(header::TE).is_some_and(|te| te != "trailers") {
        parts.headers.remove(header::TE);
    }
    parts.version = Version::HTTP_11;
    http::Request::from_parts(parts, ())
}

/// A response's body, which also carries on with what is left of its request's.
pub(super) struct Download {
    stream: RecvStream,
    /// What was announced and has not come yet.
    announced: Option<u64>,
    data_ended: bool,
    upload: Option<Upload>,
    stall: Option<StallWatch>,
    home: Arc<dyn Home>,
    /// Free for another request once this one is over.
    _slot: OwnedSemaphorePermit,
}

impl Download {
    pub(super) fn body(
        stream: RecvStream,
        length: Option<u64>,
        upload: Option<Upload>,
        stall_limit: Option<Duration>,
        home: Arc<dyn Home>,
        slot: OwnedSemaphorePermit,
    ) -> Body {
        if stream.is_end_stream() {
            return Body::empty();
        }
        let stall = stall_limit.map(StallWatch::new);
        Body::streaming(Self {
            stream,
            announced: length,
            data_ended: false,
            upload,
            stall,
            home,
            _slot: slot,
        })
    }

    fn poll_received(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if !self.data_ended {
            match ready!(self.stream.poll_data(cx)) {
                Some(Ok(data)) => return Poll::Ready(Some(self.take(data))),
                Some(Err(error)) => return Poll::Ready(Some(Err(BodyError::new(error)))),
                None => self.data_ended = true,
            }
        }
        match ready!(self.stream.poll_trailers(cx)) {
            Ok(Some(trailers)) if field_values::have_blanks(&trailers) => {
                Poll::Ready(Some(Err(BodyError::new(BlanksAround))))
            }
            Ok(trailers) => Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers)))),
            // Also a reset without an error: the library tells it only if the answer had not ended before.
            Err(error) => Poll::Ready(Some(Err(BodyError::new(error)))),
        }
    }

    /// The reader has taken it, so the server may send as much again.
    fn take(&mut self, data: Bytes) -> Result<Frame<Bytes>, BodyError> {
        self.stream.flow_control().release_capacity(data.len()).map_err(BodyError::new)?;
        self.announced = self.announced.map(|left| left.saturating_sub(data.len() as u64));
        Ok(Frame::data(data))
    }
}

impl HttpBody for Download {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        match this.upload.as_mut().map(|upload| upload.poll(cx)) {
            Some(Poll::Ready(Ok(()))) => this.upload = None,
            Some(Poll::Ready(Err(error))) => {
                this.upload = None;
                return Poll::Ready(Some(Err(error)));
            }
            Some(Poll::Pending) | None => {}
        }
        let polled = this.poll_received(cx);
        if let Poll::Ready(Some(Err(why))) = &polled {
            this.home.broke_off(why);
        }
        let Some(stall) = &mut this.stall else {
            return polled;
        };
        if polled.is_ready() {
            stall.progressed();
            return polled;
        }
        let sent = this.upload.as_ref().map_or(0, Upload::progress);
        stall.poll_wait(sent, cx).map(|stalled| {
            // A server that still waits for the rest of the request has not stalled; its client has.
            if this.upload.is_none() {
                this.home.stalled();
            }
            Some(Err(BodyError::new(stalled)))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.announced.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
