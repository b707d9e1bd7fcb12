//! Whether a failure is the server's, or what one client makes of it.
//!
//! A client can have a healthy server fail: by asking for what takes longer than the timeout, for what is answered 503, or
//! for more new connections at once than the server accepts. Were such failures counted, one client could open the circuit
//! breaker for everybody, and keep it open. So a failure counts only once the requests of all clients that have come lately
//! have failed, or of sixteen of them, and not while the server does well for others. Three clients are enough if
//! the server cannot even be reached, which is hard for a client to bring about. An open breaker is tested by one client after
//! the other, and its time is doubled only if all of them fail.

use std::{
    sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use types::Moment;

/// How many clients are told apart.
const CLIENTS: usize = 16;
/// How many clients have to fail to reach a server, if there are as many.
const SEVERAL: usize = 3;
/// A client whose test of an open breaker has failed leaves the next one to others for this long.
const TESTED_FOR: Duration = Duration::from_secs(5);
/// A client that came in this period or in the one before has come lately, in nanoseconds.
const PERIOD: u64 = 10_000_000_000;
/// While another client was answered within this time, a failure does not count.
const DOES_WELL: Duration = Duration::from_secs(1);
/// A good answer is noted again after this time, in nanoseconds: a write for each answer would be felt.
const NOTED_FOR: u64 = 50_000_000;

/// The way in which a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The server could not be reached.
    Unreached,
    /// The server broke off, was late, or said that it cannot answer: a client can provoke this with a certain request.
    Answer,
}

/// A number that tells clients apart.
pub type ClientId = u64;

/// The number of a client that is not known, and of requests that nobody made.
pub const NOBODY: ClientId = 0;

/// What is known of a server's clients. Threads may overwrite each other's notes, which makes them late by one request.
#[derive(Debug, Default)]
pub struct Blame {
    /// The two clients that were answered last, and when.
    good: [Good; 2],
    /// Clients whose requests have failed since the last good answer.
    failed: Few<CLIENTS>,
    /// Those of them that did not reach the server.
    unreached: Few<SEVERAL>,
    seen: Few<CLIENTS>,
    /// The number of the period of `seen`, from 1.
    period: AtomicU64,
    /// How many clients were seen in the period before.
    seen_before: AtomicU32,
    /// Clients whose tests of the open breaker have failed.
    testers: Few<CLIENTS>,
    /// When the last of them failed, in nanoseconds.
    tested_at: AtomicU64,
}

/// The first clients of some kind, in order and without gaps.
#[derive(Debug)]
struct Few<const MOST: usize>([AtomicU64; MOST]);

#[derive(Debug, Default)]
struct Good {
    client: AtomicU64,
    /// Time of the last good result in nanoseconds; 0 for never.
    at: AtomicU64,
}

impl Good {
    /// Whether this was noted so lately that it need not be noted again.
    fn is_new(&self, now: Moment) -> bool {
        let at = self.at.load(Relaxed);
        at != 0 && now.as_nanos().saturating_sub(at) < NOTED_FOR
    }
}

impl Blame {
    /// A client was answered well. For one of the last two clients this is a handful of loads, for others some more.
    pub fn answered(&self, client: ClientId, now: Moment) {
        if !self.failed.is_empty() {
            self.failed.clear();
            self.unreached.clear();
        }
        let [first, second] = &self.good;
        let known = [first, second].into_iter().find(|good| good.client.load(Relaxed) == client);
        if known.is_some_and(|good| good.is_new(now)) {
            return;
        }
        self.came(client, now);
        let older = if first.at.load(Relaxed) <= second.at.load(Relaxed) { first } else { second };
        // While two clients do well, one of them is another than whoever fails: a third need not be noted.
        if known.is_none() && older.is_new(now) {
            return;
        }
        let place = known.unwrap_or(older);
        place.client.store(client, Relaxed);
        place.at.store(now.as_nanos().max(1), Relaxed);
    }

    /// What began well for a client has failed all the same.
    pub fn take_back(&self, client: ClientId) {
        for good in self.good.iter().filter(|good| good.client.load(Relaxed) == client) {
            good.at.store(0, Relaxed);
        }
    }

    /// A request of a client has failed; says whether that counts against the server.
    pub fn counts(&self, failure: Failure, client: ClientId, now: Moment) -> bool {
        self.came(client, now);
        let most = match failure {
            Failure::Unreached => {
                self.unreached.add(client);
                SEVERAL
            }
            Failure::Answer => CLIENTS,
        };
        self.failed.add(client);
        let does_well = |good: &Good| {
            let at = good.at.load(Relaxed);
            at != 0 && good.client.load(Relaxed) != client && now.since(Moment::from_nanos(at)) < DOES_WELL
        };
        self.failed.count() >= self.recent().min(most) && !self.good.iter().any(does_well)
    }

