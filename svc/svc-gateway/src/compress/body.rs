//! A response's body on its way through an encoder.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use encode::Encoder;
use http_body::{Body as HttpBody, Frame};
use ron_transport::{Body, BodyError};

use crate::buffers::Reserved;

/// How many steps of the encoder one turn of the connection may take; then others of its core have theirs.
const STEPS_A_TURN: u32 = 4;

/// A body that is compressed as it is read. What the server has sent is passed on when the next piece is not there yet, so
/// that events are not held back.
pub(super) struct Compressed {
    plain: Body,
    /// A piece of the plain body that is not encoded yet.
    piece: Bytes,
    /// `None` once the body has ended or failed.
    encoder: Option<Encoder>,
    /// The trailers, to be sent after the compressed body.
    trailers: Option<Frame<Bytes>>,
    steps: u32,
    _memory: Reserved,
}

impl Compressed {
    pub(super) fn new(plain: Body, encoder: Encoder, memory: Reserved) -> Self {
        let (piece, trailers) = (Bytes::new(), None);
        Self { plain, piece, encoder: Some(encoder), trailers, steps: 0, _memory: memory }
    }

    /// Encodes one step of the piece.
    fn step(&mut self, encoder: &mut Encoder) -> Result<Vec<u8>, BodyError> {
        let mut out = Vec::new();
        let taken = encoder.encode(&self.piece, &mut out).map_err(BodyError::new)?;
        drop(self.piece.split_to(taken));
        Ok(out)
    }

    fn poll_coded(&mut self, encoder: &mut Encoder, cx: &mut Context<'_>) -> Poll<Result<Next, BodyError>> {
        loop {
            while !self.piece.is_empty() {
                if self.steps == STEPS_A_TURN {
                    self.steps = 0;
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                self.steps += 1;
                let out = self.step(encoder)?;
                if !out.is_empty() {
                    return Poll::Ready(Ok(Next::Data(out)));
                }
            }
            match Pin::new(&mut self.plain).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => self.piece = data,
                    Err(trailers) => {
                        self.trailers = Some(trailers);
                        return Poll::Ready(Ok(Next::End));
                    }
                },
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error)),
                Poll::Ready(None) => return Poll::Ready(Ok(Next::End)),
                Poll::Pending => {
                    self.steps = 0;
                    if !encoder.holds_back() {
                        return Poll::Pending;
                    }
                    let mut out = Vec::new();
                    encoder.flush(&mut out).map_err(BodyError::new)?;
                    if !out.is_empty() {
                        return Poll::Ready(Ok(Next::Data(out)));
                    }
                }
            }
        }
    }
}

/// The next frame of the body.
enum Next {
    Data(Vec<u8>),
    End,
}

impl HttpBody for Compressed {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let Some(mut encoder) = this.encoder.take() else { return Poll::Ready(this.trailers.take().map(Ok)) };
        match this.poll_coded(&mut encoder, cx) {
            Poll::Pending => {
                this.encoder = Some(encoder);
                Poll::Pending
            }
            Poll::Ready(Ok(Next::Data(out))) => {
                this.encoder = Some(encoder);
                Poll::Ready(Some(Ok(Frame::data(out.into()))))
            }
            Poll::Ready(Ok(Next::End)) => {
                let mut out = Vec::new();
                Poll::Ready(Some(match encoder.finish(&mut out) {
                    Ok(()) => Ok(Frame::data(out.into())),
                    Err(error) => Err(BodyError::new(error)),
                }))
            }
            // The client must not take what it has for all of it: the end of the coding is never sent.
            Poll::Ready(Err(error)) => Poll::Ready(Some(Err(error))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.encoder.is_none() && self.trailers.is_none()
    }
}
