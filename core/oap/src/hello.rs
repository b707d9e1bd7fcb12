//! The first frame of either side, and what two of them come to.

use std::fmt;

use bytes::Bytes;
use types::NodeId;

use crate::topic::Topic;

/// What every HELLO begins with.
pub const MAGIC: [u8; 4] = *b"OAP\n";

/// The version that is spoken here.
pub const VERSION: u16 = 1;

/// The most topics in a HELLO; more are announced by SUB.
pub const HELLO_TOPICS_MAX: usize = 256;

/// The most bytes of a token in a HELLO.
pub const TOKEN_MAX: usize = 4096;

/// Says who is there, and what it is ready for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The highest version that is spoken.
    pub version: u16,
    /// Who is there. Whether it is true is for the transport to prove.
    pub node: NodeId,
    /// What is understood beyond the version's least.
    pub features: Features,
    /// The longest frame that is read, counted as in its length field.
    pub max_frame: u32,
    /// Bytes of DATA that may be sent on a new stream before the first ACK.
    pub credit: u32,
    /// How many streams the other side may have open at a time.
    pub max_streams: u16,
    /// What admits the sender where its key is not listed.
    pub token: Option<Token>,
    /// What the sender takes part in.
    pub topics: Vec<Topic>,
}

/// A set of features, one bit each. Unknown bits are kept out of what is agreed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features(u32);

/// A capability token: a secret, never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Bytes);

impl Features {
    /// Nothing beyond the least.
    pub const NONE: Self = Self(0);
    /// Every frame after HELLO ends with a checksum.
    pub const CRC32C: Self = Self(1);
    /// Gossip frames are understood.
    pub const GOSSIP: Self = Self(2);
    /// Objects are served and taken.
    pub const OBJECTS: Self = Self(4);

    /// The set with these bits, whether they are known or not.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The bits.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// What is in both.
    #[must_use]
    pub const fn common(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// What is in either.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` is in the set.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl Token {
    /// A token as it is sent: 1 to [`TOKEN_MAX`] bytes, [`None`] otherwise.
    #[must_use]
    pub fn new(bytes: Bytes) -> Option<Self> {
        (1..=TOKEN_MAX).contains(&bytes.len()).then_some(Self(bytes))
    }

    /// The bytes, for whoever checks them.
    #[must_use]
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}
