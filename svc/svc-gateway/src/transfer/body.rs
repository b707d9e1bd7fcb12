//! The two bodies of a transfer: they note when it is the client's turn.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use ron_kernel::Clock;
use ron_transport::{Body, BodyError};

use super::{Listed, Transfer};

/// A transfer that was ended because its client kept it waiting, and its tenant has as many such as it may.
#[derive(Debug, thiserror::Error)]
#[error("the client kept the transfer waiting")]
struct TooSlow;

/// A request's body. While the server has taken all there is, it is the client's turn.
pub(super) struct Upload {
    pub(super) body: Body,
    pub(super) transfer: Arc<Transfer>,
    pub(super) clock: Clock,
}

impl HttpBody for Upload {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        if this.transfer.state().is_cut {
            return Poll::Ready(Some(Err(BodyError::new(TooSlow))));
        }
        let polled = Pin::new(&mut this.body).poll_frame(cx);
        let now = this.clock.now();
        let mut state = this.transfer.state();
        // Once the answer has begun, what counts is whether the client takes it.
        if state.answered_at.is_some() {
            return polled;
        }
        if polled.is_pending() {
            state.clients_turn(now);
            state.upload = Some(cx.waker().clone());
        } else {
            state.clients_turn_ends(now);
            state.upload = None;
        }
        drop(state);
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// An answer's body. Between two pieces it is the client's turn to take what it was given.
pub(super) struct Download {
    pub(super) listed: Listed,
}

impl HttpBody for Download {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let transfer = &self.listed.transfer;
        let now = self.listed.transfers.clock.now();
        let mut answer = transfer.answer();
        let mut state = transfer.state();
        state.clients_turn_ends(now);
        let is_cut = state.is_cut;
        if let Some(frame) = answer.ahead.pop() {
            state.clients_turn(now);
            return Poll::Ready(Some(frame));
        }
        // Reading the answer may move the upload, which has something to note as well.
        drop(state);
        if is_cut {
            return Poll::Ready(Some(Err(BodyError::new(TooSlow))));
        }
        let Some(body) = &mut answer.body else { return Poll::Ready(None) };
        let polled = Pin::new(&mut *body).poll_frame(cx);
        let ended = match &polled {
            Poll::Pending => false,
            Poll::Ready(None | Some(Err(_))) => true,
            Poll::Ready(Some(Ok(_))) => body.is_end_stream(),
        };
        let body = if ended { answer.body.take() } else { None };
        drop(answer);
        let mut state = transfer.state();
        if let Poll::Ready(Some(Ok(_))) = &polled {
            state.clients_turn(now);
        }
        if ended {
            transfer.occupancy.ends();
        }
        let held = if ended { (state.slot.take(), state.place.take()) } else { (None, None) };
        drop(state);
        // Without a lock: the slot goes to the next request, and the connection to its pool.
        drop((body, held));
        polled
    }

    fn is_end_stream(&self) -> bool {
        let answer = self.listed.transfer.answer();
        let is_over = answer.ahead.is_empty() && answer.body.as_ref().is_none_or(HttpBody::is_end_stream);
        is_over && !self.listed.transfer.state().is_cut
    }

    fn size_hint(&self) -> SizeHint {
        let answer = self.listed.transfer.answer();
        match answer.body.as_ref().map(HttpBody::size_hint) {
            None => SizeHint::with_exact(answer.ahead.bytes()),
            Some(rest) => rest
                .exact()
                .map_or_else(SizeHint::new, |rest| SizeHint::with_exact(rest + answer.ahead.bytes())),
        }
    }
}
