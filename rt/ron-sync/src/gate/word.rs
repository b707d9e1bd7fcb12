//! The gate's packed word: inflight, waiters, limit and closed, read and changed as one.
//!
//! The limit shares the word so that an entry decided against an old limit cannot succeed after a new one is set.

use super::Slot;
use crate::sync::{AtomicU64, Ordering, load_to_swap};
use std::fmt;

const FIELD_BITS: u32 = 21;
/// The highest value of each field.
pub(super) const FIELD_MAX: u32 = (1 << FIELD_BITS) - 1;

const WAITERS_SHIFT: u32 = FIELD_BITS;
const LIMIT_SHIFT: u32 = 2 * FIELD_BITS;
const ONE_INFLIGHT: u64 = 1;
const ONE_WAITER: u64 = 1 << WAITERS_SHIFT;
const LIMIT_MASK: u64 = (FIELD_MAX as u64) << LIMIT_SHIFT;
const CLOSED: u64 = 1 << (3 * FIELD_BITS);

/// One reading of the word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Word(u64);

impl Word {
    pub(super) fn inflight(self) -> u32 {
        self.field(0)
    }

    pub(super) fn waiters(self) -> u32 {
        self.field(WAITERS_SHIFT)
    }

    pub(super) fn limit(self) -> u32 {
        self.field(LIMIT_SHIFT)
    }

    pub(super) fn is_closed(self) -> bool {
        self.0 & CLOSED != 0
    }

    /// Whether a newcomer may enter without waiting, if there may be `walk_in_limit` of the limit inside for that.
    fn is_free(self, walk_in_limit: impl Fn(u32) -> u32) -> bool {
        let limit = walk_in_limit(self.limit()).min(self.limit());
        self.inflight() < limit && self.waiters() == 0 && !self.is_closed()
    }

    /// How many are inside besides a slot that is to be given.
    pub(super) fn inside(self, slot: Slot) -> u32 {
        match slot {
            Slot::Returned => self.inflight().saturating_sub(1),
            Slot::None => self.inflight(),
        }
    }

    /// Whether a waiting ticket may be admitted: into a free slot or, when inflight has not to fall, into `slot`.
    pub(super) fn can_admit(self, slot: Slot) -> bool {
        self.waiters() > 0 && self.inside(slot) < self.limit()
    }

    #[expect(clippy::cast_possible_truncation, reason = "a field has 21 bits")]
    fn field(self, shift: u32) -> u32 {
        (self.0 >> shift) as u32 & FIELD_MAX
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Word")
            .field("inflight", &self.inflight())
            .field("waiters", &self.waiters())
            .field("limit", &self.limit())
            .field("closed", &self.is_closed())
            .finish()
    }
}

/// What became of an arrival that asked for a slot under the lock.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Enlisted {
    Entered,
    Waiting,
    /// The gate is closed.
    Closed,
    /// As many wait as can be counted.
    Crowded,
}

/// The word itself. Methods that change the waiters or the limit are called under the gate's lock; the others
/// need none. Entering acquires what the previous holder released by leaving; a hand-over does so through the
/// lock.
pub(super) struct AtomicWord(AtomicU64);

impl AtomicWord {
    pub(super) fn new(limit: u32) -> Self {
        Self(AtomicU64::new(limit_bits(limit)))
    }

    pub(super) fn load(&self) -> Word {
        Word(self.0.load(Ordering::Acquire))
    }

    /// Enters if there is a free slot that nobody waits for and that may be taken without the room.
    pub(super) fn try_enter(&self, walk_in_limit: impl Fn(u32) -> u32) -> bool {
        self.update(|word| word.is_free(&walk_in_limit).then_some(word.0 + ONE_INFLIGHT))
    }

    /// Leaves if nobody waits for the slot.
    pub(super) fn try_leave(&self) -> bool {
        self.update(|word| (word.waiters() == 0).then_some(word.0 - ONE_INFLIGHT))
    }

