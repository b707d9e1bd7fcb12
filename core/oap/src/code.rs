//! The reasons of ERROR and GOAWAY.

use std::fmt;

/// The closed list of reasons of ERROR and GOAWAY, each with one number and one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
pub enum ErrorCode {
    /// Nothing is wrong: the connection is not needed any more.
    None = 0,
    /// The frame or message breaks the protocol.
    Malformed = 1,
    /// The frame is longer than was agreed.
    FrameCap = 2,
    /// A kind of frame that is not known.
    UnknownKind = 3,
    /// The two sides have no common version.
    Version = 4,
    /// A good message at the wrong time.
    OutOfOrder = 5,
    /// The checksum is not that of the frame.
    Checksum = 6,
    /// Not a peer of this node, or its token is not good.
    Unauth = 7,
    /// A peer that may not do this.
    Forbidden = 8,
    /// Too much at the moment.
    Busy = 9,
    /// More than the peer's rate or budget.
    Quota = 10,
    /// More streams, topics or credit than was agreed.
    Limit = 11,
    /// The object does not exist here.
    NotFound = 12,
    /// No such range of the object.
    Range = 13,
    /// The bytes are not what their name or signature says.
    Mismatch = 14,
    /// The object is larger than is taken.
    TooLarge = 15,
    /// Too slow, or silent for too long.
    Timeout = 16,
    /// The node is going away.
    Draining = 17,
    /// There is another connection between the two nodes, which is kept.
    Duplicate = 18,
    /// The requester no longer wants it.
    Cancelled = 19,
    /// A fault of the sender's own.
    Internal = 20,
}

impl ErrorCode {
    /// Every reason, by its number.
    pub const ALL: [Self; 21] = [
        Self::None,
        Self::Malformed,
        Self::FrameCap,
        Self::UnknownKind,
        Self::Version,
        Self::OutOfOrder,
        Self::Checksum,
        Self::Unauth,
        Self::Forbidden,
        Self::Busy,
        Self::Quota,
        Self::Limit,
        Self::NotFound,
        Self::Range,
        Self::Mismatch,
        Self::TooLarge,
        Self::Timeout,
        Self::Draining,
        Self::Duplicate,
        Self::Cancelled,
        Self::Internal,
    ];

    /// The reason with this number.
    #[must_use]
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Its name in metrics, logs and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Malformed => "malformed",
            Self::FrameCap => "frame_cap",
            Self::UnknownKind => "unknown_kind",
            Self::Version => "version",
            Self::OutOfOrder => "out_of_order",
            Self::Checksum => "checksum",
            Self::Unauth => "unauth",
            Self::Forbidden => "forbidden",
            Self::Busy => "busy",
            Self::Quota => "quota",
            Self::Limit => "limit",
            Self::NotFound => "not_found",
            Self::Range => "range",
            Self::Mismatch => "mismatch",
            Self::TooLarge => "too_large",
            Self::Timeout => "timeout",
            Self::Draining => "draining",
            Self::Duplicate => "duplicate",
            Self::Cancelled => "cancelled",
            Self::Internal => "internal",
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_found_by_its_number() {
        for (number, code) in (0..).zip(ErrorCode::ALL) {
            assert_eq!((code as u16, ErrorCode::from_number(number)), (number, Some(code)));
        }
        assert_eq!(ErrorCode::from_number(21), None);
    }
}
