//! The first frame of either side, and what two of them come to.

use std::fmt;

use bytes::Bytes;
use types::NodeId;

use crate::{
    code::ErrorCode,
    frame::{Decoder, FRAME_FLOOR, FRAME_MAX},
    topic::Topic,
};

/// The first four bytes of every HELLO.
pub const MAGIC: [u8; 4] = *b"OAP\n";

/// The version that is spoken here.
pub const VERSION: u16 = 1;

/// The most topics in a HELLO; more are announced by SUB.
pub const HELLO_TOPICS_MAX: usize = 256;

/// The most bytes of a token in a HELLO.
pub const TOKEN_MAX: usize = 4096;

/// The least credit a stream may start with: the largest DATA frame fits into it.
pub const CREDIT_FLOOR: u32 = 128 * 1024;

/// The most bytes of DATA that may be on the way on one stream.
pub const CREDIT_MAX: u32 = 16 * 1024 * 1024;

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
    /// Frames a second that the sender of this takes, beside DATA, END, ACK, PONG, ERROR and GOAWAY; zero for no limit.
    pub rate: u32,
    /// What admits the sender where its key is not listed.
    pub token: Option<Token>,
    /// What the sender takes part in.
    pub topics: Vec<Topic>,
}

/// What two HELLOs come to: of everything the lesser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// The version that both speak.
    pub version: u16,
    /// The features that both sides support.
    pub features: Features,
    /// The longest frame that either side sends.
    pub max_frame: u32,
    /// Bytes of DATA that we may send on a new stream.
    pub send_credit: u32,
    /// Bytes of DATA that the other side may send on a new stream.
    pub receive_credit: u32,
    /// How many streams we may have open at a time.
    pub our_streams: u16,
    /// How many streams the other side may have open at a time.
    pub their_streams: u16,
    /// Frames a second that the other side takes; zero for no limit.
    pub send_rate: u32,
}

/// Two HELLOs with nothing in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAgreement {
    /// The other side reads frames that are too short for what it may have to be sent.
    #[error("frames of at most {0} bytes are too short")]
    MaxFrame(u32),
    /// The other side takes too little for a chunk, or more than there may be on the way.
    #[error("a credit of {0} bytes is out of bounds")]
    Credit(u32),
    /// The other side says it is us.
    #[error("both ends have the same name")]
    Ourselves,
}

/// A set of features, one bit each. Unknown bits are kept out of what is agreed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features(u32);

/// A capability token: a secret, never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Bytes);

impl Hello {
    /// What this, sent by us, and the other side's come to.
    ///
    /// # Errors
    /// [`NoAgreement`].
    pub fn agree(&self, theirs: &Self) -> Result<Agreed, NoAgreement> {
        if theirs.node == self.node {
            return Err(NoAgreement::Ourselves);
        }
        if theirs.max_frame < FRAME_FLOOR {
            return Err(NoAgreement::MaxFrame(theirs.max_frame));
        }
        if !(CREDIT_FLOOR..=CREDIT_MAX).contains(&theirs.credit) {
            return Err(NoAgreement::Credit(theirs.credit));
        }
        Ok(Agreed {
            version: self.version.min(theirs.version).min(VERSION),
            features: self.features.common(theirs.features),
            max_frame: self.max_frame.min(theirs.max_frame).min(FRAME_MAX),
            send_credit: theirs.credit,
            receive_credit: self.credit,
            our_streams: theirs.max_streams,
            their_streams: self.max_streams,
            send_rate: theirs.rate,
        })
    }
}

impl Agreed {
    /// Reads what follows the HELLOs.
    #[must_use]
    pub fn decoder(&self) -> Decoder {
        Decoder::new(self.max_frame, self.has_checksums())
    }

    /// Whether the frames after HELLO have checksums.
    #[must_use]
    pub fn has_checksums(&self) -> bool {
        self.features.has(Features::CRC32C)
    }
}

impl NoAgreement {
    /// What the other side is told.
    #[must_use]
    pub fn code(self) -> ErrorCode {
        match self {
            Self::MaxFrame(_) | Self::Credit(_) => ErrorCode::Limit,
            Self::Ourselves => ErrorCode::Duplicate,
        }
    }
}

impl Features {
    /// Nothing beyond the least.
    pub const NONE: Self = Self(0);
    /// Every frame after HELLO ends with a checksum.
    pub const CRC32C: Self = Self(1);
    /// Objects are served and taken.
    pub const OBJECTS: Self = Self(2);
    /// Patterns of topics are told and passed on.
    pub const PATTERNS: Self = Self(4);

    /// The set with these bits, whether they are known or not.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Returns the features as a bit set.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Returns the features that are in both sets.
    #[must_use]
    pub const fn common(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the features that are in either set.
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

    /// Returns the bytes, for verification.
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