    /// Enters if it may, with a limit for that, and there is a free slot, or else counts one more waiter. Both in one step, so that no slot is
    /// freed unnoticed in between.
    pub(super) fn enlist(&self, walk_in_limit: Option<fn(u32) -> u32>) -> Enlisted {
        let mut outcome = Enlisted::Waiting;
        let changed = self.update(|word| {
            if walk_in_limit.is_some_and(|limit| word.is_free(limit)) {
                outcome = Enlisted::Entered;
                return Some(word.0 + ONE_INFLIGHT);
            }
            outcome = Enlisted::Waiting;
            (!word.is_closed() && word.waiters() < FIELD_MAX).then_some(word.0 + ONE_WAITER)
        });
        if changed {
            return outcome;
        }
        if self.load().is_closed() { Enlisted::Closed } else { Enlisted::Crowded }
    }

    /// One waiter less: it gave up, was denied, or got a slot that was already counted.
    pub(super) fn delist(&self) {
        self.0.fetch_sub(ONE_WAITER, Ordering::AcqRel);
    }

    /// A waiter got a free slot.
    pub(super) fn promote(&self) {
        self.0.fetch_sub(ONE_WAITER - ONE_INFLIGHT, Ordering::AcqRel);
    }

    /// Records that one holder has left.
    pub(super) fn leave(&self) {
        self.0.fetch_sub(ONE_INFLIGHT, Ordering::AcqRel);
    }

    pub(super) fn set_limit(&self, limit: u32) {
        self.update(|word| Some((word.0 & !LIMIT_MASK) | limit_bits(limit)));
    }

    pub(super) fn close(&self) {
        self.0.fetch_or(CLOSED, Ordering::AcqRel);
    }

    /// Replaces the word by what `next` makes of it, unless that is nothing.
    fn update(&self, mut next: impl FnMut(Word) -> Option<u64>) -> bool {
        let mut current = load_to_swap(&self.0);
        while let Some(new) = next(Word(current)) {
            match self.0.compare_exchange_weak(current, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(actual) => current = actual,
            }
        }
        false
    }
}

fn limit_bits(limit: u32) -> u64 {
    u64::from(limit.min(FIELD_MAX)) << LIMIT_SHIFT
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_fields_do_not_touch_each_other_at_their_highest_values() {
        let full = AtomicWord(AtomicU64::new(!CLOSED));
        let word = full.load();
        assert_eq!((word.inflight(), word.waiters(), word.limit()), (FIELD_MAX, FIELD_MAX, FIELD_MAX));
        assert!(!word.is_closed());
        full.set_limit(0);
        full.leave();
        full.delist();
        let word = full.load();
        assert_eq!((word.inflight(), word.waiters(), word.limit()), (FIELD_MAX - 1, FIELD_MAX - 1, 0));
    }

    #[test]
    fn a_limit_above_the_field_is_lowered_to_it() {
        let word = AtomicWord::new(u32::MAX);
        assert_eq!(word.load().limit(), FIELD_MAX);
        assert!(!word.load().is_closed());
    }

    #[test]
    fn who_may_not_enter_waits_beside_a_free_slot() {
        let word = AtomicWord::new(1);
        assert_eq!(word.enlist(None), Enlisted::Waiting);
        assert_eq!((word.load().inflight(), word.load().waiters()), (0, 1));
        assert_eq!(word.enlist(Some(|all| all)), Enlisted::Waiting, "nobody overtakes");
    }

    #[test]
    fn the_last_slots_are_not_for_those_who_walk_in() {
        let word = AtomicWord::new(5);
        let most: fn(u32) -> u32 = |limit| limit - 1;
        assert_eq!((0..5).filter(|_| word.try_enter(most)).count(), 4);
        assert_eq!(word.enlist(Some(most)), Enlisted::Waiting);
        assert!(word.load().can_admit(Slot::None), "the room may give the last one");
    }

    #[test]
    fn the_most_waiters_are_refused_rather_than_overflowing_into_the_limit() {
        let word = AtomicWord(AtomicU64::new(u64::from(FIELD_MAX - 1) << WAITERS_SHIFT));
        assert_eq!(word.enlist(Some(|all| all)), Enlisted::Waiting);
        assert_eq!(word.enlist(Some(|all| all)), Enlisted::Crowded);
        assert_eq!((word.load().waiters(), word.load().limit()), (FIELD_MAX, 0));
    }
}
