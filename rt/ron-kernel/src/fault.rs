//! What can go wrong between a caller and the kernel, in one list: each with its answer to the caller, whether to try
//! again, and the metric that counts it.
//!
//! | fault | answer | again? | counted in |
//! |---|---|---|---|
//! | `Busy` | 429 `busy` | yes | `busy_rejections_total`, `queue_dropped_total` |
//! | `Timeout` | 504 `downstream_timeout` | yes | `io_timeouts_total{op}` |
//! | `Canceled` | 503 `draining` | no | `tasks_canceled_total{kind}` |
//! | `Lagging` | 500 `internal` | no | `bus_lagged_total{bus}` |
//! | `Degraded` | 503 `degraded` | yes | `readyz_degraded{cause}` |
//! | `Panicked` | 500 `internal` | no | `tasks_panicked_total{kind}` |

use std::time::Duration;

use types::{Reason, Refusal};

use crate::{blocking::BlockingError, queue::SendError, retry::Retryable};

/// When to come back after a fault that passes by itself.
const COME_BACK: Duration = Duration::from_secs(1);

/// Why the kernel did not do what it was asked to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A queue or a pool is full.
    #[error("too much is waiting already")]
    Busy,
    /// An operation did not end in time.
    #[error("{op} took too long")]
    Timeout {
        /// Which, as in `io_timeouts_total`: read, write, connect, rpc, fill, handshake.
        op: &'static str,
    },
    /// The node is shutting down, and the task that would have done it has ended.
    #[error("the node is stopping")]
    Canceled,
    /// A subscriber was too slow for its bus. It goes on with what is left.
    #[error("{missed} events were missed")]
    Lagging {
        /// How many events are lost to it.
        missed: u64,
    },
    /// The service refuses writes for now.
    #[error("writes are refused for now; /readyz says why")]
    Degraded,
    /// The job panicked; the panic was caught.
    #[error("{job} {message}")]
    Panicked {
        /// The name of the job.
        job: &'static str,
        /// The message of the panic.
        message: String,
    },
}

impl Fault {
    /// Returns the reason that a client is given.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Busy => Reason::Busy,
            Self::Timeout { .. } => Reason::DownstreamTimeout,
            Self::Canceled => Reason::Draining,
            Self::Degraded => Reason::Degraded,
            Self::Lagging { .. } | Self::Panicked { .. } => Reason::Internal,
        }
    }
}

impl Retryable for Fault {
    /// Whether asking this node again may help. A client that was told `draining` may have more luck elsewhere; here the
    /// node is going away.
    fn retryable(&self) -> bool {
        matches!(self, Self::Busy | Self::Timeout { .. } | Self::Degraded)
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        let reason = fault.reason();
        match fault {
            Fault::Busy | Fault::Degraded => Self::new(reason, fault.to_string()).retry_after(COME_BACK),
            // The message may hold anything; it is in the log.
            Fault::Panicked { .. } => reason.into(),
            _ => Self::new(reason, fault.to_string()),
        }
    }
}

impl<T> From<SendError<T>> for Fault {
    fn from(error: SendError<T>) -> Self {
        match error {
            SendError::Busy(_) => Self::Busy,
            SendError::Closed(_) => Self::Canceled,
        }
    }
}

impl From<BlockingError> for Fault {
    fn from(error: BlockingError) -> Self {
        match error {
            BlockingError::Busy => Self::Busy,
            BlockingError::Stopped => Self::Canceled,
            BlockingError::Panicked { job, fault } => Self::Panicked { job, message: fault },
        }
    }
}
