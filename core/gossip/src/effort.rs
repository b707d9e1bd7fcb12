//! How much work a peer may cause by what it says: signatures that are checked, publications that are looked up, and
//! publishers that make room for others.

use std::time::Duration;

use types::Moment;

/// Signatures of heads that are checked for one peer in a second; half a core's work would be some ten times as many.
const CHECKS: u32 = 1024;
/// Publications that one peer may ask for in a second.
const LOOKUPS: u32 = 4096;
/// Publishers that make room in a second for those that one peer tells of; to find one costs a look at all.
const EVICTIONS: u32 = 16;
/// So many seconds of each may be used at once.
const SECONDS_AT_ONCE: u32 = 4;

/// What is left to one peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    checks: Allowance,
    lookups: Allowance,
    evictions: Allowance,
}

/// A number that is used up and grows back.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    rate: u32,
    left: u32,
    /// Up to when it has grown.
    at: Moment,
}

impl Effort {
    /// All of it, for a peer that has come now.
    pub(crate) fn new(now: Moment) -> Self {
        let whole = |rate| Allowance { rate, left: rate * SECONDS_AT_ONCE, at: now };
        Self { checks: whole(CHECKS), lookups: whole(LOOKUPS), evictions: whole(EVICTIONS) }
    }

    /// Whether another signature may be checked for this peer.
    pub(crate) fn take_check(&mut self, now: Moment) -> bool {
        self.checks.take(1, now) == 1
    }

    /// Whether another publisher may make room for one that this peer tells of.
    pub(crate) fn take_eviction(&mut self, now: Moment) -> bool {
        self.evictions.take(1, now) == 1
    }

    /// How many of the publications that this peer asks for are looked up.
    pub(crate) fn take_lookups(&mut self, wanted: usize, now: Moment) -> usize {
        let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
        self.lookups.take(wanted, now) as usize
    }
}

impl Allowance {
    /// Takes as much of this as is left.
    fn take(&mut self, wanted: u32, now: Moment) -> u32 {
        let step = Duration::from_secs(1) / self.rate;
        let grown = now.since(self.at).as_nanos() / step.as_nanos().max(1);
        if grown > 0 {
            let grown = u32::try_from(grown).unwrap_or(u32::MAX);
            self.left = self.left.saturating_add(grown).min(self.rate * SECONDS_AT_ONCE);
            self.at = now;
        }
        let taken = wanted.min(self.left);
        self.left -= taken;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_up_grows_back_and_no_further_than_it_was() {
        let start = Moment::ORIGIN.after(Duration::from_secs(9));
        let mut effort = Effort::new(start);
        let whole = (CHECKS * SECONDS_AT_ONCE) as usize;
        assert_eq!((0..whole + 9).filter(|_| effort.take_check(start)).count(), whole);
        let later = start.after(Duration::from_secs(1));
        let grown = (0..whole).filter(|_| effort.take_check(later)).count();
        assert!(grown.abs_diff(CHECKS as usize) <= 1, "{grown}");
        let much_later = later.after(Duration::from_secs(3600));
        assert_eq!((0..whole * 2).filter(|_| effort.take_check(much_later)).count(), whole);
        assert_eq!(effort.take_lookups(10, start), 10, "either has its own");
        assert_eq!(effort.take_lookups(1 << 20, start), (LOOKUPS * SECONDS_AT_ONCE) as usize - 10);
    }
}
