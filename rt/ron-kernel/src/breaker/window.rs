//! Results of the recent past, counted in two half-windows that take turns.
//!
//! Each half is one word of tag, failures and total, so a reader never sees the counts of one half-window under the
//! tag of another. The tag says which half-window the counts belong to; a half whose turn has come again starts over.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use types::Moment;

use super::Outcome;

/// Bits of each count: a million results per half-window, after which the half stops counting.
const COUNT_BITS: u32 = 20;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;
/// Room left above the limit, because threads that count at the same moment all see the same total.
const HEADROOM: u64 = 1 << 12;
const TAG_BITS: u32 = 64 - 2 * COUNT_BITS;
const TAG_MASK: u64 = (1 << TAG_BITS) - 1;
/// Shorter halves would make the tag wrap while somebody could still notice.
const SHORTEST_HALF: u64 = 1_000_000;

/// Counts of results in the two halves of the window.
#[derive(Debug, Default)]
pub(super) struct Window([AtomicU64; 2]);

/// The results that the window holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Recent {
    pub(super) failures: u64,
    pub(super) total: u64,
}

impl Window {
    /// Counts one result and returns the counts of this half-window and the one before, itself included.
    pub(super) fn count(&self, outcome: Outcome, window: Duration, now: Moment) -> Recent {
        let half = half_at(window, now);
        let (this, other) =
            if half.is_multiple_of(2) { (&self.0[0], &self.0[1]) } else { (&self.0[1], &self.0[0]) };
        let added = 1 | u64::from(outcome == Outcome::Failure) << COUNT_BITS;
        let current = sum(add(this, half & TAG_MASK, added));
        let before = other.load(Ordering::Relaxed);
        if tag(before) != half.wrapping_sub(1) & TAG_MASK {
            return current;
        }
        let before = sum(before);
        Recent { failures: current.failures + before.failures, total: current.total + before.total }
    }

    /// Clears both halves.
    pub(super) fn clear(&self) {
        for half in &self.0 {
            half.store(0, Ordering::Relaxed);
        }
    }
}

/// Adds to the half of tag `turn` and returns it as it is then.
fn add(half: &AtomicU64, turn: u64, added: u64) -> u64 {
    let fresh = turn << (2 * COUNT_BITS) | added;
    let mut seen = half.load(Ordering::Relaxed);
    if tag(seen) != turn {
        match half.compare_exchange(seen, fresh, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return fresh,
            // Somebody else began this turn, or counted late into the last one, which is not worth another try.
            Err(other) if tag(other) != turn => return fresh,
            Err(other) => seen = other,
        }
    }
    if sum(seen).total >= COUNT_MASK - HEADROOM {
        return seen;
    }
    half.fetch_add(added, Ordering::Relaxed) + added
}

/// Which half-window `now` is in, counted from the clock's origin.
fn half_at(window: Duration, now: Moment) -> u64 {
    let half = u64::try_from(window.as_nanos() / 2).unwrap_or(u64::MAX).max(SHORTEST_HALF);
    now.as_nanos() / half
}

fn tag(half: u64) -> u64 {
    half >> (2 * COUNT_BITS)
}

fn sum(half: u64) -> Recent {
    Recent { failures: half >> COUNT_BITS & COUNT_MASK, total: half & COUNT_MASK }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(10);

    fn at(millis: u64) -> Moment {
        Moment::ORIGIN.after(Duration::from_millis(millis))
    }

    #[test]
    fn a_result_counts_for_its_half_window_and_the_next_one() {
        let window = Window::default();
        window.count(Outcome::Failure, WINDOW, at(4_999));
        let next_half = window.count(Outcome::Success, WINDOW, at(9_999));
        assert_eq!(next_half, Recent { failures: 1, total: 2 });
        let half_after = window.count(Outcome::Success, WINDOW, at(10_000));
        assert_eq!(half_after, Recent { failures: 0, total: 2 });
    }

    #[test]
    fn a_quiet_spell_leaves_nothing_behind() {
        let window = Window::default();
        window.count(Outcome::Failure, WINDOW, at(1));
        assert_eq!(window.count(Outcome::Success, WINDOW, at(100_000)), Recent { failures: 0, total: 1 });
    }

    #[test]
    fn a_full_half_stops_counting_and_spills_into_nothing() {
        let window = Window::default();
        let full = (0..COUNT_MASK + 10).map(|_| window.count(Outcome::Failure, WINDOW, at(1))).last();
        let limit = COUNT_MASK - HEADROOM;
        assert_eq!(full, Some(Recent { failures: limit, total: limit }));
    }

    #[test]
    fn counting_from_many_threads_loses_nothing_within_a_half() {
        let window = Window::default();
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..999).for_each(|_| _ = window.count(Outcome::Failure, WINDOW, at(7))));
            }
        });
        assert_eq!(window.count(Outcome::Success, WINDOW, at(8)), Recent { failures: 3_996, total: 3_997 });
    }
}
