//! When a refused client should come back: after what waits and what was promised before it has drained.

use crate::cost::nanos;
use std::time::Duration;
use types::Moment;

const SECOND: u64 = 1_000_000_000;
/// The longest wait that is asked of a client.
const LONGEST: u64 = 30 * SECOND;
/// Gaps between grants needed before their mean is believed.
const GAPS_TO_BELIEVE: u8 = 8;
/// Seconds over which clients that are refused in quick succession are spread. Whoever is told a whole number of seconds
/// returns at the same point of a second at which it was refused: a crowd that was refused together would return
/// together, be refused together again, and stay a crowd for as long as it is told the same number.
const TURNS: u64 = 8;

/// How long a refused client should wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RetryAfter(Duration);

impl RetryAfter {
    /// The shortest wait that a whole number of seconds can say.
    pub const SHORTEST: Self = Self(Duration::from_secs(1));

    /// The exact wait: at least a millisecond, at most 30 seconds.
    #[must_use]
    pub fn exact(self) -> Duration {
        self.0
    }

    /// The wait in whole seconds, 1 to 30, for the header of that name.
    #[must_use]
    pub fn seconds(self) -> u64 {
        self.0.as_secs() + u64::from(self.0.subsec_nanos() > 0)
    }
}

/// What a tenant was promised, and how fast it drains.
#[derive(Debug, Clone, Default)]
pub(crate) struct Promises {
    /// When the last promise will have drained. Each takes the gap that held when it was made, so a share that
    /// changes meanwhile does not make promises fall together.
    kept_by: Moment,
    /// Whose turn it is of the seconds over which refusals in quick succession are spread.
    turn: u64,
    /// The mean time between grants while the tenant waited.
    gap: u64,
    gaps_seen: u8,
    last_grant: Option<Moment>,
}

/// How fast a tenant may be told to return.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Drain {
    /// Nanoseconds between grants at the share that the tenant is owed now.
    pub(crate) owed_gap: u64,
    /// Its share of the room, or what others leave of it if that is more. Clients that return in the same second must find place there.
    pub(crate) room: u64,
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

    /// Makes one more promise, to be kept once `backlog` tickets and all earlier promises have drained.
    pub(crate) fn promise(&mut self, backlog: u64, drain: Drain, now: Moment) -> RetryAfter {
        let gap = self.drain_gap(drain);
        let earlier = nanos(self.kept_by.since(now));
        self.turn = if earlier > 0 { (self.turn + 1) % TURNS } else { 0 };
        let spread = in_turn(earlier, self.turn);
        let wait = backlog.saturating_mul(gap).saturating_add(spread).clamp(SECOND / 1000, LONGEST);
        // Promises beyond the longest wait cannot be told apart, and need not be remembered.
        self.kept_by = now.after(Duration::from_nanos(earlier.saturating_add(gap).min(LONGEST)));
        RetryAfter(Duration::from_nanos(wait))
    }

    /// Whether a promise is still to be kept.
    pub(crate) fn pending(&self, now: Moment) -> bool {
        self.kept_by > now
    }

    /// Nanoseconds between promises: the faster of what is owed and what was seen, but never so fast that those who
    /// return within one second overfill three quarters of the room there is for the tenant.
    fn drain_gap(&self, drain: Drain) -> u64 {
        let seen = if self.gaps_seen >= GAPS_TO_BELIEVE { self.gap } else { u64::MAX };
        let wave = SECOND / (drain.room * 3 / 4).max(1);
        drain.owed_gap.min(seen).max(wave).max(1)
    }
}

/// A wait of about so long, on average over all turns, that differs by a second from that of the turn before. The fraction
/// of a second stays: those who wait exactly as long as they are told are spread by that already.
fn in_turn(wait: u64, turn: u64) -> u64 {
    let round = TURNS * SECOND;
    wait / round * round + turn * SECOND + wait % SECOND
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Ten grants a second, and room for plenty.
    const DRAIN: Drain = Drain { owed_gap: SECOND / 10, room: 1000 };

    fn at(ms: u64) -> Moment {
        Moment::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn each_promise_waits_for_the_backlog_and_those_before_it_in_another_second_than_the_last() {
        let mut promises = Promises::default();
        let waits: Vec<_> = (0..3).map(|_| promises.promise(5, DRAIN, at(0)).exact().as_millis()).collect();
        assert_eq!(waits, [500, 1600, 2700]);
    }

    #[test]
    fn promises_expire_at_the_drain_rate() {
        let mut promises = Promises::default();
        for _ in 0..11 {
            promises.promise(0, DRAIN, at(0));
        }
        assert!(promises.pending(at(1099)) && !promises.pending(at(1100)));
        assert_eq!(promises.promise(5, DRAIN, at(1100)).exact(), Duration::from_millis(500));
    }

    #[test]
    fn whole_seconds_are_rounded_up_and_stay_between_1_and_30() {
        let mut promises = Promises::default();
        assert_eq!(promises.promise(0, DRAIN, at(0)).exact(), Duration::from_millis(1));
        assert_eq!(promises.promise(9, DRAIN, at(0)).seconds(), 2);
        assert_eq!(promises.promise(8, DRAIN, at(0)).seconds(), 3);
        assert_eq!(promises.promise(8, DRAIN, at(0)).seconds(), 5);
        assert_eq!(promises.promise(1_000_000, DRAIN, at(0)).seconds(), 30);
        assert_eq!(RetryAfter(Duration::from_millis(1)).seconds(), 1);
    }

    #[test]
    fn those_who_return_in_one_second_fit_into_the_room() {
        let mut promises = Promises::default();
        let fast = Drain { owed_gap: 1, room: 8 };
        let mut told = BTreeMap::<u64, u64>::new();
        // Two rounds of turns, of six promises a second.
        for _ in 0..2 * 6 * TURNS {
            *told.entry(promises.promise(0, fast, at(0)).seconds()).or_default() += 1;
        }
        assert!(told.values().all(|returning| *returning <= 8), "{told:?}");
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
}
