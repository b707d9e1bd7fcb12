//! The servers of a group as one core sees them, and the choice between them: of two drawn by weight, the less loaded.

use std::{sync::Arc, time::Duration};

use affinity::{Candidate, MaxLoad};
use ron_kernel::{
    blame::ClientId,
    breaker::{Admit, State, Ticket},
};
use types::Moment;

use super::{
    Affinity,
    server::{Server, Standing},
    sticky::{Mark, Sticky},
};
use crate::pool::Pool;

/// How long to stay away when all that is known is that nothing answers now.
const LATER: Duration = Duration::from_secs(1);

/// One core's connections to each server of a group.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    pools: Vec<Arc<Pool>>,
    /// The weights summed up to and with each server.
    ends: Vec<u32>,
    /// What stands for each server; empty if clients are not kept at theirs.
    marks: Vec<Mark>,
}

/// The result of choosing a server.
#[derive(Debug)]
pub(crate) enum Choice {
    /// This one, and the breaker's permission.
    Go(Arc<Pool>, Ticket),
    /// All that could be asked have been.
    AllTried,
    /// None may be asked before so long.
    NoneBefore(Duration),
}

/// Whose request a server is chosen for, and what tests the servers' open breakers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asker {
    /// Requests test open breakers, and this client's may be one of them.
    MayTest(ClientId),
    /// Health checks test open breakers.
    ChecksTest(ClientId),
}

impl Asker {
    /// Whether a request of this client may be what the open breaker of a server is tested with.
    fn may_test(self, server: &Server, now: Moment) -> bool {
        matches!(self, Self::MayTest(client) if server.may_test(client, now))
    }

    /// Whether a server with an open breaker has failed other clients alone. Where health checks test it, it has to pass these.
    fn is_spared_by(self, server: &Server) -> bool {
        match self {
            Self::MayTest(client) => !server.concerns(client),
            Self::ChecksTest(client) => server.passes_checks() && !server.concerns(client),
        }
    }
}

/// The servers that a request has tried, by their index. The memory of the first 64 is part of the request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tried {
    first: u64,
    /// 64 servers each, as far as any of them has been tried.
    more: Vec<u64>,
}

impl Tried {
    fn contains(&self, index: usize) -> bool {
        let word = match index / 64 {
            0 => self.first,
            further => self.more.get(further - 1).copied().unwrap_or(0),
        };
        word >> (index % 64) & 1 == 1
    }

    fn add(&mut self, index: usize) {
        let word = match index / 64 {
            0 => &mut self.first,
            further => {
                self.more.resize(self.more.len().max(further), 0);
                &mut self.more[further - 1]
            }
        };
        *word |= 1 << (index % 64);
    }
}

impl Roster {
    pub(super) fn new(pools: Vec<Arc<Pool>>, sticky: Option<&Sticky>) -> Self {
        let sum = |end: &mut u32, pool: &Arc<Pool>| {
            *end = end.saturating_add(pool.server.weight());
            Some(*end)
        };
        let ends = pools.iter().scan(0, sum).collect();
        let marks =
            sticky.iter().flat_map(|sticky| pools.iter().map(|pool| sticky.mark(&pool.server))).collect();
        Self { pools, ends, marks }
    }

    /// What stands for each server; empty if clients are not kept at theirs.
    pub(super) fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// The server that a request belongs at, as in [`Self::choose`]; `None` if it can go anywhere, because that server is
    /// not used now or was tried already.
    pub(super) fn belongs(
        &self,
        affinity: Affinity,
        tried: &mut Tried,
        asker: Asker,
        now: Moment,
    ) -> Option<Choice> {
        let usable =
            |index: usize| !tried.contains(index) && self.server(index).standing(now) == Standing::Usable;
        // A request that belongs at a server with an open breaker is as good a test as any.
        let testable = |index: usize| {
            let server = self.server(index);
            !tried.contains(index) && server.standing(now) == Standing::Open && asker.may_test(server, now)
        };
        let is_taken = |index: &usize| usable(*index) || testable(*index);
        let (index, ticket) = match affinity {
            Affinity::New => return None,
            Affinity::Server(id) => {
                let index = self.marks.iter().position(|mark| mark.id == id).filter(is_taken)?;
                (index, admitted(self.server(index), now)?)
            }
            Affinity::Key(key, bound) => {
                let found = self.by_hash(key, bound, |index| usable(index) || testable(index))?;
                match admitted(self.server(found), now) {
                    Some(ticket) => (found, ticket),
                    // Another request is testing it.
                    None => {
                        let found = self.by_hash(key, bound, usable)?;
                        (found, admitted(self.server(found), now)?)
                    }
                }
            }
        };
        tried.add(index);
        Some(Choice::Go(Arc::clone(&self.pools[index]), ticket))
    }

