//! A compressed body as its decoded bytes, a bounded piece at each poll.
//!
//! Decoding takes time of the core, and a client chooses how much: bodies can be made to take a hundred times as long as others of
//! their length. So the decoders of one tenant take turns, and after some steps other tasks of the core have theirs.

use std::{
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use decode::{DecodeError, Decoder, STEP_INPUT, STEP_MAX};
use http_body::{Body as HttpBody, Frame, SizeHint};
use ron_transport::BodyError;
use tokio::sync::{AcquireError, OwnedSemaphorePermit};
use types::Refusal;

use super::{Breach, budget::Account, capped::Capped};

/// The smallest buffer for decoded bytes, so that a stream of tiny chunks does not become one of tiny allocations.
const PIECE_MIN: usize = 4 * 1024;

/// What a buffer assumes a chunk to expand to; where it expands to more, the next piece has it.
const USUAL_RATIO: usize = 4;

/// After so many steps, other tasks of the core have their turn: some tenths of a millisecond.
const STEPS_OF_TURN: u32 = 16;

/// The first steps of a body wait for no other decoder. A bomb is refused within these, so that of a crowd of them each has
/// given its memory back before the next one takes any.
pub(super) const FREE_STEPS: u32 = 8;

/// The wait for the turn of one of the tenant's decoders.
type Wait = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send>>;

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
    /// `None` unless another decoder of the tenant makes a step.
    waits: Option<Wait>,
    /// Steps that this one has made since other tasks had their turn.
    steps: u32,
    /// Steps that this one has made in all, as far as they matter.
    made: u32,
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
            waits: None,
            steps: 0,
            made: 0,
            rest: Rest::Data,
        })
    }

    /// Takes the next frame of the source.
    fn poll_source(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        let Poll::Ready(frame) = Pin::new(&mut self.source).poll_frame(cx)? else {
            self.steps = 0;
            return Poll::Pending;
        };
        match frame.map(Frame::into_data) {
            Some(Ok(chunk)) => {
                self.chunk = chunk;
                return Poll::Ready(Ok(()));
            }
            Some(Err(trailers)) => self.rest = Rest::Trailers(trailers),
            None => self.rest = Rest::Nothing,
        }
        Poll::Ready(self.decoder.finish().map_err(|error| self.refuse(error)))
    }

    /// Ready when the decoder may make a step, with what keeps the tenant's others from it; `None` if they need not be kept.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Option<OwnedSemaphorePermit>> {
        if self.steps >= STEPS_OF_TURN {
            self.steps = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.made < FREE_STEPS {
            return Poll::Ready(None);
        }
        let Some(turns) = self.account.turns() else { return Poll::Ready(None) };
        if self.waits.is_none() {
            match Arc::clone(turns).try_acquire_owned() {
                Ok(turn) => return Poll::Ready(Some(turn)),
                Err(_) => self.waits = Some(Box::pin(Arc::clone(turns).acquire_owned())),
            }
        }
        let Some(Poll::Ready(turn)) = self.waits.as_mut().map(|waits| waits.as_mut().poll(cx)) else {
            self.steps = 0;
            return Poll::Pending;
        };
        self.waits = None;
        // They are never taken away.
        Poll::Ready(turn.ok())
    }

    /// Decodes one step of the chunk; a piece if that gave any bytes.
    fn decode(&mut self) -> Result<Option<Bytes>, BodyError> {
        if self.piece.is_empty() {
            let len = (self.chunk.len().min(STEP_INPUT) * USUAL_RATIO).clamp(PIECE_MIN, STEP_MAX);
            self.piece = vec![0; len];
        }
        self.steps += 1;
        self.made = self.made.saturating_add(1);
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
                let _turn = ready!(this.poll_turn(cx));
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
