//! What can go wrong between a caller and the overlay, in one list: each with its answer, whether to try again, and the
//! metric that counts it.
//!
//! | error | answer | again? | counted in |
//! |---|---|---|---|
//! | `Busy` | 429 `busy` | yes | `busy_rejections_total`, `queue_dropped_total` |
//! | `Timeout` | 504 `downstream_timeout` | yes | `io_timeouts_total{op}` |
//! | `Canceled` | 503 `draining` | no | `tasks_canceled_total{kind}` |
//! | `FrameTooLarge` | 413 `body_cap` | no | `frame_reject_total{reason="size"}` |
//! | `Degraded` | 503 `degraded` | yes | `readyz_degraded{cause}`, `overlay_published_total{verdict="refused"}` |
//! | `TooManyTopics` | 429 `quota` | no | `rejected_total{reason="quota"}`, `overlay_topics_refused_total{limit="application"}` |
//! | `TooManyPatterns` | 429 `quota` | no | `rejected_total{reason="quota"}`, `overlay_topics_refused_total{limit="patterns"}` |
//!
//! Two things are told elsewhere, because no caller waits for them: a subscriber that falls behind gets
//! [`Delivery::Lagging`](crate::Delivery) with the number it missed (`overlay_lost_total{reason="lagging"}`), and a peer that
//! is too slow loses its own frames, by name (`backpressure_events_total{peer}`).

use ron_kernel::{Fault, queue::SendError, retry::Retryable};
use types::{Reason, Refusal};

/// Why the overlay did not do what it was asked to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverlayError {
    /// A queue is full.
    #[error("too much is waiting already")]
    Busy,
    /// It did not end in time.
    #[error("{op} took too long")]
    Timeout {
        /// The operation that timed out, as it appears in `io_timeouts_total`.
        op: &'static str,
    },
    /// The node is shutting down.
    #[error("the node is stopping")]
    Canceled,
    /// A publication has at most 64 KiB.
    #[error("a publication has at most {} bytes", oap::PUBLICATION_MAX)]
    FrameTooLarge,
    /// Publications are refused for now: a condition with the effect `shed_writes` stands.
    #[error("publications are refused for now; /readyz says why")]
    Degraded,
    /// The node takes part in as many topics as this application, or all of them, may have it take part in.
    #[error(
        "there are too many topics for another one of this token or address: see `overlay.gossip.max_topics`"
    )]
    TooManyTopics,
    /// Other nodes could not be told of all patterns of the subscription, so that it would hear nothing from them.
    #[error(transparent)]
    TooManyPatterns(#[from] topics::TooManyPatterns),
}

impl OverlayError {
    /// Returns the reason that a client is given.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Busy => Reason::Busy,
            Self::Timeout { .. } => Reason::DownstreamTimeout,
            Self::Canceled => Reason::Draining,
            Self::FrameTooLarge => Reason::BodyCap,
            Self::Degraded => Reason::Degraded,
            Self::TooManyTopics | Self::TooManyPatterns(_) => Reason::Quota,
        }
    }
}

impl Retryable for OverlayError {
    fn retryable(&self) -> bool {
        matches!(self, Self::Busy | Self::Timeout { .. } | Self::Degraded)
    }
}

impl<T> From<SendError<T>> for OverlayError {
    fn from(error: SendError<T>) -> Self {
        match error {
            SendError::Busy(_) => Self::Busy,
            SendError::Closed(_) => Self::Canceled,
        }
    }
}

impl From<OverlayError> for Refusal {
    fn from(error: OverlayError) -> Self {
        match error {
            OverlayError::Busy => Fault::Busy.into(),
            OverlayError::Canceled => Fault::Canceled.into(),
            OverlayError::Degraded => Fault::Degraded.into(),
            OverlayError::Timeout { op } => Fault::Timeout { op }.into(),
            other => Self::new(other.reason(), other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_has_one_answer_and_says_whether_to_come_back() {
        for (error, reason, status, again) in [
            (OverlayError::Busy, Reason::Busy, 429, true),
            (OverlayError::Timeout { op: "write" }, Reason::DownstreamTimeout, 504, true),
            (OverlayError::Canceled, Reason::Draining, 503, false),
            (OverlayError::FrameTooLarge, Reason::BodyCap, 413, false),
            (OverlayError::TooManyTopics, Reason::Quota, 429, false),
            (topics::TooManyPatterns { most: 32, held: 24 }.into(), Reason::Quota, 429, false),
            (OverlayError::Degraded, Reason::Degraded, 503, true),
        ] {
            assert_eq!((error.reason(), error.retryable()), (reason, again), "{error}");
            let refusal = Refusal::from(error);
            assert_eq!((refusal.reason, refusal.reason.status()), (reason, status));
        }
    }
}