    fn by_hash(
        &self,
        key: u64,
        bound: Option<MaxLoad>,
        is_candidate: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let candidates = self.marks.iter().enumerate().map(|(index, mark)| {
            let server = self.server(index);
            let weight = if is_candidate(index) { server.weight() } else { 0 };
            Candidate { id: mark.id, weight, load: server.busy() as u64 }
        });
        affinity::choose(key, candidates, bound)
    }

    pub(crate) fn pools(&self) -> &[Arc<Pool>] {
        &self.pools
    }

    /// Leaves out the servers that have no room, as if they had been tried; why, if there is one.
    pub(crate) fn leave_out<E>(&self, tried: &mut Tried, fits: impl Fn(&Pool) -> Result<(), E>) -> Option<E> {
        let mut full = None;
        for (index, pool) in self.pools.iter().enumerate() {
            if let Err(error) = fits(pool) {
                tried.add(index);
                full = Some(error);
            }
        }
        full
    }

    /// Chooses a server that has not been `tried`, and notes it there. `random` is 64 random bits.
    pub(crate) fn choose(&self, tried: &mut Tried, asker: Asker, now: Moment, random: u64) -> Choice {
        let (index, ticket) = match self.likely(tried, asker, now, random) {
            Some(found) => found,
            None => match self.any(tried, asker, now, random) {
                Some(found) => found,
                None => return self.nobody(tried, asker, now),
            },
        };
        tried.add(index);
        Choice::Go(Arc::clone(&self.pools[index]), ticket)
    }

    /// The choice when nothing is wrong, which looks at two servers only; `None` if something is wrong with one.
    fn likely(&self, tried: &Tried, asker: Asker, now: Moment, random: u64) -> Option<(usize, Ticket)> {
        let [first, second] = self.two(random)?;
        for index in [first, second] {
            if tried.contains(index) {
                return None;
            }
            let server = self.server(index);
            match server.standing(now) {
                Standing::Usable => {}
                // Whoever draws it when its time has come tests it.
                Standing::Open if asker.may_test(server, now) => match server.breaker.check(now) {
                    Admit::Probe(ticket) | Admit::Pass(ticket) => return Some((index, ticket)),
                    Admit::Open { .. } => return None,
                },
                _ => return None,
            }
        }
        let index = self.less_loaded(first, second);
        admitted(self.server(index), now).map(|ticket| (index, ticket))
    }

    /// The choice among all: first of those that are well, then of those that only their health check or their answers
    /// speak against, because one of these is better than none. Then, whoever is due for a test; and then one that has not
    /// failed this client.
    fn any(&self, tried: &Tried, asker: Asker, now: Moment, random: u64) -> Option<(usize, Ticket)> {
        let untried = || (0..self.pools.len()).filter(|index| !tried.contains(*index));
        let usable = |index: &usize| self.server(*index).standing(now) == Standing::Usable;
        let not_open = |index: &usize| self.server(*index).standing(now) != Standing::Open;
        let found = self.drawn(untried().filter(usable), random);
        let found = found.or_else(|| self.drawn(untried().filter(not_open), random));
        let admitted = found.and_then(|index| Some((index, admitted(self.server(index), now)?)));
        if admitted.is_some() {
            return admitted;
        }
        let testable = |index: &usize| asker.may_test(self.server(*index), now);
        let tested =
            untried().filter(testable).find_map(|index| match self.server(index).breaker.check(now) {
                Admit::Probe(ticket) | Admit::Pass(ticket) => Some((index, ticket)),
                Admit::Open { .. } => None,
            });
        // A server that has failed some clients alone is left alone by those alone.
        let spared = |index: &usize| asker.is_spared_by(self.server(*index));
        tested.or_else(|| Some((untried().find(spared)?, Ticket::UNCOUNTED)))
    }

