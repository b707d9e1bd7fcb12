//! Whether a failure is the server's, or what one client makes of it.
//!
//! A client can have a healthy server fail: by asking for what takes longer than the timeout, for what is answered 503, or
//! for more new connections at once than the server accepts. Were such failures counted, one client could open the circuit
//! breaker for everybody. So a failure counts only once the requests of several clients have failed, or of all that there
//! are, and not while the server does well for others.

use std::{
    sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use types::Moment;

/// As many clients are needed, or all that have come lately.
const CLIENTS: usize = 3;
/// A client that came in this period or in the one before has come lately, in nanoseconds.
const PERIOD: u64 = 10_000_000_000;
/// While another client was answered within this time, a failure does not count.
const DOES_WELL: Duration = Duration::from_secs(1);
/// A good answer is noted again after this time, in nanoseconds: a write for each answer would be felt.
const NOTED_FOR: u64 = 50_000_000;

/// A number that tells clients apart.
pub type ClientId = u64;

/// The number of a client that is not known, and of requests that nobody made.
pub const NOBODY: ClientId = 0;

/// What is known of a server's clients. Threads may overwrite each other's notes, which makes them late by one request.
#[derive(Debug, Default)]
pub struct Blame {
    seen: Few,
    /// The number of the period of `seen`, from 1.
    period: AtomicU64,
    /// How many clients were seen in the period before.
    seen_before: AtomicU32,
    /// Clients whose requests have failed since the last good answer.
    failed: Few,
    /// The two clients that were answered last, and when.
    good: [Good; 2],
}

/// The first clients of some kind.
#[derive(Debug, Default)]
struct Few([AtomicU64; CLIENTS]);

#[derive(Debug, Default)]
struct Good {
    client: AtomicU64,
    /// In nanoseconds; 0 for never.
    at: AtomicU64,
}

impl Blame {
    /// A client was answered well.
    pub fn answered(&self, client: ClientId, now: Moment) {
        self.came(client, now);
        self.failed.clear();
        let (now, [first, second]) = (now.as_nanos(), &self.good);
        let known =
            self.good.iter().find(|good| good.client.load(Relaxed) == client && good.at.load(Relaxed) != 0);
        let older = if first.at.load(Relaxed) <= second.at.load(Relaxed) { first } else { second };
        match known {
            Some(good) if now.saturating_sub(good.at.load(Relaxed)) < NOTED_FOR => {}
            Some(good) => good.at.store(now.max(1), Relaxed),
            None => {
                older.client.store(client, Relaxed);
                older.at.store(now.max(1), Relaxed);
            }
        }
    }

    /// A request of a client has failed; says whether that counts against the server.
    pub fn counts(&self, client: ClientId, now: Moment) -> bool {
        let needed = self.came(client, now);
        let failed = self.failed.add(client);
        let does_well = |good: &Good| {
            let at = good.at.load(Relaxed);
            at != 0 && good.client.load(Relaxed) != client && now.since(Moment::from_nanos(at)) < DOES_WELL
        };
        failed >= needed && !self.good.iter().any(does_well)
    }

    /// Whether the failures since the last good answer say something to a client: it is among those whose requests have failed,
    /// or they are several. One that has not failed may be better off, however the breaker stands.
    #[must_use]
    pub fn concerns(&self, client: ClientId) -> bool {
        let client = client.max(1);
        let failed = self.failed.0.each_ref().map(|place| place.load(Relaxed));
        failed.contains(&client) || !failed.contains(&0)
    }

    /// Notes that a client has come; says how many have lately, as far as it matters.
    fn came(&self, client: ClientId, now: Moment) -> usize {
        let (period, before) = (now.as_nanos() / PERIOD + 1, self.period.load(Relaxed));
        if before < period && self.period.compare_exchange(before, period, Relaxed, Relaxed).is_ok() {
            let seen = if before + 1 == period { self.seen.count() } else { 0 };
            self.seen_before.store(u32::try_from(seen).unwrap_or(u32::MAX), Relaxed);
            self.seen.clear();
        }
        self.seen.add(client).max(self.seen_before.load(Relaxed) as usize)
    }
}

impl Few {
    /// Adds a client, unless it is there or there is no room; how many there are.
    fn add(&self, client: ClientId) -> usize {
        // A client that is not known counts as one.
        let client = client.max(1);
        for (at, place) in self.0.iter().enumerate() {
            match place.load(Relaxed) {
                0 => {
                    place.store(client, Relaxed);
                    return at + 1;
                }
                known if known == client => return self.count(),
                _ => {}
            }
        }
        CLIENTS
    }

    fn count(&self) -> usize {
        self.0.iter().take_while(|place| place.load(Relaxed) != 0).count()
    }

    fn clear(&self) {
        // Reading first keeps the cache line shared while all goes well.
        for place in self.0.iter().filter(|place| place.load(Relaxed) != 0) {
            place.store(0, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn the_failures_of_the_only_client_count() {
        let blame = Blame::default();
        blame.answered(7, at(0));
        assert!((1..9).all(|millis| blame.counts(7, at(millis))));
    }

    #[test]
    fn the_failures_of_one_client_do_not_count_while_there_are_others() {
        let blame = Blame::default();
        (1..5).for_each(|client| blame.answered(client, at(0)));
        let failures = |from: u64, client| (from..from + 100).any(|millis| blame.counts(client, at(millis)));
        assert!(!failures(5_000, 9), "nor does it help to be seen");
        assert!(!failures(5_500, 1), "two of several");
        assert!(blame.counts(2, at(5_600)), "three have failed and nobody was answered lately");
        blame.answered(3, at(6_000));
        assert!(!blame.counts(2, at(6_001)), "it has answered");
        assert!(!(1..3).any(|client| blame.counts(client, at(6_100))));
        assert!(!blame.counts(9, at(6_999)), "another was answered within a second");
        assert!(blame.counts(9, at(7_000)));
        assert!(blame.counts(9, at(40_000)), "the others have not come lately");
    }

    #[test]
    fn a_client_that_is_answered_itself_does_not_speak_for_the_server() {
        let blame = Blame::default();
        blame.answered(1, at(0));
        blame.answered(2, at(10));
        blame.counts(1, at(20));
        assert!(!blame.counts(2, at(500)), "the first was answered");
        assert!(blame.counts(2, at(1_200)));
        blame.answered(1, at(1_300));
        assert!(!blame.counts(1, at(1_301)), "alone");
    }

    #[test]
    fn failures_concern_those_who_failed_until_they_are_several() {
        let blame = Blame::default();
        assert!(!blame.concerns(1) && !blame.concerns(NOBODY));
        blame.counts(1, at(0));
        blame.counts(2, at(1));
        assert!(blame.concerns(1) && blame.concerns(2) && !blame.concerns(3));
        blame.counts(3, at(2));
        assert!(blame.concerns(4), "three have failed");
        blame.answered(4, at(3));
        assert!(!blame.concerns(1), "it has answered");
    }

    #[test]
    fn who_has_come_is_remembered_for_a_period_and_the_next() {
        let blame = Blame::default();
        (1..4).for_each(|client| blame.answered(client, at(9_000)));
        assert!(!blame.counts(9, at(10_500)) && !blame.counts(9, at(19_999)));
        assert!(blame.counts(9, at(20_000)));
    }
}
