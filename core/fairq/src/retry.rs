//! When a refused client should return: at the pace that its tenant is owed, in a second in which there is place for it.

use crate::{
    calendar::{Calendar, LONGEST_SECONDS, Promise, SECOND},
    cost::nanos,
};
use std::{collections::BTreeMap, time::Duration};
use types::Moment;

/// The longest wait that is asked of a client, in nanoseconds.
const LONGEST: u64 = LONGEST_SECONDS * SECOND;
/// Gaps between grants needed before their mean is believed.
const GAPS_TO_BELIEVE: u8 = 8;

/// How long a refused client should wait, and the place that is kept for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RetryAfter {
    wait: Duration,
    promise: Option<Promise>,
}

impl RetryAfter {
    /// The shortest wait that a whole number of seconds can say; no place is kept.
    pub const SHORTEST: Self = Self { wait: Duration::from_secs(1), promise: None };
    /// The longest wait, when places are promised for as long already; no place is kept.
    pub(crate) const LONGEST: Self = Self { wait: Duration::from_secs(LONGEST_SECONDS), promise: None };

    pub(crate) fn promised((seconds, promise): (u64, Promise)) -> Self {
        Self { wait: Duration::from_secs(seconds), promise: Some(promise) }
    }

    /// The exact wait, which is a whole number of seconds: a client that reads the header and one that reads milliseconds
    /// return at the same time, for which the place is kept.
    #[must_use]
    pub fn exact(self) -> Duration {
        self.wait
    }

    /// The wait in whole seconds, 1 to 30, for the header of that name.
    #[must_use]
    pub fn seconds(self) -> u64 {
        self.wait.as_secs()
    }

    /// The place that is kept, to be given back with the client's return; `None` if none is.
    #[must_use]
    pub fn promise(self) -> Option<Promise> {
        self.promise
    }
}

/// What is known of the client that brings a ticket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Client {
    /// What it was promised when it was refused the last time; `None` if it comes for the first time, or if it is not known
    /// which client this is.
    pub promise: Option<Promise>,
    /// Whether the estimate is a guess, because nothing of this tenant has been measured yet.
    pub guessed: bool,
    /// Which of its tenant's addresses it has, as a number that is the same for the same address; `None` where the tenant is
    /// an address.
    pub address: Option<u64>,
}

/// What a tenant was promised, and how fast it drains.
#[derive(Debug, Clone, Default)]
pub(crate) struct Promises {
    /// When the last promise will have drained. Each takes the gap that held when it was made, so a share that
    /// changes meanwhile does not make promises fall together.
    kept_by: Moment,
    /// The mean time between grants while the tenant waited.
    gap: u64,
    gaps_seen: u8,
    last_grant: Option<Moment>,
    /// The promises that are still to be kept, by bin; no longer than the calendar.
    due: BTreeMap<u64, Due>,
    /// How many there are in `due`.
    outstanding: u64,
    /// The estimate of the last ticket, in nanoseconds, and whether it was a guess.
    pub(crate) estimate: (u64, bool),
}

/// The promises of one bin.
#[derive(Debug, Clone, Copy, Default)]
struct Due {
    all: u32,
    /// Those of them whose clients can no longer be recognised: the next request of the tenant that arrives on time
    /// takes them.
    unheld: u32,
}

/// How fast a tenant may be told to return.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Drain {
    /// Nanoseconds between grants at the share that the tenant is owed now.
    pub(crate) owed_gap: u64,
    /// How many of the tenant's tickets may wait when its clients return.
    pub(crate) limit: u64,
}

/// What a tenant's pace says of its next promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pace {
    /// The least wait, in whole seconds; more than the longest if that much is promised already.
    pub(crate) least: u64,
    gap: u64,
}

impl Promises {
    /// Notes a grant; `more` says whether the tenant still waits, so that the time to the next grant means something.
    pub(crate) fn granted(&mut self, more: bool, now: Moment) {
        if let Some(last) = self.last_grant {
            let gap = nanos(now.since(last));
            if self.gaps_seen == 0 {
                self.gap = gap;
            } else {
                let step = gap.abs_diff(self.gap) / 32;
                self.gap = if gap > self.gap { self.gap + step } else { self.gap - step };
            }
            self.gaps_seen = self.gaps_seen.saturating_add(1).min(GAPS_TO_BELIEVE);
        }
        self.last_grant = more.then_some(now);
    }

    /// When `backlog` tickets and all earlier promises have drained so far that one more client finds place within its
    /// tenant's limit.
    pub(crate) fn pace(&self, backlog: u64, drain: Drain, now: Moment) -> Pace {
        let gap = self.drain_gap(drain);
        let earlier = nanos(self.kept_by.since(now));
        let wait = backlog.saturating_sub(drain.limit).saturating_mul(gap).max(earlier.saturating_add(gap));
        Pace { least: wait.div_ceil(SECOND), gap }
    }

    /// One more promise was made, at this pace.
    pub(crate) fn promised(&mut self, promise: Promise, pace: Pace, now: Moment) {
        let earlier = nanos(self.kept_by.since(now));
        self.kept_by = now.after(Duration::from_nanos(earlier.saturating_add(pace.gap).min(LONGEST)));
        self.due.entry(promise.bin).or_default().all += 1;
        self.outstanding += 1;
    }

    /// How many promises are still to be kept.
    pub(crate) fn outstanding(&mut self, now: Moment) -> u64 {
        let first = *Calendar::on_time(now).start();
        while let Some(missed) = self.due.first_entry().filter(|missed| *missed.key() < first) {
            self.outstanding -= u64::from(missed.remove().all);
        }
        self.outstanding
    }

