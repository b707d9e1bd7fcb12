//! When refused clients were told to return: counted for the whole room by eighths of a second, so that no more return at
//! once than find place, and so that newcomers leave them their places.

use types::Moment;

pub(crate) const SECOND: u64 = 1_000_000_000;
/// The longest wait that is asked of a client, in seconds.
pub(crate) const LONGEST_SECONDS: u64 = 30;
const BINS_PER_SECOND: u64 = 8;
/// How long a bin is, in nanoseconds.
pub(crate) const BIN: u64 = SECOND / BINS_PER_SECOND;
/// Bins from now to the latest return.
const HORIZON: usize = 240;
/// A power of two that holds the horizon and the bins that are over but still kept.
const RING: usize = 256;
/// So many bins after its own, the place of a client that is late is still kept: a second.
const LATE: u64 = 8;
/// So many bins before its own, a client that is early is still taken for the one that was promised a place.
const EARLY: u64 = 1;
/// All of the promised returns came.
const ALL: u64 = 1024;
/// Returns over which the part that comes is averaged.
const MEMORY: u64 = 64;

/// A client's right to a place at the time at which it was told to return.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Promise {
    /// The bin that it is counted in.
    pub(crate) bin: u64,
}

impl Promise {
    /// Whether a client that comes now is on time for it.
    #[must_use]
    pub fn is_due(self, now: Moment) -> bool {
        Calendar::on_time(now).contains(&self.bin)
    }

    /// Whether it is too late for it.
    #[must_use]
    pub fn is_over(self, now: Moment) -> bool {
        self.bin < *Calendar::on_time(now).start()
    }
}

/// The returns that were promised a place and have not come yet.
#[derive(Debug)]
pub(crate) struct Calendar {
    due: Box<[u32; RING]>,
    /// The first bin that is kept.
    first: u64,
    /// The part of the promised returns that come, in 1024ths.
    come: u64,
}

/// How the room fills and empties.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flow {
    /// Tickets that wait now.
    pub(crate) depth: u64,
    /// Thousandths of a ticket that leave the room per bin.
    pub(crate) milli_per_bin: u64,
    /// How many tickets may wait when clients return; no more than that return in a second.
    pub(crate) limit: u64,
}

impl Calendar {
    pub(crate) fn new(now: Moment) -> Self {
        Self { due: Box::new([0; RING]), first: bin_of(now).saturating_sub(LATE), come: ALL }
    }

    /// Forgets the promises whose time is over.
    pub(crate) fn advance(&mut self, now: Moment) {
        let first = bin_of(now).saturating_sub(LATE);
        let over = first.saturating_sub(self.first).min(RING as u64);
        for bin in self.first..self.first + over {
            let missed = u64::from(std::mem::take(&mut self.due[slot(bin)]));
            self.come = self.come * MEMORY / (MEMORY + missed);
        }
        self.first = self.first.max(first);
    }

    /// The earliest wait in whole seconds, `least` or more, after which one more client would find place, and the promise of
    /// it; among those that are up to twice as long, the one with the fewest returns. `None` if there is none within
    /// the longest wait. Call [`advance`](Self::advance) before.
    pub(crate) fn book(&mut self, least: u64, flow: Flow, now: Moment) -> Option<(u64, Promise)> {
        let places = self.places(flow, now);
        let has_place = |seconds: &u64| {
            places[bins(*seconds)] > 0 && self.due_around(bin_of(now) + bins(*seconds) as u64) < flow.limit
        };
        let first = (least.max(1)..=LONGEST_SECONDS).find(has_place)?;
        let last = (first * 2).min(LONGEST_SECONDS);
        let fewest = (first..=last).filter(has_place).min_by_key(|seconds| self.due_in(*seconds, now))?;
        Some((fewest, self.promise(fewest, now)))
    }

    /// Books whether or not there is place: the wait from `least` to twice as long with the fewest returns.
    pub(crate) fn overbook(&mut self, least: u64, now: Moment) -> (u64, Promise) {
        let least = least.clamp(1, LONGEST_SECONDS);
        let last = (least * 2).min(LONGEST_SECONDS);
        let fewest = (least..=last).min_by_key(|seconds| self.due_in(*seconds, now)).unwrap_or(least);
        (fewest, self.promise(fewest, now))
    }

    fn promise(&mut self, seconds: u64, now: Moment) -> Promise {
        let promise = Promise { bin: bin_of(now) + bins(seconds) as u64 };
        self.note(promise);
        promise
    }

