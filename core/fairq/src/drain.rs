//! How fast the room empties, seen from the tickets that got slots while others waited.

use crate::{calendar::BIN, cost::nanos};
use types::Moment;

/// Tickets needed before their rate is believed.
const TICKETS_TO_BELIEVE: u64 = 8;
/// The most time over which the rate is averaged, in nanoseconds. What lies further back than half of it counts less and
/// less.
const WINDOW: u64 = 2_000_000_000;

/// The fastest rate that is told apart, in thousandths of a ticket per bin. Keeps the arithmetic within 64 bits.
pub(crate) const FASTEST: u64 = 1_000_000_000_000;

/// The rate at which tickets get slots while tickets wait.
#[derive(Debug, Clone, Default)]
pub(crate) struct DrainRate {
    tickets: u64,
    /// Nanoseconds in which these tickets got their slots.
    time: u64,
    /// When the last ticket got its slot, if others waited then.
    last: Option<Moment>,
}

impl DrainRate {
    /// A ticket gets a slot; tickets have been waiting since then, and `more` says whether others still do.
    pub(crate) fn granted(&mut self, waiting_since: Moment, more: bool, now: Moment) {
        let took = nanos(now.since(self.last.unwrap_or(waiting_since)));
        // A ticket that had to wait for nothing says nothing of how long others have to.
        if self.last.is_some() || took > 0 {
            self.tickets += 1;
            self.time = self.time.saturating_add(took);
            if self.time > WINDOW {
                (self.tickets, self.time) = (self.tickets / 2, self.time / 2);
            }
        }
        self.last = more.then_some(now);
    }

    /// Nobody waits any more.
    pub(crate) fn emptied(&mut self) {
        self.last = None;
    }

    /// Thousandths of a ticket per bin; `None` if too few tickets were seen. A wait that is still going on counts.
    pub(crate) fn milli_per_bin(&self, now: Moment) -> Option<u64> {
        let still = self.last.map_or(0, |last| nanos(now.since(last)));
        let time = self.time.saturating_add(still);
        let believed = self.tickets >= TICKETS_TO_BELIEVE && time > 0;
        let rate = u128::from(self.tickets) * 1000 * u128::from(BIN) / u128::from(time.max(1));
        believed.then(|| u64::try_from(rate).unwrap_or(FASTEST).min(FASTEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn tickets_that_come_in_batches_have_the_rate_of_the_batches() {
        let mut rate = DrainRate::default();
        for batch in 1..100 {
            (0..20).for_each(|_| rate.granted(at(0), true, at(batch * 10)));
            assert_eq!(rate.milli_per_bin(at(batch * 10)), Some(250_000), "2000 a second, batch {batch}");
        }
    }

    #[test]
    fn who_did_not_wait_says_nothing_and_who_waits_on_says_much() {
        let mut rate = DrainRate::default();
        (0..100).for_each(|_| rate.granted(at(50), false, at(50)));
        assert_eq!(rate.milli_per_bin(at(50)), None);
        (1..=10).for_each(|nth| rate.granted(at(100), true, at(100 + nth)));
        assert_eq!(rate.milli_per_bin(at(110)), Some(125_000));
        assert_eq!(rate.milli_per_bin(at(200)), Some(12_500), "nothing has moved for a while");
        rate.emptied();
        assert_eq!(rate.milli_per_bin(at(200)), Some(125_000));
    }
}