    fn nobody(&self, tried: &Tried, asker: Asker, now: Moment) -> Choice {
        if (0..self.pools.len()).any(|index| tried.contains(index)) {
            return Choice::AllTried;
        }
        let waits = self.pools.iter().map(|pool| wait(&pool.server, asker, now));
        Choice::NoneBefore(waits.min().unwrap_or(LATER))
    }

    /// Two different servers drawn by weight; the same one twice if there is only one.
    fn two(&self, random: u64) -> Option<[usize; 2]> {
        if self.pools.len() == 1 {
            return Some([0, 0]);
        }
        let total = *self.ends.last()?;
        let first = self.at(point(random >> 32, total));
        let (start, end) = (first.checked_sub(1).map_or(0, |before| self.ends[before]), self.ends[first]);
        let weight = end - start;
        let rest = point(random & u64::from(u32::MAX), total - weight);
        let second = self.at(if rest < start { rest } else { rest + weight });
        Some([first, second])
    }

    /// Of two of `candidates` drawn by weight, the less loaded.
    fn drawn(&self, candidates: impl Iterator<Item = usize> + Clone, random: u64) -> Option<usize> {
        let total: u32 = candidates.clone().map(|index| self.server(index).weight()).sum();
        let draw = |bits: u64| {
            let mut left = point(bits, total);
            candidates.clone().find(|index| {
                let weight = self.server(*index).weight();
                let found = left < weight;
                left = left.saturating_sub(weight);
                found
            })
        };
        let (first, second) = (draw(random >> 32)?, draw(random & u64::from(u32::MAX))?);
        Some(self.less_loaded(first, second))
    }

    /// The one with fewer busy connections for its weight; the first if they are equal.
    fn less_loaded(&self, first: usize, second: usize) -> usize {
        let (a, b) = (self.server(first), self.server(second));
        let (load_a, load_b) =
            (a.busy() as u64 * u64::from(b.weight()), b.busy() as u64 * u64::from(a.weight()));
        if load_b < load_a { second } else { first }
    }

    fn at(&self, point: u32) -> usize {
        self.ends.partition_point(|end| *end <= point).min(self.pools.len() - 1)
    }

    fn server(&self, index: usize) -> &Server {
        &self.pools[index].server
    }
}

/// How long until a server may answer a request of this client: until its breaker can be tested, by the client, by another one
/// or by a health check.
fn wait(server: &Server, asker: Asker, now: Moment) -> Duration {
    let until_probe = || server.breaker.next_probe().map_or(Duration::ZERO, |probe| probe.since(now));
    match asker {
        Asker::ChecksTest(_) => server.next_test_by_check(now).unwrap_or(LATER),
        Asker::MayTest(client) if server.may_test(client, now) => until_probe(),
        // Another client's test may end any moment.
        Asker::MayTest(_) if server.breaker.state() == State::HalfOpen => LATER,
        Asker::MayTest(_) => until_probe().max(LATER),
    }
}

/// A closed breaker's permission; `None` if it opened this moment.
fn admitted(server: &Server, now: Moment) -> Option<Ticket> {
    match server.breaker.check(now) {
        Admit::Pass(ticket) | Admit::Probe(ticket) => Some(ticket),
        Admit::Open { .. } => None,
    }
}

