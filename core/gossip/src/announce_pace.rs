//! How often patterns are announced: soon after a change, and more seldom while they keep changing.

use std::time::Duration;
use types::Moment;

/// How long changes are gathered before they are announced, at least.
const SHORTEST: Duration = Duration::from_secs(1);
/// The longest time for which changes are gathered, while they go on.
const LONGEST: Duration = Duration::from_secs(8);

/// When announcements are due. An announcement costs a frame for each peer, and each peer passes it on to its own, so a
/// subscriber that comes and goes must not cause one each time.
#[derive(Clone, Copy, Debug)]
pub struct AnnouncePace {
    last: Option<Moment>,
    interval: Duration,
}

impl Default for AnnouncePace {
    fn default() -> Self {
        Self { last: None, interval: SHORTEST }
    }
}

impl AnnouncePace {
    /// When a change that happens now may be announced.
    #[must_use]
    pub fn next(&self, now: Moment) -> Moment {
        let soon = now.after(SHORTEST);
        self.last.map_or(soon, |last| soon.max(last.after(self.interval)))
    }

    /// Returns true if something may be announced now.
    #[must_use]
    pub fn is_due(&self, now: Moment) -> bool {
        self.last.is_none_or(|last| last.after(self.interval) <= now)
    }

    /// Changes were announced. The next interval is twice as long, unless nothing was announced for as long as that.
    pub fn announced(&mut self, now: Moment) {
        let is_frequent = self.last.is_some_and(|last| now.since(last) < self.interval * 2);
        self.interval = if is_frequent { (self.interval * 2).min(LONGEST) } else { SHORTEST };
        self.last = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds at which something is announced while it changes every ten milliseconds, from `begin` to `end`.
    fn announced(pace: &mut AnnouncePace, begin: u64, end: u64) -> Vec<u64> {
        let (mut planned, mut seconds) = (None::<Moment>, Vec::new());
        for step in begin * 100..end * 100 {
            let now = Moment::ORIGIN.after(Duration::from_millis(step * 10));
            if planned.is_some_and(|at| at <= now) && pace.is_due(now) {
                pace.announced(now);
                planned = None;
                seconds.push(step / 100);
            }
            planned.get_or_insert_with(|| pace.next(now));
        }
        seconds
    }

    #[test]
    fn what_changes_all_the_time_is_announced_every_eight_seconds() {
        let mut pace = AnnouncePace::default();
        assert_eq!(announced(&mut pace, 0, 40), [1, 2, 4, 8, 16, 24, 32]);
        assert_eq!(announced(&mut pace, 100, 104), [101, 102], "after a quiet while it is soon again");
    }
}