    /// Whether the failures since the last good answer say something to a client: it is among those whose requests have failed,
    /// or these are as many as are told apart, or several have not even reached the server. A client that has not failed may be
    /// better off, however the breaker stands.
    #[must_use]
    pub fn concerns(&self, client: ClientId) -> bool {
        self.failed.contains(client) || self.failed.is_full() || self.unreached.is_full()
    }

    /// Whether a request of this client may be what an open breaker is tested with.
    #[must_use]
    pub fn may_test(&self, client: ClientId, now: Moment) -> bool {
        !self.has_tested_lately(now) || !self.testers.contains(client)
    }

    /// A client's test of an open breaker has failed; says whether that decides. It does not while there are clients that have
    /// not tested it yet.
    pub fn test_decides(&self, client: ClientId, now: Moment) -> bool {
        if !self.has_tested_lately(now) {
            self.testers.clear();
        }
        self.tested_at.store(now.as_nanos().max(1), Relaxed);
        self.came(client, now);
        self.testers.add(client);
        let decides = self.testers.count() >= self.recent();
        if decides {
            self.testers.clear();
        }
        decides
    }

    fn has_tested_lately(&self, now: Moment) -> bool {
        let at = self.tested_at.load(Relaxed);
        at != 0 && now.since(Moment::from_nanos(at)) < TESTED_FOR
    }

    /// Notes that a client has come.
    fn came(&self, client: ClientId, now: Moment) {
        let (period, before) = (now.as_nanos() / PERIOD + 1, self.period.load(Relaxed));
        if before < period && self.period.compare_exchange(before, period, Relaxed, Relaxed).is_ok() {
            let seen = if before + 1 == period { self.seen.count() } else { 0 };
            self.seen_before.store(u32::try_from(seen).unwrap_or(u32::MAX), Relaxed);
            self.seen.clear();
        }
        self.seen.add(client);
    }

    /// How many clients have come lately, as far as they are told apart.
    fn recent(&self) -> usize {
        self.seen.count().max(self.seen_before.load(Relaxed) as usize)
    }
}

impl<const MOST: usize> Few<MOST> {
    /// Adds a client, unless it is there or there is no room.
    fn add(&self, client: ClientId) {
        // A client that is not known counts as one.
        let client = client.max(1);
        for place in &self.0 {
            match place.load(Relaxed) {
                0 => return place.store(client, Relaxed),
                known if known == client => return,
                _ => {}
            }
        }
    }

    fn contains(&self, client: ClientId) -> bool {
        self.0.iter().any(|place| place.load(Relaxed) == client.max(1))
    }

    fn count(&self) -> usize {
        self.0.iter().take_while(|place| place.load(Relaxed) != 0).count()
    }

    fn is_empty(&self) -> bool {
        self.0.first().is_none_or(|first| first.load(Relaxed) == 0)
    }

    fn is_full(&self) -> bool {
        self.0.last().is_some_and(|last| last.load(Relaxed) != 0)
    }

    fn clear(&self) {
        // Reading first keeps the cache line shared while all goes well.
        for place in self.0.iter().filter(|place| place.load(Relaxed) != 0) {
            place.store(0, Relaxed);
        }
    }
}

