//! The decode guard: decodes compressed bodies in bounded steps and rejects decompression bombs.
//!
//! A few compressed bytes can decode to gigabytes, and codecs do not limit that. Here each step returns at most
//! [`STEP_MAX`] bytes, and the total is checked against [`Limits`] after each step. A stream that exceeds a limit
//! or is invalid is a [`DecodeError`] with its reason. The caller owns both buffers, so nothing is queued in
//! between.
//!
//! Memory of a decoder, at most: 48 KiB (gzip, deflate), 16 MiB (brotli) and 4 MiB of tables, 9 MiB (zstd). The
//! large ones use only as much as was decoded so far; [`Decoder::memory`] returns how much that is.
//!
//! ```
//! use decode::{Coding, Decoder, Limits};
//!
//! let coding = Coding::parse([b"gzip".as_slice()])?;
//! let mut decoder = Decoder::new(coding, Limits::default());
//! let mut piece = [0; 4096];
//! assert!(decoder.decode(b"\x1f\x8b\x08", &mut piece)?.consumed > 0);
//! assert!(decoder.finish().is_err(), "a header is not a whole stream");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod coding;
mod counted;
mod engine;

pub use coding::{Coding, UnsupportedCoding};

use engine::Engine;
use types::{Reason, Refusal};

/// The most bytes that one step gives.
pub const STEP_MAX: usize = 64 * 1024;
/// The most bytes that one step takes. Streams of small blocks with codes of their own take many times as long as others of
/// their length.
pub const STEP_INPUT: usize = 8 * 1024;

/// Compressed streams that a body may consist of, whatever its length: gzip and zstd allow several, one behind the other.
const FREE_PARTS: u64 = 256;
/// For each one more, so many bytes have to have come: it takes as long to begin a stream as to decode thousands of bytes.
const BYTES_PER_PART: u64 = 256;

/// How much a body may expand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Decoded bytes per encoded byte.
    pub max_ratio: u32,
    /// Decoded bytes that are free of the ratio, because small repetitive bodies are harmless.
    pub slack: u64,
    /// Decoded bytes in all.
    pub max_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_ratio: 10, slack: 64 * 1024, max_bytes: 8 * 1024 * 1024 }
    }
}

impl Limits {
    /// Judges `decoded` bytes that came out of `encoded` ones.
    ///
    /// # Errors
    /// [`DecodeError::Cap`] or [`DecodeError::Ratio`], in this order, when they are too many.
    pub fn judge(&self, encoded: u64, decoded: u64) -> Result<(), DecodeError> {
        let fair = encoded.saturating_mul(u64::from(self.max_ratio)).saturating_add(self.slack);
        match decoded {
            more if more > self.max_bytes => Err(DecodeError::Cap),
            more if more > fair => Err(DecodeError::Ratio),
            _ => Ok(()),
        }
    }
}

/// Why a body is not decoded any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// More decoded bytes than allowed.
    #[error("the decoded body is larger than allowed")]
    Cap,
    /// More decoded bytes per encoded one than allowed.
    #[error("the body expands more than allowed")]
    Ratio,
    /// More compressed streams, one behind the other, than a body of its length may have.
    #[error("the body consists of too many compressed parts")]
    Parts,
    /// The bytes are not of the coding.
    #[error("the body is not what its Content-Encoding says")]
    Malformed,
    /// The stream ended, and yet bytes follow.
    #[error("bytes follow the end of the compressed body")]
    Trailing,
    /// The bytes ended before their stream did.
    #[error("the compressed body is cut short")]
    Truncated,
}

impl DecodeError {
    /// The reason to refuse the request for.
    #[must_use]
    pub const fn reason(self) -> Reason {
        match self {
            Self::Cap => Reason::DecodedCap,
            Self::Ratio | Self::Parts => Reason::DecodedRatio,
            Self::Malformed | Self::Trailing | Self::Truncated => Reason::Malformed,
        }
    }
}

