//! Why a session ended.

use std::{fmt, sync::OnceLock};

use oap::ErrorCode;
use tokio::sync::Notify;

/// Why a session ended, or did not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum CloseReason {
    /// The peer closed it.
    PeerClosed,
    /// The socket failed.
    Broken,
    /// The peer broke the protocol, or was refused.
    Refused(ErrorCode),
    /// The peer refused us.
    RefusedByPeer(ErrorCode),
    /// A frame did not arrive whole in time.
    ReadTimeout,
    /// The peer took nothing for too long.
    WriteTimeout,
    /// The peer was silent for too long.
    Idle,
    /// The peer did not read the answers to what it asked.
    NeverReads,
    /// There is another connection between the two nodes.
    Duplicate,
    /// The peer is not in the configuration any more.
    Removed,
    /// The node is draining.
    Draining,
    /// The reader or the writer is gone.
    Crashed,
}

impl CloseReason {
    /// Every label there is, for metrics.
    pub(crate) const LABELS: [&'static str; 12] = [
        "peer_closed",
        "broken",
        "refused",
        "refused_by_peer",
        "read_timeout",
        "write_timeout",
        "idle",
        "never_reads",
        "duplicate",
        "removed",
        "draining",
        "crashed",
    ];

    /// Returns the index among the metric labels.
    pub(crate) const fn index(self) -> usize {
        match self {
            Self::PeerClosed => 0,
            Self::Broken => 1,
            Self::Refused(_) => 2,
            Self::RefusedByPeer(_) => 3,
            Self::ReadTimeout => 4,
            Self::WriteTimeout => 5,
            Self::Idle => 6,
            Self::NeverReads => 7,
            Self::Duplicate => 8,
            Self::Removed => 9,
            Self::Draining => 10,
            Self::Crashed => 11,
        }
    }

    /// What the peer is told for people to read.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Refused(code) => code.name(),
            Self::ReadTimeout => "a frame did not arrive whole in time",
            Self::Idle => "nothing was heard for too long",
            Self::NeverReads => "too many answers are unread",
            Self::Duplicate => "another connection between the two nodes is kept",
            Self::Removed => "the node is not listed any more",
            Self::Draining => "the node stops",
            Self::Crashed => "a task of the session failed",
            Self::PeerClosed | Self::Broken | Self::RefusedByPeer(_) | Self::WriteTimeout => "",
        }
    }

    /// What the peer is told, if it can still be told anything.
    pub(crate) const fn told(self) -> Option<ErrorCode> {
        match self {
            Self::PeerClosed | Self::Broken | Self::RefusedByPeer(_) | Self::WriteTimeout => None,
            Self::Refused(code) => Some(code),
            Self::ReadTimeout | Self::Idle => Some(ErrorCode::Timeout),
            Self::NeverReads => Some(ErrorCode::Busy),
            Self::Duplicate => Some(ErrorCode::Duplicate),
            Self::Removed => Some(ErrorCode::None),
            Self::Draining => Some(ErrorCode::Draining),
            Self::Crashed => Some(ErrorCode::Internal),
        }
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::LABELS[self.index()])?;
        match self {
            Self::Refused(code) | Self::RefusedByPeer(code) => write!(f, " ({code:?})"),
            _ => Ok(()),
        }
    }
}

/// The end of a session: said once, heard by all its tasks.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    reason: OnceLock<CloseReason>,
    said: Notify,
}

impl Ending {
    /// Says it; returns whether it was the first to.
    pub(crate) fn say(&self, reason: CloseReason) -> bool {
        let first = self.reason.set(reason).is_ok();
        if first {
            self.said.notify_waiters();
        }
        first
    }

    /// The reason, once it was said.
    pub(crate) fn reason(&self) -> Option<CloseReason> {
        self.reason.get().copied()
    }

    /// Resolves once it was said.
    ///
    /// Cancel safe.
    pub(crate) async fn heard(&self) -> CloseReason {
        loop {
            let mut said = std::pin::pin!(self.said.notified());
            // From here on nothing is missed, so the look that follows decides.
            said.as_mut().enable();
            if let Some(reason) = self.reason() {
                return reason;
            }
            said.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_reason_stands_and_everybody_hears_it() {
        let ending = Ending::default();
        let (one, other, ()) = tokio::join!(ending.heard(), ending.heard(), async {
            assert!(ending.say(CloseReason::Idle));
            assert!(!ending.say(CloseReason::Broken));
        });
        assert_eq!(
            (one, other, ending.heard().await),
            (CloseReason::Idle, CloseReason::Idle, CloseReason::Idle)
        );
    }
}
