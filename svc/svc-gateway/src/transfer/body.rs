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
        if state.is_answered {
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
        let clock = self.listed.transfers.clock;
        let mut state = self.listed.transfer.state();
        let now = clock.now();
        state.clients_turn_ends(now);
        if let Some(frame) = state.ahead.pop_front() {
            let bytes = frame.as_ref().ok().and_then(Frame::data_ref).map_or(0, Bytes::len);
            state.ahead_bytes = state.ahead_bytes.saturating_sub(bytes as u64);
            state.clients_turn(now);
            return Poll::Ready(Some(frame));
        }
        if state.is_cut {
            return Poll::Ready(Some(Err(BodyError::new(TooSlow))));
        }
        let Some(answer) = &mut state.answer else { return Poll::Ready(None) };
        let polled = Pin::new(answer).poll_frame(cx);
        let ended = match &polled {
            Poll::Pending => false,
            Poll::Ready(None | Some(Err(_))) => true,
            Poll::Ready(Some(Ok(_))) => {
                state.clients_turn(now);
                state.answer.as_ref().is_some_and(HttpBody::is_end_stream)
            }
        };
        let over = if ended {
            (state.slot.take(), state.place.take(), state.answer.take())
        } else {
            Default::default()
        };
        drop(state);
        // Without the lock: the slot goes to the next request, and the connection to its pool.
        drop(over);
        polled
    }

    fn is_end_stream(&self) -> bool {
        let state = self.listed.transfer.state();
        state.ahead.is_empty() && !state.is_cut && state.answer.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let state = self.listed.transfer.state();
        match &state.answer {
            None => SizeHint::with_exact(state.ahead_bytes),
            Some(answer) => {
                let rest = answer.size_hint().exact();
                rest.map_or_else(SizeHint::new, |rest| SizeHint::with_exact(rest + state.ahead_bytes))
            }
        }
    }
}
