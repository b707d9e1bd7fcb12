//! Deficit round robin among the tenants of one lane, as a calendar of the rounds to come.
//!
//! In each round a tenant may use one slot-millisecond per unit of weight. A tenant that used more waits for the
//! round in which that is paid: its stamp. Tenants are filed under their rounds, so the next one is found in a few
//! steps whatever anybody owes, and a debt is paid by the passing of rounds alone.
//!
//! The calendar holds 3,072 rounds to come. Who owes more is filed in the last of them and filed again when it
//! comes; each such filing was paid for with three slot-seconds per unit of weight. It also holds 1,024 rounds that
//! have been: a tenant whose estimates were too high is served there until it has what it is owed.

use crate::{
    buckets::{BUCKETS, Buckets},
    cost::{GENESIS, MAX_CREDIT_ROUNDS, MAX_DEBT, QUANTUM, round_of},
    flows::{Flows, Place},
    list::List,
};
use std::hash::Hash;
use types::Moment;

/// Of so many grants in a row, one goes to the rounds even if newcomers keep coming.
const NEWCOMERS_IN_A_ROW: u8 = 7;

#[derive(Debug)]
pub(crate) struct Rounds {
    /// Who waits without debt. They go first: that is why a sparse tenant waits for one slot only.
    fresh: List,
    calendar: Buckets,
    /// The earliest round in the calendar.
    base: u64,
    /// Virtual time: the standing of the last tenant that was granted a slot. A refund can set it back a little, and
    /// then newcomers begin there too.
    clock: u64,
    newcomers_in_a_row: u8,
    waiting: usize,
}

impl Rounds {
    pub(crate) fn new() -> Self {
        Self {
            fresh: List::EMPTY,
            calendar: Buckets::new(),
            base: round_of(GENESIS) - MAX_CREDIT_ROUNDS,
            clock: GENESIS,
            newcomers_in_a_row: 0,
            waiting: 0,
        }
    }

    pub(crate) fn clock(&self) -> u64 {
        self.clock
    }

    /// Returns the number of tenants that wait in this round structure.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Lets virtual time pass while nobody waits here.
    pub(crate) fn pass(&mut self, virtual_time: u64) {
        debug_assert_eq!(self.waiting, 0, "rounds pass by grants while somebody waits");
        self.set_clock(self.clock + virtual_time);
    }

    /// Takes in a tenant that is in no list. `newcomer`: its queue was empty, so its credit has died; without debt
    /// it is served before the rounds.
    pub(crate) fn file<K: Clone + Eq + Hash>(
        &mut self,
        flows: &mut Flows<K>,
        id: u32,
        newcomer: bool,
        now: Moment,
    ) {
        let clock = self.clock;
        let flow = flows.get_mut(id);
        let standing = flow.standing(now);
        self.waiting += 1;
        if newcomer && standing <= clock {
            flow.account.stamp += clock - standing;
            flow.place = Place::Fresh;
            flows.places.push_back(&mut self.fresh, id);
            return;
        }
        flow.account.bound(clock);
        let bucket = self.bucket(round_of(flow.standing(now)));
        flow.place = Place::Round(bucket);
        self.calendar.push_back(bucket, id, &mut flows.places);
    }

    /// Takes out a tenant that waits here.
    pub(crate) fn unfile<K: Clone + Eq + Hash>(&mut self, flows: &mut Flows<K>, id: u32) {
        match flows.get(id).place {
            Place::Fresh => flows.places.remove(&mut self.fresh, id),
            Place::Round(bucket) => self.calendar.remove(bucket, id, &mut flows.places),
            Place::Idle | Place::Running | Place::Capped => return,
        }
        self.waiting -= 1;
        flows.get_mut(id).place = Place::Running;
    }

    /// Takes out the tenant that is next.
    pub(crate) fn next<K: Clone + Eq + Hash>(&mut self, flows: &mut Flows<K>, now: Moment) -> Option<u32> {
        let due = self.newcomers_in_a_row >= NEWCOMERS_IN_A_ROW;
        let id = match self.fresh.first() {
            Some(id) if self.calendar.is_empty() || !due => {
                self.newcomers_in_a_row =
                    if self.calendar.is_empty() { 0 } else { self.newcomers_in_a_row + 1 };
                id
            }
            _ => {
                self.newcomers_in_a_row = 0;
                self.next_in_calendar(flows, now)?
            }
        };
        self.unfile(flows, id);
        Some(id)
    }

    /// The first tenant of the first round, after moving tenants that have used or owe more than that round.
    fn next_in_calendar<K: Clone + Eq + Hash>(&mut self, flows: &mut Flows<K>, now: Moment) -> Option<u32> {
        let most = self.clock + MAX_DEBT;
        loop {
            let bucket = self.calendar.next_from(index(self.base))?;
            let round = self.base + (bucket.wrapping_sub(index(self.base)) % BUCKETS) as u64;
            self.base = self.base.max(round.saturating_sub(MAX_CREDIT_ROUNDS));
            let id = self.calendar.first_of(bucket)?;
            let standing = flows.get(id).standing(now).min(most);
            if round_of(standing) <= round {
                // Within a round the order is that of filing, and the clock does not follow it back.
                let same_round = round_of(standing) == round_of(self.clock);
                self.set_clock(if same_round { standing.max(self.clock) } else { standing });
                return Some(id);
            }
            let later = self.bucket(round_of(standing));
            self.calendar.remove(bucket, id, &mut flows.places);
            self.calendar.push_back(later, id, &mut flows.places);
            flows.get_mut(id).place = Place::Round(later);
        }
    }

    fn set_clock(&mut self, clock: u64) {
        self.clock = clock.max(self.base * QUANTUM);
        self.base = self.base.max(round_of(self.clock) - MAX_CREDIT_ROUNDS);
    }

    /// The bucket of a round, or of the nearest round in the calendar.
    fn bucket(&self, round: u64) -> usize {
        index(round.clamp(self.base, self.base + BUCKETS as u64 - 1))
    }
}

fn index(round: u64) -> usize {
    usize::try_from(round % BUCKETS as u64).expect("less than the number of buckets")
}
