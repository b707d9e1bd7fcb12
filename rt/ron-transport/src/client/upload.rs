//! A request's body on its way into an HTTP/2 stream, as fast as the server takes it.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use h2::{Reason, SendStream};
use http_body::Body as HttpBody;

use crate::{Body, BodyError, trailers};

/// The most that is handed over at once.
const PIECE: usize = 64 * 1024;

/// A body that is being sent. Dropping it before its end resets the stream.
pub(super) struct Upload {
    body: Body,
    stream: SendStream<Bytes>,
    /// What has been taken from the body and not yet handed over.
    rest: Bytes,
    progress: u64,
}

impl Upload {
    pub(super) fn new(body: Body, stream: SendStream<Bytes>) -> Self {
        Self { body, stream, rest: Bytes::new(), progress: 0 }
    }

    /// How often something was handed over.
    pub(super) fn progress(&self) -> u64 {
        self.progress
    }

    /// The body, if nothing has been taken from it yet.
    pub(super) fn into_untouched(self) -> Option<Body> {
        (self.progress == 0 && self.rest.is_empty()).then_some(self.body)
    }

    /// Moves what can be moved. Ready once everything is handed over, or the server wants no more of it; how the request
    /// fares is told by its response.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        loop {
            if !self.rest.is_empty() {
                if !ready!(self.poll_hand_over(cx)) {
                    return Poll::Ready(Ok(()));
                }
                continue;
            }
            if self.stream.poll_reset(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            // Any failure to hand over means that the stream has ended, which its response tells.
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                None => {
                    let _ = self.stream.send_data(Bytes::new(), true);
                    return Poll::Ready(Ok(()));
                }
                Some(Err(error)) => {
                    self.stream.send_reset(Reason::CANCEL);
                    return Poll::Ready(Err(error));
                }
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(frame) => {
                        if let Ok(mut trailers) = frame.into_trailers() {
                            trailers::clean(&mut trailers);
                            let _ = self.stream.send_trailers(trailers);
                            return Poll::Ready(Ok(()));
                        }
                    }
                },
            }
        }
    }

    /// Hands over what the server has room for; false once there is no more to do.
    fn poll_hand_over(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        self.stream.reserve_capacity(self.rest.len().min(PIECE));
        let room = match self.stream.capacity() {
            0 => match ready!(self.stream.poll_capacity(cx)) {
                Some(Ok(room)) => room,
                Some(Err(_)) | None => return Poll::Ready(false),
            },
            room => room,
        };
        if room == 0 {
            return Poll::Ready(true);
        }
        let piece = self.rest.split_to(room.min(self.rest.len()));
        let last = self.rest.is_empty() && self.body.is_end_stream();
        self.progress += 1;
        let sent = self.stream.send_data(piece, last);
        Poll::Ready(sent.is_ok() && !last)
    }
}
