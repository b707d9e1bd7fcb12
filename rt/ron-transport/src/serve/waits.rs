//! Which requests of a connection wait for the client: request bodies for more bytes, responses for room.
//!
//! An HTTP/2 connection has many of each. What counts is whether the connection gets on: a client that serves its
//! streams one after the other over a slow line is slow, not stuck. So all streams together have to move, and at the
//! minimum rate; each wait of a single stream has its own, longer limit.

use std::time::Duration;

use ron_kernel::lock::{Ranked, RankedGuard};
use types::Moment;

use super::{HttpLimits, pace::Pace};
use crate::locks;

/// The waits of one direction; at most one per stream, so their number is bounded by the stream limit.
#[derive(Debug)]
pub(super) struct Waits(Ranked<Waiting>);

impl Default for Waits {
    fn default() -> Self {
        Self(Ranked::new(&locks::CONNECTION_WAITS, Waiting::default()))
    }
}

#[derive(Debug, Default)]
struct Waiting {
    waits: Vec<Wait>,
    progress: Moment,
    /// Of all streams together: time counts once, however many wait.
    pace: Pace,
    /// Up to when `pace` has counted the time.
    counted: Moment,
}

/// The wait of one stream.
#[derive(Clone, Copy, Debug)]
struct Wait {
    since: Moment,
    /// When this wait alone has lasted too long.
    until: Moment,
}

/// Why a client is too slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slowness {
    /// Nothing moved for too long.
    Stalled,
    /// Bytes moved, but fewer than the minimum rate asks for.
    BelowMinRate,
    /// The whole request took too long.
    Overtime,
}

impl Waits {
    /// A stream waits from `now` on, and may do so until `until`.
    pub(super) fn begin(&self, now: Moment, until: Moment) {
        let mut waiting = self.waiting();
        waiting.count(now);
        waiting.waits.push(Wait { since: now, until });
    }

    /// The client moved so many bytes, for a stream that waited since `since` if one did.
    pub(super) fn progress(&self, since: Option<Moment>, bytes: u64, now: Moment, limits: &HttpLimits) {
        let mut waiting = self.waiting();
        waiting.count(now);
        waiting.pace.moved(bytes, limits);
        waiting.progress = now;
        waiting.remove(since);
    }

    /// A stream that waited since `since` no longer does.
    pub(super) fn give_up(&self, since: Moment, now: Moment) {
        let mut waiting = self.waiting();
        waiting.count(now);
        waiting.remove(Some(since));
    }

    /// A transfer is complete: its bytes, however few, have paid for all.
    pub(super) fn completed(&self) {
        self.waiting().pace = Pace::default();
    }

    /// When it will have taken too long, as things are, and why: `allowed` without progress for any stream, less than the
    /// minimum rate after `grace` for all together, or the limit of one stream's wait. `None` if no stream waits.
    pub(super) fn until(
        &self,
        allowed: Duration,
        grace: Option<Duration>,
        limits: &HttpLimits,
    ) -> Option<(Moment, Slowness)> {
        let waiting = self.waiting();
        let oldest = waiting.waits.iter().map(|wait| wait.since).min()?;
        let stuck = oldest.max(waiting.progress).after(allowed);
        let own = waiting.waits.iter().map(|wait| wait.until).min().unwrap_or(Moment::END);
        let rate = grace.map_or(Moment::END, |grace| waiting.counted.after(waiting.pace.left(grace, limits)));
        let slow = own.min(rate);
        Some(if slow < stuck { (slow, Slowness::BelowMinRate) } else { (stuck, Slowness::Stalled) })
    }

    /// Each statement leaves the list whole, so a poisoned lock is still sound.
    fn waiting(&self) -> RankedGuard<'_, Waiting> {
        self.0.lock()
    }
}

impl Waiting {
    /// Counts the time up to `now`, if any stream waited.
    fn count(&mut self, now: Moment) {
        if !self.waits.is_empty() {
            self.pace.waited(now.since(self.counted));
        }
        self.counted = now;
    }

    fn remove(&mut self, since: Option<Moment>) {
        // Waits that began at the same moment have hardly different limits.
        if let Some(at) = since.and_then(|since| self.waits.iter().position(|wait| wait.since == since)) {
            self.waits.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: Duration = Duration::from_secs(5);
    const LONGEST: Duration = Duration::from_secs(60);

    fn at(secs: u64) -> Moment {
        Moment::ORIGIN.after(Duration::from_secs(secs))
    }

    fn begin(waits: &Waits, secs: u64) {
        waits.begin(at(secs), at(secs).after(LONGEST));
    }

    fn until(waits: &Waits) -> Option<Moment> {
        waits.until(ALLOWED, None, &HttpLimits::default()).map(|(until, _)| until)
    }

    #[test]
    fn nobody_waits_for_ever_if_nobody_waits() {
        let waits = Waits::default();
        assert_eq!(until(&waits), None);
        begin(&waits, 1);
        waits.give_up(at(1), at(1));
        assert_eq!(until(&waits), None);
    }

    #[test]
    fn the_oldest_wait_counts_when_another_one_ends() {
        let waits = Waits::default();
        begin(&waits, 1);
        begin(&waits, 4);
        waits.give_up(at(4), at(4));
        assert_eq!(until(&waits), Some(at(6)));
    }

    #[test]
    fn progress_of_one_gives_the_others_time_but_not_for_ever() {
        let (waits, limits) = (Waits::default(), HttpLimits::default());
        begin(&waits, 1);
        for second in 2..70 {
            begin(&waits, second);
            waits.progress(Some(at(second)), 1, at(second + 1), &limits);
            let expected = at((second + 6).min(61));
            assert_eq!(until(&waits), Some(expected), "second {second}");
        }
    }

    #[test]
    fn all_streams_together_have_to_keep_the_minimum_rate() {
        let limits = HttpLimits { min_rate: 100, ..HttpLimits::default() };
        let waits = Waits::default();
        let judged = |waits: &Waits| waits.until(ALLOWED, Some(Duration::from_secs(10)), &limits);
        for second in 0..8 {
            // Two streams at a time, each of which gets one byte a second.
            begin(&waits, second);
            begin(&waits, second);
            waits.progress(Some(at(second)), 1, at(second + 1), &limits);
            waits.progress(Some(at(second)), 1, at(second + 1), &limits);
        }
        begin(&waits, 8);
        let (until, why) = judged(&waits).expect("one waits");
        assert_eq!(why, Slowness::BelowMinRate);
        assert!(at(10) < until && until < at(11), "{until:?}");
        waits.completed();
        assert_eq!(judged(&waits), Some((at(13), Slowness::Stalled)));
    }
}