    /// Expects a return that was promised.
    pub(crate) fn note(&mut self, promise: Promise) {
        self.due[slot(promise.bin)] += 1;
    }

    fn due_in(&self, seconds: u64, now: Moment) -> u32 {
        self.due[slot(bin_of(now) + bins(seconds) as u64)]
    }

    /// How many return in the second before the end of a bin, or in the second after its beginning if those are more.
    fn due_around(&self, bin: u64) -> u64 {
        let due = |bins: std::ops::Range<u64>| bins.map(|bin| u64::from(self.due[slot(bin)])).sum::<u64>();
        let before = (bin + 1).saturating_sub(BINS_PER_SECOND).max(self.first);
        due(before..bin + 1).max(due(bin..bin + BINS_PER_SECOND))
    }

    /// A client has returned on time.
    pub(crate) fn keep(&mut self, promise: Promise) {
        self.cancel(promise);
        self.come = ALL - (ALL - self.come) * MEMORY / (MEMORY + 1);
    }

    /// The bins whose clients count as on time now.
    pub(crate) fn on_time(now: Moment) -> std::ops::RangeInclusive<u64> {
        bin_of(now).saturating_sub(LATE)..=bin_of(now) + EARLY
    }

    /// How many places have to stay free for those who return within a second; less if many of them do not return. Call
    /// [`advance`](Self::advance) before.
    ///
    /// Places are set aside evenly over the second before they are needed. If newcomers were only held back once those who
    /// return are there, they would be told to return at the same point of a later second: a crowd would stay a crowd.
    pub(crate) fn reserve(&self, milli_per_bin: u64, now: Moment) -> u64 {
        let here = bin_of(now);
        let missing: u64 = (self.first..=here).map(|bin| u64::from(self.due[slot(bin)])).sum();
        // Thousandths, because the second before a bin passes evenly too.
        let passed = now.as_nanos() % BIN * 1000 / BIN;
        let (mut due, mut most, mut even) = (missing, missing, missing * BINS_PER_SECOND * 1000);
        for ahead in 1..=BINS_PER_SECOND {
            let returning = u64::from(self.due[slot(here + ahead)]);
            due += returning;
            even += returning * ((BINS_PER_SECOND - ahead) * 1000 + passed);
            most = most.max(due.saturating_sub((ahead * 1000 - passed) * milli_per_bin / 1_000_000));
        }
        (most.max(even / (BINS_PER_SECOND * 1000)) * self.come).div_ceil(ALL)
    }

    /// Takes back a promise that was not told to anybody.
    pub(crate) fn cancel(&mut self, promise: Promise) {
        let due = &mut self.due[slot(promise.bin)];
        *due = due.saturating_sub(1);
    }

    /// Promises that are to be kept.
    pub(crate) fn pending(&self) -> u64 {
        self.due.iter().map(|due| u64::from(*due)).sum()
    }

    /// For each bin from now on, how many more could return in it without the room growing beyond its limit, then or later.
    fn places(&self, flow: Flow, now: Moment) -> [i64; HORIZON + 1] {
        let here = bin_of(now);
        let milli = |count: u64| i64::try_from(count.saturating_mul(1000)).unwrap_or(i64::MAX);
        let (limit, leave) = (milli(flow.limit), i64::try_from(flow.milli_per_bin).unwrap_or(i64::MAX));
        let mut places = [0; HORIZON + 1];
        let mut waiting = milli(flow.depth);
        for (ahead, bin) in (here..).take(HORIZON + 1).enumerate() {
            let due: u64 = if ahead == 0 {
                (self.first..=here).map(|bin| u64::from(self.due[slot(bin)])).sum()
            } else {
                u64::from(self.due[slot(bin)])
            };
            waiting = waiting.saturating_add(milli(due));
            places[ahead] = waiting;
            waiting = waiting.saturating_sub(leave).max(0);
        }
        let mut later = i64::MAX;
        for place in places.iter_mut().rev() {
            let (waiting, free) = (*place, (limit - *place) / 1000);
            // Who returns to a room that is empty a bin later is in nobody's way then.
            later = if waiting > leave { free.min(later) } else { free };
            *place = later;
        }
        places
    }
}

/// The bin that a moment falls into.
pub(crate) fn bin_of(moment: Moment) -> u64 {
    moment.as_nanos() / BIN
}

#[expect(clippy::cast_possible_truncation, reason = "at most 30 seconds")]
fn bins(seconds: u64) -> usize {
    (seconds * BINS_PER_SECOND) as usize
}