impl From<DecodeError> for Refusal {
    fn from(error: DecodeError) -> Self {
        Self::new(error.reason(), error.to_string())
    }
}

/// The result of one decoding step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Bytes taken from the front of the input.
    pub consumed: usize,
    /// Bytes written to the front of the output.
    pub produced: usize,
    /// Whether the body may end here.
    pub finished: bool,
}

/// A decoder of one body.
pub struct Decoder {
    engine: Engine,
    limits: Limits,
    encoded: u64,
    decoded: u64,
    /// Compressed streams that have ended and were followed by another one.
    parts: u64,
    finished: bool,
    drained: bool,
    failed: Option<DecodeError>,
}

impl Decoder {
    /// A decoder of a body in this coding.
    #[must_use]
    pub fn new(coding: Coding, limits: Limits) -> Self {
        let engine = Engine::new(coding);
        let finished = coding == Coding::Identity;
        Self { engine, limits, encoded: 0, decoded: 0, parts: 0, finished, drained: true, failed: None }
    }

    /// Decodes from `input` into `output`, of which it fills at most [`STEP_MAX`] bytes.
    ///
    /// A stream is judged at every step, by what was decoded until then: one that begins with far more than its share may be
    /// refused even if it would have made up for that later.
    ///
    /// # Errors
    /// [`DecodeError`], then and ever after. What `output` holds is of no use in that case.
    pub fn decode(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, DecodeError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let input = &input[..input.len().min(STEP_INPUT)];
        let room = output.len().min(STEP_MAX);
        let step = self.step(input, &mut output[..room]);
        self.failed = step.err();
        step
    }

    /// Whether all that was taken has been given: the next step needs input. Until then it may have none.
    #[must_use]
    pub const fn is_drained(&self) -> bool {
        self.drained
    }

    /// How many bytes it holds, about: what its tables take, and of its window what was decoded into it. Memory of the
    /// window that was not touched yet is not there.
    #[must_use]
    pub fn memory(&self) -> u64 {
        let (beside, window) = self.engine.memory();
        beside as u64 + self.decoded.min(window as u64)
    }

    /// Tells the decoder that nothing more follows.
    ///
    /// # Errors
    /// The error of an earlier step, or [`DecodeError::Truncated`] if the stream is not at its end.
    pub const fn finish(&self) -> Result<(), DecodeError> {
        match self.failed {
            Some(error) => Err(error),
            None if self.finished => Ok(()),
            None => Err(DecodeError::Truncated),
        }
    }

    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, DecodeError> {
        let mut step = Step::default();
        while step.produced < output.len() && !(self.drained && step.consumed == input.len()) {
            if self.finished {
                self.go_on()?;
            }
            let unread = &input[step.consumed..];
            let part = self.engine.run(unread, &mut output[step.produced..])?;
            if part.consumed + part.produced == 0 && !unread.is_empty() {
                // A codec that has all it wants and does nothing never will.
                return Err(DecodeError::Malformed);
            }
            step.consumed += part.consumed;
            step.produced += part.produced;
            self.encoded += part.consumed as u64;
            self.decoded += part.produced as u64;
            self.limits.judge(self.encoded, self.decoded)?;
            self.finished = part.finished;
            // Codecs fill the output if they can; and beyond an end there is nothing.
            self.drained = part.finished || step.produced < output.len();
        }
        step.finished = self.finished;
        Ok(step)
    }

    /// Goes on behind the end of a compressed stream.
    fn go_on(&mut self) -> Result<(), DecodeError> {
        if matches!(self.engine, Engine::Identity) {
            return Ok(());
        }
        self.engine.go_on()?;
        self.parts += 1;
        if self.parts > FREE_PARTS + self.encoded / BYTES_PER_PART { Err(DecodeError::Parts) } else { Ok(()) }
    }
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder")
            .field("limits", &self.limits)
            .field("encoded", &self.encoded)
            .field("decoded", &self.decoded)
            .finish_non_exhaustive()
    }
}
