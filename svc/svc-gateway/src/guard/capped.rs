//! A body that breaks once it is longer than allowed.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use ron_transport::{Body, BodyError};

use super::{Breach, too_large};

/// A body of at most `cap` bytes.
pub(super) struct Capped {
    inner: Body,
    cap: u64,
    seen: u64,
    breach: Breach,
}

impl Capped {
    pub(super) fn new(inner: Body, cap: u64, breach: Breach) -> Self {
        Self { inner, cap, seen: 0, breach }
    }
}

impl HttpBody for Capped {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        if let Some(error) = this.breach.error() {
            return Poll::Ready(Some(Err(error)));
        }
        let Some(frame) = ready!(Pin::new(&mut this.inner).poll_frame(cx)?) else {
            return Poll::Ready(None);
        };
        this.seen += frame.data_ref().map_or(0, |data| data.len() as u64);
        if this.seen > this.cap {
            return Poll::Ready(Some(Err(this.breach.record(too_large(this.cap)))));
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream() && !self.breach.is_recorded()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
