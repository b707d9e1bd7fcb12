//! Where an object's bytes go as they come: decoded, counted, hashed, and into the store only when they are whole.
//!
//! Everything here blocks, and runs in the blocking pool.

use cas::{Cas, Hot, Tail, WriteError, Writer};
use decode::{Coding, DecodeError, Decoder, Limits, STEP_MAX};
use types::{ObjectId, Reason};

use super::{expected::Expected, failure::Failure};

/// The longest object that is held in memory because it is not to be stored.
pub(super) const UNSTORED_MAX: u64 = 16 * 1024 * 1024;

/// What is known of an object before its first byte.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// The content coding of the response.
    pub(super) coding: Coding,
    /// The limits of decoding.
    pub(super) decode: Limits,
    /// The maximum length of the object in bytes.
    pub(super) max_len: u64,
    /// Whether it is stored, or held for those who asked for it.
    pub(super) store: bool,
    /// Whether the store is memory, so that what does not fit has nowhere to go.
    pub(super) amnesia: bool,
}

/// An object that is whole.
#[derive(Debug)]
pub(super) struct Spooled {
    pub(super) id: ObjectId,
    pub(super) len: u64,
    /// Its bytes, if it is not stored.
    pub(super) held: Option<Vec<u8>>,
}

/// An object on its way. Dropped, it leaves nothing behind.
pub(super) struct Spool {
    plan: Plan,
    sink: Sink,
    len: u64,
    decoder: Option<Box<Decoder>>,
    /// What its bytes have to hash to, as far as somebody told.
    expected: Expected,
}

enum Sink {
    /// Boxed, because it moves to the blocking pool and back with every piece.
    Store(Box<Writer>),
    Memory(Vec<u8>),
}

impl Spool {
    pub(super) fn open(cas: &Cas, plan: Plan, expected: Expected) -> Result<Self, Failure> {
        let sink = match plan.store {
            true => Sink::Store(Box::new(cas.begin().map_err(|error| plan.unwritten(&error))?)),
            false => Sink::Memory(Vec::new()),
        };
        let decoder = (plan.coding != Coding::Identity).then(|| {
            let limits = Limits { max_bytes: plan.decode.max_bytes.min(plan.max_len), ..plan.decode };
            Box::new(Decoder::new(plan.coding, limits))
        });
        Ok(Self { plan, sink, len: 0, decoder, expected })
    }

    /// Takes the next bytes as they came.
    pub(super) fn take(&mut self, piece: &[u8]) -> Result<(), Failure> {
        self.expected.take(piece);
        let Some(mut decoder) = self.decoder.take() else { return self.push(piece) };
        let (mut rest, mut room) = (piece, vec![0; STEP_MAX]);
        while !(rest.is_empty() && decoder.is_drained()) {
            let step = decoder.decode(rest, &mut room).map_err(undecoded)?;
            rest = &rest[step.consumed..];
            self.push(&room[..step.produced])?;
        }
        self.decoder = Some(decoder);
        Ok(())
    }

    /// What is in the store of it so far, for those who read it meanwhile; `None` if it is not to be stored.
    pub(super) fn tail(&mut self) -> Result<Option<Tail>, Failure> {
        match &mut self.sink {
            Sink::Store(writer) => writer.tail().map(Some).map_err(|error| self.plan.unwritten(&error)),
            Sink::Memory(_) => Ok(None),
        }
    }

    /// The bytes so far, decoded.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The object is whole. What is stored and small enough is hot from now on: somebody waits for it.
    pub(super) fn finish(self, cas: &Cas, hot: &Hot) -> Result<Spooled, Failure> {
        if let Some(decoder) = &self.decoder {
            decoder.finish().map_err(undecoded)?;
        }
        match self.sink {
            Sink::Memory(bytes) => {
                let id = b3tree::Builder::new().update(&bytes).finish().root();
                self.expected.check(|| id)?;
                Ok(Spooled { id, len: self.len, held: Some(bytes) })
            }
            Sink::Store(writer) => {
                self.expected.check(|| writer.id())?;
                let committed = writer.commit().map_err(|error| match error {
                    WriteError::Full if self.len <= UNSTORED_MAX => Failure::InUse,
                    error => self.plan.unwritten(&error),
                })?;
                committed.evicted.iter().for_each(|id| hot.remove(id));
                if hot.admits(committed.len)
                    && let Ok(Some(object)) = cas.open(committed.id)
                {
                    // Whatever is wrong with it is found again by whoever reads it.
                    let _ = hot.load(&object);
                }
                Ok(Spooled { id: committed.id, len: committed.len, held: None })
            }
        }
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.len += bytes.len() as u64;
        if self.len > self.plan.max_len {
            return Err(too_large());
        }
        match &mut self.sink {
            Sink::Store(writer) => writer.write(bytes).map_err(|error| self.plan.unwritten(&error)),
            Sink::Memory(_) if self.len > UNSTORED_MAX => Err(too_large()),
            Sink::Memory(held) => {
                held.extend_from_slice(bytes);
                Ok(())
            }
        }
    }
}

impl Plan {
    fn unwritten(&self, error: &WriteError) -> Failure {
        match error {
            WriteError::TooLarge if self.amnesia => {
                Failure::refused(Reason::Amnesia, "the object is larger than the memory for objects")
            }
            WriteError::TooLarge => too_large(),
            WriteError::Full => Failure::Ours(ron_kernel::Fault::Busy),
            WriteError::Io(_) | WriteError::Broken => {
                tracing::warn!(%error, "an object cannot be stored");
                Failure::Unwritten(error.to_string())
            }
        }
    }
}

/// The origin's object is larger than we take.
pub(super) fn too_large() -> Failure {
    Failure::refused(Reason::SourceCap, "the origin's object is larger than may be stored")
}

/// Whether a bomb or no such stream at all, it is the origin's fault, not the client's.
fn undecoded(error: DecodeError) -> Failure {
    match error {
        DecodeError::Cap | DecodeError::Ratio | DecodeError::Parts => {
            Failure::refused(Reason::SourceExpands, "the origin's answer expands more than allowed")
        }
        DecodeError::Malformed | DecodeError::Trailing | DecodeError::Truncated => {
            Failure::refused(Reason::BadGateway, "the origin's answer is not what its Content-Encoding says")
        }
    }
}
