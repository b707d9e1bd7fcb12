//! The one reader of bytes that somebody else wrote, and its counterpart: every read is checked against the end.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use types::NodeId;

use crate::{
    decode::DecodeError,
    gossip::{Entry, Head, Proof},
    topic::Topic,
};

/// The bytes of an [`Entry`].
pub(crate) const ENTRY_LEN: usize = 48;

/// The bytes of a [`Head`].
const HEAD_LEN: usize = ENTRY_LEN + 96;

/// Reads fields from the front of a header or body.
pub(crate) struct Reader(Bytes);

impl Reader {
    pub(crate) fn new(bytes: Bytes) -> Self {
        Self(bytes)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        self.0.try_get_u8().map_err(|_| DecodeError::Truncated)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, DecodeError> {
        self.0.try_get_u16().map_err(|_| DecodeError::Truncated)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        self.0.try_get_u32().map_err(|_| DecodeError::Truncated)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, DecodeError> {
        self.0.try_get_u64().map_err(|_| DecodeError::Truncated)
    }

    /// One or zero; there is one way to write either.
    pub(crate) fn flag(&mut self) -> Result<bool, DecodeError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError::Field),
        }
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let mut array = [0; N];
        self.0.try_copy_to_slice(&mut array).map_err(|_| DecodeError::Truncated)?;
        Ok(array)
    }

    /// The next `len` bytes, shared with the frame.
    pub(crate) fn bytes(&mut self, len: usize) -> Result<Bytes, DecodeError> {
        if len > self.0.len() {
            return Err(DecodeError::Truncated);
        }
        Ok(self.0.split_to(len))
    }

    /// A topic's name behind its length. The last one that was read is given again instead of being rebuilt: most
    /// frames of a connection are of few topics.
    pub(crate) fn topic(&mut self, last: &mut Option<Topic>) -> Result<Topic, DecodeError> {
        let len = self.u8()?;
        let name = self.bytes(len.into())?;
        match last {
            Some(topic) if topic.as_str().as_bytes() == name => Ok(topic.clone()),
            _ => {
                let name = str::from_utf8(&name).map_err(|_| DecodeError::Topic)?;
                let topic = Topic::new(name).map_err(|_| DecodeError::Topic)?;
                Ok(last.insert(topic).clone())
            }
        }
    }

    pub(crate) fn entry(&mut self) -> Result<Entry, DecodeError> {
        let publisher = NodeId::new(self.array()?);
        Ok(Entry { publisher, incarnation: self.u64()?, seq: self.u64()? })
    }

    /// So many entries. The room for them is asked for after the bytes are known to be there.
    pub(crate) fn entries(&mut self, count: usize) -> Result<Vec<Entry>, DecodeError> {
        if count.checked_mul(ENTRY_LEN).is_none_or(|len| len > self.0.len()) {
            return Err(DecodeError::Truncated);
        }
        (0..count).map(|_| self.entry()).collect()
    }

    pub(crate) fn proof(&mut self) -> Result<Proof, DecodeError> {
        Ok(Proof { key: self.array()?, signature: self.array()? })
    }

    /// So many heads. The room for them is asked for after the bytes are known to be there.
    pub(crate) fn heads(&mut self, count: usize) -> Result<Vec<Head>, DecodeError> {
        if count.checked_mul(HEAD_LEN).is_none_or(|len| len > self.0.len()) {
            return Err(DecodeError::Truncated);
        }
        (0..count).map(|_| Ok(Head { entry: self.entry()?, proof: self.proof()? })).collect()
    }

    /// Entries up to the end.
    pub(crate) fn all_entries(&mut self) -> Result<Vec<Entry>, DecodeError> {
        self.entries(self.0.len().div_ceil(ENTRY_LEN))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Everything that is left.
    pub(crate) fn rest(self) -> Bytes {
        self.0
    }

    /// Nothing may be left.
    pub(crate) fn end(self) -> Result<(), DecodeError> {
        if self.0.is_empty() { Ok(()) } else { Err(DecodeError::Trailing) }
    }
}

/// A topic's name behind its length.
pub(crate) fn put_topic(out: &mut BytesMut, topic: &Topic) {
    let name = topic.as_str().as_bytes();
    out.put_u8(u8::try_from(name.len()).expect("a topic's name has at most 128 bytes"));
    out.put_slice(name);
}

/// A publisher's key and its signature of a head.
pub(crate) fn put_proof(out: &mut BytesMut, proof: &Proof) {
    out.put_slice(&proof.key);
    out.put_slice(&proof.signature);
}

pub(crate) fn put_entry(out: &mut BytesMut, entry: &Entry) {
    out.put_slice(entry.publisher.as_bytes());
    out.put_u64(entry.incarnation);
    out.put_u64(entry.seq);
}
