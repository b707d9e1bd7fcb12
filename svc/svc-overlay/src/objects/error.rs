//! Why an object was not had or not handed over, in one list.
//!
//! | error | answer | again? |
//! |---|---|---|
//! | `NotFound` | 404 `not_found` | no |
//! | `Range` | 416 `invalid_range` | no |
//! | `Mismatch` | 502 `bad_gateway` | another peer may do better |
//! | `Broken` | 502 `bad_gateway` | yes |
//! | `Silent` | 504 `downstream_timeout` | yes |
//! | `Busy` | 429 `busy` | yes |
//! | `TooLarge` | 413 `body_cap` | no |
//! | `NoPeer` | 404 `not_found` | once there is a session |
//! | `Refused` | 502 `bad_gateway` | no |
//! | `Store` | 500 `internal` | no |

use cas::WriteError;
use oap::{ErrorCode, Fault, OpenError};
use ron_kernel::blocking::BlockingError;
use types::{NodeId, Reason, Refusal};

use super::{line::Stop, store::StoreError};

/// Why an object was not had or not handed over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// Neither this node nor a peer has the object.
    #[error("nobody has this object")]
    NotFound,
    /// The object has no such range.
    #[error("the object has no such part")]
    Range,
    /// A peer sent bytes that are not the object's.
    #[error("the bytes that came are not the object's")]
    Mismatch,
    /// The session with the peer ended.
    #[error("the session with the peer has ended")]
    Broken,
    /// A peer said nothing for too long.
    #[error("the peer was silent for too long")]
    Silent,
    /// Too much is going on, here or there.
    #[error("too many transfers are in progress; try again later")]
    Busy,
    /// It is larger than is taken, here or there.
    #[error("the object is larger than allowed")]
    TooLarge,
    /// There is no session with that peer.
    #[error("there is no session with {0}")]
    NoPeer(NodeId),
    /// The peer refused it.
    #[error("the peer refused: {0}")]
    Refused(ErrorCode),
    /// The local store failed.
    #[error("the store failed: {0}")]
    Store(String),
}

impl ObjectError {
    /// Returns the reason that a client is given.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self {
            Self::NotFound | Self::NoPeer(_) => Reason::NotFound,
            Self::Range => Reason::InvalidRange,
            Self::Mismatch | Self::Broken | Self::Refused(_) => Reason::BadGateway,
            Self::Silent => Reason::DownstreamTimeout,
            Self::Busy => Reason::Busy,
            Self::TooLarge => Reason::BodyCap,
            Self::Store(_) => Reason::Internal,
        }
    }
}

impl From<ObjectError> for Refusal {
    fn from(error: ObjectError) -> Self {
        // What the store says is for operators.
        match error {
            ObjectError::Store(_) => Self::new(Reason::Internal, "the store failed"),
            other => Self::new(other.reason(), other.to_string()),
        }
    }
}

impl From<Stop> for ObjectError {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Reset(fault) => Self::from(&fault),
            Stop::Gone => Self::Broken,
            Stop::Silent => Self::Silent,
        }
    }
}

impl From<&Fault> for ObjectError {
    fn from(fault: &Fault) -> Self {
        match fault.code {
            ErrorCode::NotFound => Self::NotFound,
            ErrorCode::Range => Self::Range,
            ErrorCode::Busy | ErrorCode::Quota | ErrorCode::Limit => Self::Busy,
            ErrorCode::TooLarge => Self::TooLarge,
            ErrorCode::Timeout => Self::Silent,
            ErrorCode::Draining => Self::Broken,
            other => Self::Refused(other),
        }
    }
}

impl From<StoreError> for ObjectError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Object(_) => Self::Mismatch,
            StoreError::Write(WriteError::TooLarge) => Self::TooLarge,
            StoreError::Write(WriteError::Full) | StoreError::Blocking(BlockingError::Busy) => Self::Busy,
            other => Self::Store(other.to_string()),
        }
    }
}

impl From<OpenError> for ObjectError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Full => Self::Busy,
            OpenError::Goaway | OpenError::Exhausted => Self::Broken,
            OpenError::NoObjects => Self::NotFound,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_has_one_answer_and_the_stores_words_stay_here() {
        let peer = NodeId::new([1; 32]);
        for (error, reason, status) in [
            (ObjectError::NotFound, Reason::NotFound, 404),
            (ObjectError::NoPeer(peer), Reason::NotFound, 404),
            (ObjectError::Range, Reason::InvalidRange, 416),
            (ObjectError::Mismatch, Reason::BadGateway, 502),
            (ObjectError::Broken, Reason::BadGateway, 502),
            (ObjectError::Refused(ErrorCode::Forbidden), Reason::BadGateway, 502),
            (ObjectError::Silent, Reason::DownstreamTimeout, 504),
            (ObjectError::Busy, Reason::Busy, 429),
            (ObjectError::TooLarge, Reason::BodyCap, 413),
            (ObjectError::Store("/var/lib/secret".to_owned()), Reason::Internal, 500),
        ] {
            let refusal = Refusal::from(error);
            assert_eq!((refusal.reason, refusal.reason.status()), (reason, status));
            assert!(!refusal.to_string().contains("secret"), "{refusal}");
        }
    }

    #[test]
    fn what_a_peer_says_is_what_is_heard() {
        for (code, error) in [
            (ErrorCode::NotFound, ObjectError::NotFound),
            (ErrorCode::Range, ObjectError::Range),
            (ErrorCode::Busy, ObjectError::Busy),
            (ErrorCode::Quota, ObjectError::Busy),
            (ErrorCode::Limit, ObjectError::Busy),
            (ErrorCode::TooLarge, ObjectError::TooLarge),
            (ErrorCode::Timeout, ObjectError::Silent),
            (ErrorCode::Draining, ObjectError::Broken),
            (ErrorCode::Mismatch, ObjectError::Refused(ErrorCode::Mismatch)),
        ] {
            assert_eq!(ObjectError::from(&Fault::new(code, "")), error);
        }
    }
}
