//! What a connection is doing, and what its one timer makes of it.
//!
//! The reader and the writer only store moments. When the timer fires it judges them, and says when to look again.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use types::Moment;

use super::close::CloseReason;

/// Timeouts of peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waits {
    /// From the first byte of a frame to its last.
    pub(crate) read: Duration,
    /// Each wait for the peer to take more.
    pub(crate) write: Duration,
    /// Silence of the peer.
    pub(crate) idle: Duration,
}

/// Stands for "not at the moment".
const NEVER: u64 = u64::MAX;

/// What a connection is doing. Moments in nanoseconds.
#[derive(Debug)]
pub(crate) struct Activity {
    /// When the peer was last heard.
    heard: AtomicU64,
    /// Since when a frame is incomplete.
    partial: AtomicU64,
    /// Since when the peer takes nothing.
    stuck: AtomicU64,
}

/// What is to be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// Check again at this time.
    Wait(Moment),
    /// Ask the peer whether it is there, and look again then.
    Ask(Moment),
    /// The peer exceeded a timeout; close the session.
    Close(CloseReason),
}

impl Activity {
    pub(crate) fn new(now: Moment) -> Self {
        Self {
            heard: AtomicU64::new(now.as_nanos()),
            partial: AtomicU64::new(NEVER),
            stuck: AtomicU64::new(NEVER),
        }
    }

    /// Bytes have come; `partial` says whether the last frame of them is incomplete.
    pub(crate) fn heard(&self, now: Moment, partial: bool) {
        self.heard.store(now.as_nanos(), Relaxed);
        if !partial {
            self.partial.store(NEVER, Relaxed);
        } else if self.partial.load(Relaxed) == NEVER {
            self.partial.store(now.as_nanos(), Relaxed);
        }
    }

    /// A whole frame came and another has begun.
    pub(crate) fn began_anew(&self, now: Moment) {
        self.partial.store(now.as_nanos(), Relaxed);
    }

    /// The writer waits for the peer from now on.
    pub(crate) fn writing(&self, now: Moment) {
        self.stuck.store(now.as_nanos(), Relaxed);
    }

    /// The peer has taken all of it.
    pub(crate) fn written(&self) {
        self.stuck.store(NEVER, Relaxed);
    }

    /// When the peer was last heard.
    pub(crate) fn last_heard(&self) -> Moment {
        Moment::from_nanos(self.heard.load(Relaxed))
    }

    /// Judges what is going on. `asked` is when the peer was asked, if it has said nothing since: it has half of its time to
    /// answer, also if this node came late to ask.
    pub(crate) fn judge(&self, now: Moment, waits: &Waits, asked: Option<Moment>) -> Judgement {
        let since = |at: &AtomicU64| match at.load(Relaxed) {
            NEVER => None,
            at => Some(Moment::from_nanos(at)),
        };
        let answer_by = |asked: Moment| asked.after(waits.idle / 2).max(self.last_heard().after(waits.idle));
        let ends = [
            (since(&self.stuck).map(|at| at.after(waits.write)), CloseReason::WriteTimeout),
            (since(&self.partial).map(|at| at.after(waits.read)), CloseReason::ReadTimeout),
            (asked.map(answer_by), CloseReason::Idle),
        ];
        let mut next = Moment::END;
        for (end, reason) in ends {
            match end {
                Some(end) if now >= end => return Judgement::Close(reason),
                Some(end) => next = next.min(end),
                None => {}
            }
        }
        // What begins right after this look is found out at most so much too late.
        next = next.min(now.after(waits.read.min(waits.write) / 2)).max(now.after(Duration::from_millis(10)));
        let ask_at = self.last_heard().after(waits.idle / 2);
        match asked {
            None if now >= ask_at => Judgement::Ask(next.min(answer_by(now))),
            None => Judgement::Wait(next.min(ask_at)),
            Some(_) => Judgement::Wait(next),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAITS: Waits =
        Waits { read: Duration::from_secs(5), write: Duration::from_secs(5), idle: Duration::from_secs(30) };

    fn at(secs: u64) -> Moment {
        Moment::ORIGIN.after(Duration::from_secs(secs))
    }

    #[test]
    fn a_silent_peer_is_asked_half_way_and_given_up_at_the_end() {
        let activity = Activity::new(at(0));
        let asked = Some(at(15));
        assert!(matches!(activity.judge(at(14), &WAITS, None), Judgement::Wait(_)));
        assert!(matches!(activity.judge(at(15), &WAITS, None), Judgement::Ask(_)));
        assert!(matches!(activity.judge(at(29), &WAITS, asked), Judgement::Wait(_)));
        assert_eq!(activity.judge(at(30), &WAITS, asked), Judgement::Close(CloseReason::Idle));
        activity.heard(at(30), false);
        assert!(matches!(activity.judge(at(44), &WAITS, None), Judgement::Wait(_)));
    }

    #[test]
    fn a_node_that_was_held_up_asks_before_it_gives_a_peer_up() {
        let activity = Activity::new(at(0));
        assert!(matches!(activity.judge(at(100), &WAITS, None), Judgement::Ask(_)));
        assert!(matches!(activity.judge(at(114), &WAITS, Some(at(100))), Judgement::Wait(_)));
        assert_eq!(activity.judge(at(115), &WAITS, Some(at(100))), Judgement::Close(CloseReason::Idle));
    }

    #[test]
    fn a_frame_that_trickles_has_no_more_time_than_one_that_stalls() {
        let activity = Activity::new(at(0));
        for second in 1..6 {
            activity.heard(at(second), true);
            assert!(matches!(activity.judge(at(second), &WAITS, None), Judgement::Wait(_)), "{second}");
        }
        assert_eq!(activity.judge(at(6), &WAITS, None), Judgement::Close(CloseReason::ReadTimeout));
        activity.began_anew(at(6));
        assert!(matches!(activity.judge(at(10), &WAITS, None), Judgement::Wait(_)));
    }

    #[test]
    fn a_peer_that_takes_nothing_is_given_up() {
        let activity = Activity::new(at(0));
        activity.writing(at(1));
        assert!(matches!(activity.judge(at(5), &WAITS, None), Judgement::Wait(_)));
        assert_eq!(activity.judge(at(6), &WAITS, None), Judgement::Close(CloseReason::WriteTimeout));
        activity.written();
        assert!(matches!(activity.judge(at(6), &WAITS, None), Judgement::Wait(_)));
    }
}