    /// Whether a promise is still to be kept, or what was promised has not drained yet.
    pub(crate) fn pending(&mut self, now: Moment) -> bool {
        self.kept_by > now || self.outstanding(now) > 0
    }

    /// The client that held this promise will not be recognised when it returns.
    pub(crate) fn release(&mut self, promise: Promise) {
        if let Some(due) = self.due.get_mut(&promise.bin) {
            due.unheld = due.all.min(due.unheld + 1);
        }
    }

    /// The promise of a client that comes now: its own if it is on time, or else one that nobody holds and that is due.
    pub(crate) fn claim(&mut self, own: Option<Promise>, now: Moment) -> Option<Promise> {
        self.outstanding(now);
        let on_time = Calendar::on_time(now);
        let held = |promise: &Promise| {
            on_time.contains(&promise.bin)
                && self.due.get(&promise.bin).is_some_and(|due| due.all > due.unheld)
        };
        if let Some(own) = own.filter(held) {
            self.kept(own, false);
            return Some(own);
        }
        let (&bin, _) = self.due.range(on_time.clone()).find(|(_, due)| due.unheld > 0)?;
        self.kept(Promise { bin }, true);
        Some(Promise { bin })
    }

    fn kept(&mut self, promise: Promise, unheld: bool) {
        let Some(due) = self.due.get_mut(&promise.bin) else { return };
        due.all -= 1;
        due.unheld -= u32::from(unheld);
        self.outstanding -= 1;
        if due.all == 0 {
            self.due.remove(&promise.bin);
        }
    }

    /// Nanoseconds between grants: the faster of what is owed and what was seen.
    fn drain_gap(&self, drain: Drain) -> u64 {
        let seen = if self.gaps_seen >= GAPS_TO_BELIEVE { self.gap } else { u64::MAX };
        drain.owed_gap.min(seen).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::bin_of;

    /// Ten grants a second, and room for plenty.
    const DRAIN: Drain = Drain { owed_gap: SECOND / 10, limit: 1000 };

    fn at(ms: u64) -> Moment {
        Moment::from_nanos(ms * 1_000_000)
    }

    /// The least waits of so many promises, one after the other.
    fn leasts(promises: &mut Promises, count: usize, backlog: u64, drain: Drain, now: Moment) -> Vec<u64> {
        let mut least = || {
            let pace = promises.pace(backlog, drain, now);
            promises.promised(Promise { bin: bin_of(now) + 8 * pace.least }, pace, now);
            pace.least
        };
        (0..count).map(|_| least()).collect()
    }

    #[test]
    fn ten_a_second_return_in_each_second() {
        let leasts = leasts(&mut Promises::default(), 25, 0, DRAIN, at(0));
        assert_eq!(
            (&leasts[..10], &leasts[10..20], &leasts[20..]),
            (&[1; 10][..], &[2; 10][..], &[3; 5][..])
        );
    }

    #[test]
    fn a_backlog_beyond_the_limit_has_to_drain_first() {
        assert_eq!(leasts(&mut Promises::default(), 1, 1000, DRAIN, at(0)), [1]);
        assert_eq!(leasts(&mut Promises::default(), 1, 1041, DRAIN, at(0)), [5]);
        assert!(Promises::default().pace(u64::MAX, DRAIN, at(0)).least > LONGEST_SECONDS);
    }

    #[test]
    fn promises_expire_at_the_drain_rate() {
        let mut promises = Promises::default();
        leasts(&mut promises, 11, 0, DRAIN, at(0));
        assert_eq!(promises.outstanding(at(1000)), 11);
        assert_eq!(leasts(&mut promises.clone(), 1, 0, DRAIN, at(1100)), [1]);
        assert_eq!(leasts(&mut promises.clone(), 1, 0, DRAIN, at(100)), [2]);
        assert_eq!(promises.outstanding(at(2200)), 1, "one was told to return in the next second");
        assert!(promises.pending(at(3124)) && !promises.pending(at(3125)));
    }

    #[test]
    fn what_was_seen_counts_once_there_is_enough_of_it() {
        let mut promises = Promises::default();
        for grant in 0..=u64::from(GAPS_TO_BELIEVE) {
            assert_eq!(promises.drain_gap(DRAIN), DRAIN.owed_gap);
            promises.granted(true, at(grant * 20));
        }
        assert_eq!(promises.drain_gap(DRAIN), SECOND / 50);
    }

    #[test]
    fn a_promise_is_kept_once_and_on_time() {
        let mut promises = Promises::default();
        leasts(&mut promises, 2, 0, DRAIN, at(0));
        let due = Promise { bin: bin_of(at(1000)) };
        assert_eq!(promises.claim(Some(due), at(800)), None, "too early");
        assert_eq!(promises.claim(None, at(1000)), None, "both clients are known");
        assert_eq!(promises.claim(Some(due), at(1000)), Some(due));
        assert_eq!(promises.claim(Some(due), at(2200)), None, "too late");
        assert_eq!(promises.outstanding(at(2200)), 0);
    }

    #[test]
    fn promises_that_nobody_holds_go_to_whoever_comes_on_time() {
        let mut promises = Promises::default();
        leasts(&mut promises, 2, 0, DRAIN, at(0));
        let due = Promise { bin: bin_of(at(1000)) };
        promises.release(due);
        assert_eq!(promises.claim(None, at(500)), None);
        assert_eq!(promises.claim(None, at(1010)), Some(due));
        assert_eq!(promises.claim(None, at(1010)), None, "the other is held");
        promises.release(Promise { bin: 9 });
        assert_eq!(promises.claim(Some(due), at(1010)), Some(due));
        assert_eq!(promises.outstanding(at(1010)), 0);
    }
}