#[expect(clippy::cast_possible_truncation, reason = "smaller than the ring")]
fn slot(bin: u64) -> usize {
    (bin % RING as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeMap, time::Duration};

    const NOW: Moment = Moment::from_nanos(1000 * SECOND);
    /// An empty room for a hundred, of which ten leave per second.
    const SMALL: Flow = Flow { depth: 0, milli_per_bin: 10_000 / BINS_PER_SECOND, limit: 100 };

    impl Calendar {
        fn promise_in(&mut self, seconds: u64, now: Moment) {
            self.promise(seconds, now);
        }
    }

    fn later(seconds: f64) -> Moment {
        NOW.after(Duration::from_secs_f64(seconds))
    }

    fn booked(calendar: &mut Calendar, count: usize, flow: Flow) -> BTreeMap<u64, u64> {
        let mut told = BTreeMap::new();
        for (seconds, _) in std::iter::from_fn(|| calendar.book(1, flow, NOW)).take(count) {
            *told.entry(seconds).or_default() += 1;
        }
        told
    }

    /// How many wait at most, if all return as they were told.
    fn fullest(told: &BTreeMap<u64, u64>, flow: Flow) -> u64 {
        let mut waiting = flow.depth;
        let waves = (1..=LONGEST_SECONDS).map(|second| {
            waiting = waiting.saturating_sub(10) + told.get(&second).copied().unwrap_or_default();
            waiting
        });
        waves.max().unwrap_or_default()
    }

    #[test]
    fn a_wave_fills_the_room_and_the_next_ones_what_has_left_it() {
        let told = booked(&mut Calendar::new(NOW), 120, SMALL);
        assert_eq!((told[&1], told[&2], told.values().sum::<u64>()), (55, 55, 120), "{told:?}");
        assert_eq!((fullest(&told, SMALL), told.len()), (100, 6), "{told:?}");
    }

    #[test]
    fn nobody_returns_before_what_waits_has_left() {
        let full = Flow { depth: 125, ..SMALL };
        let told = booked(&mut Calendar::new(NOW), 30, full);
        assert_eq!((told.keys().next(), told.values().sum::<u64>()), (Some(&3), 30));
        assert!(fullest(&told, full) <= 115, "{told:?}");
        assert_eq!(fullest(&BTreeMap::from([(3, 6)]), full), 115);
    }

    #[test]
    fn an_earlier_wave_leaves_place_for_the_later_ones_that_were_promised_before() {
        let mut calendar = Calendar::new(NOW);
        let mut told = BTreeMap::new();
        for (seconds, _) in (0..90).filter_map(|_| calendar.book(4, SMALL, NOW)) {
            *told.entry(seconds).or_default() += 1;
        }
        for (seconds, count) in booked(&mut calendar, 60, SMALL) {
            *told.entry(seconds).or_default() += count;
        }
        assert_eq!(told.values().sum::<u64>(), 150);
        assert!(fullest(&told, SMALL) <= 100, "{told:?}");
    }

    #[test]
    fn nothing_is_promised_beyond_the_longest_wait() {
        let mut calendar = Calendar::new(NOW);
        let told = booked(&mut calendar, 1000, SMALL);
        assert_eq!((told.values().sum::<u64>(), calendar.pending()), (100 + 29 * 10, 100 + 29 * 10));
        assert_eq!(told.keys().last(), Some(&30));
        assert!((1..=3).contains(&calendar.overbook(2, NOW).0));
    }

    #[test]
    fn places_are_kept_for_those_who_return_soon_and_not_for_those_who_never_do() {
        let mut calendar = Calendar::new(NOW);
        (0..80).for_each(|_| calendar.promise_in(1, NOW));
        assert_eq!(calendar.reserve(SMALL.milli_per_bin, NOW), 70, "ten leave before they come");
        assert_eq!(calendar.reserve(0, NOW), 80, "nobody leaves");
        let quick = |now| calendar.reserve(1_000_000, now);
        assert_eq!([NOW, later(0.25), later(0.5), later(1.0), later(2.0)].map(quick), [0, 20, 40, 80, 80]);
        let mut now = NOW;
        for _ in 0..20 {
            calendar.advance(now);
            (0..80).for_each(|_| calendar.promise_in(1, now));
            now = now.after(Duration::from_secs(3));
        }
        assert!(calendar.reserve(SMALL.milli_per_bin, now) < 2, "nobody has ever returned");
        assert_eq!(calendar.pending(), 80);
        calendar.advance(now);
        assert_eq!(calendar.pending(), 0);
    }
}
