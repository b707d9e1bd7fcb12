//! Objects in chunks that each can be checked alone: what a sender sends, and how a receiver is convinced of it.
//!
//! What answers a request follows from it and the object's length, so a chunk that is missing, repeated or out of order is
//! noticed when the next one comes. Where the chunks are cut is the sender's choice.

use std::ops::Range;

use b3tree::{GROUP_LEN, OutOfRange, Prover, SliceError, covering, verify_slice};
use bytes::Bytes;
use types::ObjectId;

use crate::message::{CHUNK_MAX, Data, Get};

/// [`GROUP_LEN`], for arithmetic on lengths of objects.
const GROUP: u64 = GROUP_LEN as u64;

/// The ranges of an object that DATA frames carry, in order. Each is of whole groups and at most [`CHUNK_MAX`] long.
#[derive(Clone, Debug)]
pub struct Chunks {
    object_len: u64,
    chunk_len: u64,
    /// The last group, if it is to be sent first.
    tail: Option<Range<u64>>,
    /// The range that is not received yet.
    next: Option<Range<u64>>,
}

impl Chunks {
    /// What answers a GET of an object of this length.
    ///
    /// # Errors
    /// [`OutOfRange`] if the range begins where the object has ended.
    pub fn of_get(get: &Get, object_len: u64) -> Result<Self, OutOfRange> {
        let tail = get.tail.then(|| covering(object_len, object_len.saturating_sub(1)..object_len));
        let next = match get.len {
            0 => None,
            _ if object_len == 0 && get.offset == 0 => Some(0..0),
            _ if get.offset >= object_len => return Err(OutOfRange),
            len => Some(covering(object_len, get.offset..get.offset.saturating_add(len).min(object_len))),
        };
        // An object of one group is its own tail.
        let tail = tail.filter(|tail| next.is_none() || tail.start > 0);
        Ok(Self { object_len, chunk_len: CHUNK_MAX as u64, tail, next })
    }

    /// A whole object of this length.
    #[must_use]
    pub fn of_put(object_len: u64) -> Self {
        Self { object_len, chunk_len: CHUNK_MAX as u64, tail: None, next: Some(0..object_len) }
    }

    /// The same in chunks of so many bytes, rounded down to whole groups, at least one and at most [`CHUNK_MAX`].
    #[must_use]
    pub fn of_len(self, chunk_len: usize) -> Self {
        let groups = chunk_len.clamp(GROUP_LEN, CHUNK_MAX) / GROUP_LEN;
        Self { chunk_len: groups as u64 * GROUP, ..self }
    }

    /// Returns the length of the object in bytes.
    #[must_use]
    pub fn object_len(&self) -> u64 {
        self.object_len
    }

    /// Takes the range of a chunk, if it is the next one, wherever it is cut.
    fn take(&mut self, chunk: &Range<u64>) -> Option<Taken> {
        if let Some(tail) = self.tail.take() {
            return (tail == *chunk).then_some(Taken::Tail);
        }
        let left = self.next.take().filter(|left| left.start == chunk.start && left.end >= chunk.end)?;
        self.next = (chunk.end < left.end).then_some(chunk.end..left.end);
        Some(Taken::Part)
    }
}

/// The role of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    /// The chunk proves the length of the object.
    Tail,
    /// It is of what was asked for.
    Part,
}

impl Iterator for Chunks {
    type Item = Range<u64>;

    fn next(&mut self) -> Option<Range<u64>> {
        if let Some(tail) = self.tail.take() {
            return Some(tail);
        }
        let left = self.next.take()?;
        // At multiples of a chunk, so that proofs are short.
        let end = (left.start + 1).checked_next_multiple_of(self.chunk_len).unwrap_or(left.end).min(left.end);
        self.next = (end < left.end).then_some(end..left.end);
        Some(left.start..end)
    }
}

impl Data {
    /// A chunk and its proof. The bytes have to be those of the range, one of [`Chunks`].
    ///
    /// # Errors
    /// [`OutOfRange`] if the object has no such range.
    pub fn prove(prover: &Prover, range: Range<u64>, body: Bytes) -> Result<Self, OutOfRange> {
        debug_assert_eq!(body.len() as u64, range.end - range.start);
        let (object_len, offset) = (prover.tree().len(), range.start);
        Ok(Self { object_len, offset, proof: prover.proof(range)?.into(), body })
    }

    /// Where its bytes are in the object.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.offset..self.offset.saturating_add(self.body.len() as u64)
    }
}

/// What was received is not what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotTheObject {
    /// A chunk that is not the next one.
    #[error("not the next chunk of the object")]
    Order,
    /// Another length than before, or than was offered.
    #[error("another length than was said before")]
    Length,
    /// Bytes that are not the object's.
    #[error(transparent)]
    Slice(#[from] SliceError),
    /// It ended before everything was there.
    #[error("the end before the last chunk")]
    Incomplete,
}

/// Checks chunks as they come: each against the object's name, alone, and all of them for being in order.
#[derive(Clone, Debug)]
pub struct Checker {
    get: Get,
    /// What is still to come, once the length is known.
    chunks: Option<Chunks>,
    is_len_proven: bool,
}

impl Checker {
    /// For the answer to a GET.
    #[must_use]
    pub fn of_get(get: Get) -> Self {
        Self { get, chunks: None, is_len_proven: false }
    }

    /// For an object that is offered with a PUT.
    #[must_use]
    pub fn of_put(id: ObjectId, len: u64) -> Self {
        let get = Get { id, offset: 0, len: u64::MAX, tail: false };
        Self { get, chunks: Some(Chunks::of_put(len)), is_len_proven: false }
    }

    /// Checks a chunk, and returns the part of its body that was asked for: the groups at the ends have more, and all
    /// of the last group may be there for the length's sake only. An error is final.
    ///
    /// # Errors
    /// [`NotTheObject`].
    pub fn check(&mut self, data: &Data) -> Result<Bytes, NotTheObject> {
        let chunks = match &mut self.chunks {
            Some(chunks) => chunks,
            none => none.insert(Chunks::of_get(&self.get, data.object_len).map_err(SliceError::from)?),
        };
        if data.object_len != chunks.object_len {
            return Err(NotTheObject::Length);
        }
        let taken = chunks.take(&data.range()).ok_or(NotTheObject::Order)?;
        verify_slice(self.get.id, data.object_len, data.range(), &data.body, &data.proof)?;
        self.is_len_proven |= data.range().end == data.object_len;
        Ok(match taken {
            Taken::Tail => Bytes::new(),
            Taken::Part => self.asked_for(data),
        })
    }

    /// The object's length, once a chunk with its last byte has proven it.
    #[must_use]
    pub fn proven_len(&self) -> Option<u64> {
        self.chunks.as_ref().filter(|_| self.is_len_proven).map(Chunks::object_len)
    }

    /// END came.
    ///
    /// # Errors
    /// [`NotTheObject::Incomplete`] if chunks are missing.
    pub fn finish(&self) -> Result<(), NotTheObject> {
        match &self.chunks {
            Some(Chunks { tail: None, next: None, .. }) => Ok(()),
            _ => Err(NotTheObject::Incomplete),
        }
    }

    fn asked_for(&self, data: &Data) -> Bytes {
        let inside = |at: u64| {
            let at = at.clamp(data.range().start, data.range().end) - data.offset;
            usize::try_from(at).expect("less than the length of the body")
        };
        data.body.slice(inside(self.get.offset)..inside(self.get.offset.saturating_add(self.get.len)))
    }
}

const _: () = assert!(CHUNK_MAX.is_multiple_of(GROUP_LEN));
