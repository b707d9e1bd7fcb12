//! Bytes for hashing: every value in one way only, every text behind its length.

use crate::{Amount, Floor, Hash};

/// What is hashed, told apart by the first byte, so that a hash of one thing never is a hash of another.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(crate) enum Tag {
    Request = 0x00,
    Node = 0x01,
    Entry = 0x02,
    Link = 0x03,
    Body = 0x04,
    Account = 0x05,
}

/// A buffer that is filled and hashed, again and again.
#[derive(Debug)]
pub(crate) struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    pub(crate) fn new() -> Self {
        Self { bytes: Vec::with_capacity(512) }
    }

    /// Starts the encoding of a value of this kind.
    pub(crate) fn begin(&mut self, tag: Tag) -> &mut Self {
        self.bytes.clear();
        self.byte(tag as u8)
    }

    pub(crate) fn byte(&mut self, byte: u8) -> &mut Self {
        self.bytes.push(byte);
        self
    }

    pub(crate) fn number(&mut self, number: u64) -> &mut Self {
        self.bytes.extend_from_slice(&number.to_be_bytes());
        self
    }

    pub(crate) fn balance(&mut self, balance: i128) -> &mut Self {
        self.bytes.extend_from_slice(&balance.to_be_bytes());
        self
    }

    pub(crate) fn amount(&mut self, amount: Amount) -> &mut Self {
        self.balance(amount.get())
    }

    pub(crate) fn hash(&mut self, hash: &Hash) -> &mut Self {
        self.bytes.extend_from_slice(hash);
        self
    }

    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        // Names are at most 256 bytes.
        let len = u16::try_from(text.len()).expect("names are bounded when they are made");
        self.bytes.extend_from_slice(&len.to_be_bytes());
        self.bytes.extend_from_slice(text.as_bytes());
        self
    }

    pub(crate) fn floor(&mut self, floor: Floor) -> &mut Self {
        match floor {
            Floor::Overdraft(amount) => self.byte(0).amount(amount),
            Floor::Unlimited => self.byte(1),
        }
    }

    /// The hash of what was put since [`Self::begin`].
    pub(crate) fn finish(&self) -> Hash {
        *blake3::hash(&self.bytes).as_bytes()
    }
}