/// A number below `total` from 32 random bits; zero if there is none.
fn point(bits: u64, total: u32) -> u32 {
    u32::try_from(((bits & u64::from(u32::MAX)) * u64::from(total)) >> 32).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        UpstreamConfig,
        upstream::server::{Judged, Verdict},
    };
    use ron_kernel::{Clock, blame::Failure, metrics::Counter};

    const NOW: Moment = Moment::from_nanos(1_000_000_000);

    fn roster(weights: &[u32]) -> Roster {
        let config = UpstreamConfig::default();
        let pool = |weight: &u32| {
            let server = Arc::new(Server::example(*weight, &config));
            Arc::new(Pool::new(server, &config, Clock::start(), Counter::default()))
        };
        Roster::new(weights.iter().map(pool).collect(), None)
    }

    /// Whom it chooses in 4,000 draws, and how often.
    fn shares(roster: &Roster, asker: Asker) -> Vec<usize> {
        let mut counts = vec![0; roster.pools.len()];
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..4_000 {
            let chosen = roster.choose(&mut Tried::default(), asker, NOW, rng.u64(..));
            let Choice::Go(pool, _) = chosen else { panic!("{chosen:?}") };
            let index = roster.pools.iter().position(|known| Arc::ptr_eq(known, &pool));
            counts[index.expect("one of them")] += 1;
        }
        counts
    }

    /// The server fails the client 7, and its breaker opens.
    fn fail(server: &Server) {
        server.judge(Verdict::Failed, Failure::Answer, 7, NOW);
        (0..5).for_each(|_| server.went(Verdict::Failed, NOW));
        assert_eq!(server.standing(NOW), Standing::Open);
    }

    #[test]
    fn servers_without_load_are_chosen_by_weight() {
        let counts = shares(&roster(&[1, 3, 4]), Asker::MayTest(7));
        for (count, expected) in counts.iter().zip([500_usize, 1_500, 2_000]) {
            assert!(count.abs_diff(expected) < 150, "{counts:?}");
        }
    }

    #[test]
    fn of_two_servers_the_one_with_less_load_for_its_weight_is_chosen() {
        let roster = roster(&[1, 3]);
        roster.server(0).began();
        (0..2).for_each(|_| roster.server(1).began());
        assert_eq!(
            shares(&roster, Asker::MayTest(7)),
            [0, 4_000],
            "two thirds of a connection are less than one"
        );
        (0..2).for_each(|_| roster.server(1).began());
        assert_eq!(shares(&roster, Asker::MayTest(7)), [4_000, 0], "four thirds are more");
    }

    #[test]
    fn a_server_that_is_not_well_gets_nothing_while_another_is() {
        let roster = roster(&[1, 1, 1]);
        fail(roster.server(0));
        roster.server(1).checked(false, &UpstreamConfig::default().health);
        assert_eq!(shares(&roster, Asker::MayTest(7)), [0, 0, 4_000]);
    }

    #[test]
    fn an_unhealthy_server_is_better_than_none_and_an_open_breaker_is_not() {
        let roster = roster(&[1, 1]);
        fail(roster.server(0));
        roster.server(1).checked(false, &UpstreamConfig::default().health);
        assert_eq!(shares(&roster, Asker::MayTest(7)), [0, 4_000]);
        fail(roster.server(1));
        let chosen = roster.choose(&mut Tried::default(), Asker::MayTest(7), NOW, 0);
        assert!(matches!(chosen, Choice::NoneBefore(wait) if wait == Duration::from_secs(5)), "{chosen:?}");
        let in_background = roster.choose(&mut Tried::default(), Asker::ChecksTest(7), NOW, 0);
        assert!(
            matches!(in_background, Choice::NoneBefore(wait) if wait == Duration::from_secs(5)),
            "{in_background:?}"
        );
        let whom_it_has_not_failed = roster.choose(&mut Tried::default(), Asker::MayTest(8), NOW, 0);
        assert!(
            matches!(whom_it_has_not_failed, Choice::Go(_, Ticket::UNCOUNTED)),
            "{whom_it_has_not_failed:?}"
        );
    }

    #[test]
    fn when_an_open_breakers_time_is_over_one_request_tests_it_unless_health_checks_do() {
        let roster = roster(&[1]);
        fail(roster.server(0));
        let later = NOW.after(Duration::from_secs(5));
        let in_background = roster.choose(&mut Tried::default(), Asker::ChecksTest(7), later, 0);
        assert!(matches!(in_background, Choice::NoneBefore(_)), "{in_background:?}");
        let first = roster.choose(&mut Tried::default(), Asker::MayTest(7), later, 0);
        assert!(matches!(first, Choice::Go(..)), "{first:?}");
        let second = roster.choose(&mut Tried::default(), Asker::MayTest(7), later, 0);
        assert!(matches!(second, Choice::NoneBefore(_)), "{second:?}");
    }

    #[test]
    fn where_health_checks_test_the_breaker_clients_are_spared_as_long_as_these_succeed() {
        let (roster, health) = (roster(&[1]), UpstreamConfig::default().health);
        let server = roster.server(0);
        fail(server);
        let passes = |client| {
            let chosen = roster.choose(&mut Tried::default(), Asker::ChecksTest(client), NOW, 0);
            matches!(chosen, Choice::Go(_, Ticket::UNCOUNTED))
        };
        assert!(!passes(8), "nothing is known of its health");
        server.checked(true, &health);
        assert!(passes(8) && !passes(7), "it has failed the other client");
        server.checked(false, &health);
        assert!(!passes(8), "the last check failed");
        server.checked(true, &health);
        assert!(passes(8));
    }

    #[test]
    fn the_wait_for_a_test_by_a_health_check_lasts_until_the_breaker_and_the_check_are_due() {
        let roster = roster(&[1]);
        let server = roster.server(0);
        fail(server);
        let at = |seconds: u64| NOW.after(Duration::from_secs(seconds));
        let wait =
            |seconds: u64| match roster.choose(&mut Tried::default(), Asker::ChecksTest(7), at(seconds), 0) {
                Choice::NoneBefore(wait) => wait.as_secs(),
                other => panic!("{other:?}"),
            };
        server.set_next_check(at(2));
        assert_eq!(wait(1), 4, "the check comes before the breaker's time is over");
        server.set_next_check(at(7));
        assert_eq!((wait(1), wait(5)), (6, 2), "the check comes later");
        assert_eq!(wait(7), LATER.as_secs(), "the check is about to begin");
        assert!(matches!(server.breaker.check(at(7)), Admit::Probe(_)));
        assert_eq!(wait(8), LATER.as_secs(), "the check is in progress");
        server.set_next_check(at(9));
        assert_eq!(wait(8), 4, "the check came to nothing, and the breaker waits for another");
    }

    #[test]
    fn a_client_whose_test_has_failed_waits_until_another_can_test() {
        let roster = roster(&[1]);
        let server = roster.server(0);
        (1..=3).for_each(|client| server.answered(client, NOW));
        fail(server);
        let later = NOW.after(Duration::from_secs(5));
        let tests =
            |client: ClientId| match roster.choose(&mut Tried::default(), Asker::MayTest(client), later, 0) {
                Choice::Go(_, ticket) => Ok(ticket),
                Choice::NoneBefore(wait) => Err(wait),
                Choice::AllTried => panic!("nothing was tried"),
            };
        let ticket = tests(7).expect("the first test");
        assert_eq!(server.judge(Verdict::Failed, Failure::Answer, 7, later), Judged::TestAgain);
        server.test_again(ticket);
        assert_eq!(tests(7).err(), Some(LATER), "another client may test it any moment");
        let ticket = roster.any(&Tried::default(), Asker::MayTest(1), later, 0).expect("the second test").1;
        assert_eq!(tests(7).err(), Some(LATER), "another client is testing it");
        server.record(ticket, Verdict::Failed, later);
        assert_eq!(tests(7).err(), Some(Duration::from_secs(10)));
    }

    #[test]
    fn each_of_many_servers_is_tried_once() {
        let roster = roster(&[1; 200]);
        let (mut tried, mut rng) = (Tried::default(), fastrand::Rng::with_seed(1));
        assert_eq!(
            roster.leave_out(&mut tried, |pool| {
                let is_last = Arc::ptr_eq(&roster.pools[199].server, &pool.server);
                if is_last { Err(()) } else { Ok(()) }
            }),
            Some(())
        );
        let mut chosen = Vec::new();
        while let Choice::Go(pool, _) = roster.choose(&mut tried, Asker::MayTest(7), NOW, rng.u64(..)) {
            assert!(!chosen.iter().any(|known| Arc::ptr_eq(known, &pool)));
            chosen.push(pool);
        }
        assert_eq!(chosen.len(), 199, "the one that was left out is not chosen either");
    }

    #[test]
    fn each_server_is_tried_once() {
        let roster = roster(&[5, 1, 1]);
        let mut tried = Tried::default();
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..3 {
            let chosen = roster.choose(&mut tried, Asker::MayTest(7), NOW, rng.u64(..));
            assert!(matches!(chosen, Choice::Go(..)), "{chosen:?}");
        }
        assert_eq!(tried.first, 0b111);
        assert!(matches!(roster.choose(&mut tried, Asker::MayTest(7), NOW, 0), Choice::AllTried));
    }
}
