//! What can go wrong.

use std::time::Duration;

use serde::Deserialize;

/// The reason why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be used.
    #[error("not the address of a node: {0}")]
    Address(String),
    /// The node cannot be reached, or the connection broke.
    #[error("the connection failed: {0}")]
    Connection(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The node does not do it, and says why.
    #[error("{status} {reason}: {detail}")]
    Refused {
        /// The status of HTTP.
        status: u16,
        /// One of a fixed list, such as `busy` or `forbidden`.
        reason: String,
        /// What is the matter, for people.
        detail: String,
        /// When to come back, if the node says so.
        retry_after: Option<Duration>,
        /// What the node's log calls the request.
        corr_id: Option<String>,
    },
    /// The node says what this version does not understand.
    #[error("the node's answer is not understood: {0}")]
    Answer(#[from] serde_json::Error),
}

impl Error {
    /// Whether the same may succeed a little later.
    #[must_use]
    pub fn passes(&self) -> bool {
        match self {
            Self::Connection(_) => true,
            Self::Refused { status, .. } => matches!(status, 429 | 502 | 503 | 504),
            Self::Address(_) | Self::Answer(_) => false,
        }
    }

    /// When to come back, if the node says so.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    pub(crate) fn connection(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Connection(error.into())
    }

    /// What a node says in a problem document.
    pub(crate) fn refused(status: u16, document: &[u8]) -> Self {
        let problem: Problem = serde_json::from_slice(document).unwrap_or_default();
        Self::Refused {
            status,
            reason: problem.reason,
            detail: problem.detail,
            retry_after: problem.retry_after_ms.map(Duration::from_millis),
            corr_id: problem.corr_id,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Problem {
    reason: String,
    detail: String,
    retry_after_ms: Option<u64>,
    corr_id: Option<String>,
}