impl<const MOST: usize> Default for Few<MOST> {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; MOST])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    /// A client does not reach the server.
    fn fails(blame: &Blame, client: ClientId, now: Moment) -> bool {
        blame.counts(Failure::Unreached, client, now)
    }

    #[test]
    fn what_clients_can_bring_about_counts_only_if_all_that_come_have_it() {
        let blame = Blame::default();
        (1..=9).for_each(|client| blame.answered(client, at(0)));
        let answered_badly = |client, now| blame.counts(Failure::Answer, client, now);
        assert!(!(1..=8).any(|client| answered_badly(client, at(5_000))), "the ninth does well");
        assert!(answered_badly(9, at(5_001)));
        blame.answered(9, at(6_000));
        assert!(!(1..=8).any(|client| answered_badly(client, at(8_000))));
        (20..40).for_each(|client| blame.answered(client, at(9_000)));
        let counted = (20..40).filter(|client| answered_badly(*client, at(11_000))).count();
        assert_eq!(counted, 20 - CLIENTS + 1, "so many clients are told apart");
    }

    #[test]
    fn a_client_whose_test_has_failed_leaves_the_next_to_others() {
        let blame = Blame::default();
        (1..=3).for_each(|client| blame.answered(client, at(0)));
        assert!(blame.may_test(1, at(3_000)));
        assert!(!blame.test_decides(1, at(3_000)));
        assert!(!blame.may_test(1, at(3_001)) && blame.may_test(2, at(3_001)));
        assert!(!blame.test_decides(2, at(3_002)));
        assert!(blame.test_decides(3, at(3_003)), "all have tested it");
        assert!(blame.may_test(1, at(3_004)), "a new round");
        assert!(!blame.test_decides(1, at(4_000)));
        assert!(blame.may_test(1, at(9_000)), "nobody else has come");
        assert!(blame.test_decides(1, at(29_000)), "and it is the only one now");
    }

    #[test]
    fn a_good_answer_can_be_taken_back() {
        let blame = Blame::default();
        blame.answered(1, at(0));
        blame.answered(2, at(0));
        assert!(!fails(&blame, 1, at(10)), "the other does well");
        blame.take_back(2);
        assert!(!fails(&blame, 1, at(20)), "alone of two");
        assert!(!fails(&blame, 2, at(30)), "the first does well");
        blame.take_back(1);
        assert!(fails(&blame, 2, at(40)));
    }

    #[test]
    fn the_failures_of_the_only_client_count() {
        let blame = Blame::default();
        blame.answered(7, at(0));
        assert!((1..9).all(|millis| fails(&blame, 7, at(millis))));
    }

    #[test]
    fn the_failures_of_one_client_do_not_count_while_there_are_others() {
        let blame = Blame::default();
        (1..5).for_each(|client| blame.answered(client, at(0)));
        let failures = |from: u64, client| (from..from + 100).any(|millis| fails(&blame, client, at(millis)));
        assert!(!failures(5_000, 9), "nor does it help to be seen");
        assert!(!failures(5_500, 1), "two of several");
        assert!(fails(&blame, 2, at(5_600)), "three have failed and nobody was answered lately");
        blame.answered(3, at(6_000));
        assert!(!fails(&blame, 2, at(6_001)), "it has answered");
        assert!(!(1..3).any(|client| fails(&blame, client, at(6_100))));
        assert!(!fails(&blame, 9, at(6_999)), "another was answered within a second");
        assert!(fails(&blame, 9, at(7_000)));
        assert!(fails(&blame, 9, at(40_000)), "the others have not come lately");
    }

    #[test]
    fn a_client_that_is_answered_itself_does_not_speak_for_the_server() {
        let blame = Blame::default();
        blame.answered(1, at(0));
        blame.answered(2, at(10));
        fails(&blame, 1, at(20));
        assert!(!fails(&blame, 2, at(500)), "the first was answered");
        assert!(fails(&blame, 2, at(1_200)));
        blame.answered(1, at(1_300));
        assert!(!fails(&blame, 1, at(1_301)), "alone");
    }

    #[test]
    fn who_has_come_is_remembered_for_a_period_and_the_next() {
        let blame = Blame::default();
        (1..4).for_each(|client| blame.answered(client, at(9_000)));
        assert!(!fails(&blame, 9, at(10_500)) && !fails(&blame, 9, at(19_999)));
        assert!(fails(&blame, 9, at(20_000)));
    }

    #[test]
    fn failures_concern_those_who_failed_until_they_are_as_many_as_are_told_apart() {
        let blame = Blame::default();
        assert!(!blame.concerns(1) && !blame.concerns(NOBODY));
        for client in 1..16 {
            blame.counts(Failure::Answer, client, at(client));
        }
        assert!(blame.concerns(1) && blame.concerns(15) && !blame.concerns(99));
        blame.counts(Failure::Answer, 16, at(20));
        assert!(blame.concerns(99));
        blame.answered(99, at(21));
        assert!(!blame.concerns(1), "it has answered");
        fails(&blame, 1, at(30));
        fails(&blame, 2, at(30));
        assert!(!blame.concerns(99));
        fails(&blame, 3, at(31));
        assert!(blame.concerns(99), "three have not reached it");
        blame.answered(99, at(32));
        assert!(!blame.concerns(98) && !blame.concerns(1));
    }

    #[test]
    fn of_many_clients_that_do_well_somebody_else_always_speaks_for_the_server() {
        let blame = Blame::default();
        for millis in (0..3_000).step_by(7) {
            (1..=5).for_each(|client| blame.answered(client, at(millis)));
        }
        // Two of them do well no longer; the others go on.
        for millis in (3_000..9_000).step_by(7) {
            assert!(![1, 2].into_iter().any(|client| fails(&blame, client, at(millis))), "{millis}");
            (3..=5).for_each(|client| blame.answered(client, at(millis)));
        }
    }
}
