//! A compressed body as its decoded bytes, a bounded piece at each poll.

use std::{
    mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use decode::{DecodeError, Decoder, STEP_MAX};
use http_body::{Body as HttpBody, Frame, SizeHint};
use ron_transport::BodyError;

use types::Refusal;

use super::{Breach, budget::Account, capped::Capped};

/// The smallest buffer for decoded bytes, so that a stream of tiny chunks does not become one of tiny allocations.
const PIECE_MIN: usize = 4 * 1024;

/// What a buffer assumes a chunk to expand to; where it expands to more, the next piece has it.
const USUAL_RATIO: usize = 4;

/// The decoded bytes of a compressed body.
pub(super) struct Decoded {
    source: Capped,
    decoder: Decoder,
    account: Account,
    breach: Breach,
    /// Read and not decoded yet.
    chunk: Bytes,
    /// The buffer for the next decoded piece.
    piece: Vec<u8>,
    rest: Rest,
}

/// What the source has still to give.
enum Rest {
    Data,
    Trailers(Frame<Bytes>),
    Nothing,
}

impl Decoded {
    /// The decoded bytes of `source`.
    ///
    /// # Errors
    /// If there is no memory for the decoder as it begins.
    pub(super) fn new(
        source: Capped,
        decoder: Decoder,
        mut account: Account,
        breach: Breach,
    ) -> Result<Self, Refusal> {
        account.reach(decoder.memory())?;
        Ok(Self {
            source,
            decoder,
            account,
            breach,
            chunk: Bytes::new(),
            piece: Vec::new(),
            rest: Rest::Data,
        })
    }

    /// Takes the next frame of the source.
    fn poll_source(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        let frame = ready!(Pin::new(&mut self.source).poll_frame(cx)?).map(Frame::into_data);
        match frame {
            Some(Ok(chunk)) => {
                self.chunk = chunk;
                return Poll::Ready(Ok(()));
            }
            Some(Err(trailers)) => self.rest = Rest::Trailers(trailers),
            None => self.rest = Rest::Nothing,
        }
        Poll::Ready(self.decoder.finish().map_err(|error| self.refuse(error)))
    }

    /// Decodes one step of the chunk; a piece if that gave any bytes.
    fn decode(&mut self) -> Result<Option<Bytes>, BodyError> {
        if self.piece.is_empty() {
            let len = self.chunk.len().saturating_mul(USUAL_RATIO).clamp(PIECE_MIN, STEP_MAX);
            self.piece = vec![0; len];
        }
        let step = self.decoder.decode(&self.chunk, &mut self.piece).map_err(|error| self.refuse(error))?;
        self.chunk.advance(step.consumed);
        self.account.reach(self.decoder.memory()).map_err(|refusal| self.breach.record(refusal))?;
        if step.produced == 0 {
            return Ok(None);
        }
        let mut piece = mem::take(&mut self.piece);
        piece.truncate(step.produced);
        Ok(Some(piece.into()))
    }

    fn is_drained(&self) -> bool {
        self.chunk.is_empty() && self.decoder.is_drained()
    }

    fn refuse(&self, error: DecodeError) -> BodyError {
        self.breach.record(error.into())
    }
}

impl HttpBody for Decoded {
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
        // Each turn takes bytes of a body that is capped, so this ends.
        loop {
            if !this.is_drained() {
                if let Some(piece) = this.decode()? {
                    return Poll::Ready(Some(Ok(Frame::data(piece))));
                }
            } else if matches!(this.rest, Rest::Data) {
                ready!(this.poll_source(cx)?);
            } else {
                return Poll::Ready(match mem::replace(&mut this.rest, Rest::Nothing) {
                    Rest::Trailers(trailers) => Some(Ok(trailers)),
                    Rest::Data | Rest::Nothing => None,
                });
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.rest, Rest::Nothing) && self.is_drained() && !self.breach.is_recorded()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}
