//! The servers of a group as one core sees them, and the choice between them: of two drawn by weight, the less loaded.

use std::{sync::Arc, time::Duration};

use ron_kernel::breaker::{Admit, Ticket};
use types::Moment;

use super::server::{Server, Standing};
use crate::pool::Pool;

/// How long to stay away when all that is known is that nothing answers now.
const LATER: Duration = Duration::from_secs(1);

/// One core's connections to each server of a group.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    pools: Vec<Arc<Pool>>,
    /// The weights summed up to and with each server.
    ends: Vec<u32>,
}

/// Whom to ask.
#[derive(Debug)]
pub(crate) enum Choice {
    /// This one, and the breaker's permission.
    Go(Arc<Pool>, Ticket),
    /// All that could be asked have been.
    AllTried,
    /// None may be asked before so long.
    NoneBefore(Duration),
}

/// Which servers a request has tried; beyond 64 they are not told apart.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tried(u64);

impl Tried {
    fn contains(self, index: usize) -> bool {
        u32::try_from(index).is_ok_and(|index| self.0.checked_shr(index).is_some_and(|bits| bits & 1 == 1))
    }

    fn add(&mut self, index: usize) {
        self.0 |= u32::try_from(index).ok().and_then(|index| 1_u64.checked_shl(index)).unwrap_or(0);
    }
}

impl Roster {
    pub(super) fn new(pools: Vec<Arc<Pool>>) -> Self {
        let sum = |end: &mut u32, pool: &Arc<Pool>| {
            *end = end.saturating_add(pool.server.weight());
            Some(*end)
        };
        let ends = pools.iter().scan(0, sum).collect();
        Self { pools, ends }
    }

    pub(crate) fn pools(&self) -> &[Arc<Pool>] {
        &self.pools
    }

    /// Chooses a server that has not been `tried`, and notes it there. `live_probes` says whether a request may be what
    /// an open breaker is tested with. `random` is 64 random bits.
    pub(crate) fn choose(&self, tried: &mut Tried, live_probes: bool, now: Moment, random: u64) -> Choice {
        let (index, ticket) = match self.likely(*tried, live_probes, now, random) {
            Some(found) => found,
            None => match self.any(*tried, live_probes, now, random) {
                Some(found) => found,
                None => return self.nobody(*tried, live_probes, now),
            },
        };
        tried.add(index);
        Choice::Go(Arc::clone(&self.pools[index]), ticket)
    }

    /// The choice when nothing is wrong, which looks at two servers only; `None` if something is wrong with one.
    fn likely(&self, tried: Tried, live_probes: bool, now: Moment, random: u64) -> Option<(usize, Ticket)> {
        let [first, second] = self.two(random)?;
        for index in [first, second] {
            if tried.contains(index) {
                return None;
            }
            let server = self.server(index);
            match server.standing(now) {
                Standing::Usable => {}
                // Whoever draws it when its time has come tests it.
                Standing::Open if live_probes => match server.breaker.check(now) {
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
    /// speak against, because one of these is better than none. Then, whoever is due for a test.
    fn any(&self, tried: Tried, live_probes: bool, now: Moment, random: u64) -> Option<(usize, Ticket)> {
        let untried = || (0..self.pools.len()).filter(|index| !tried.contains(*index));
        let usable = |index: &usize| self.server(*index).standing(now) == Standing::Usable;
        let not_open = |index: &usize| self.server(*index).standing(now) != Standing::Open;
        let found = self.drawn(untried().filter(usable), random);
        let found = found.or_else(|| self.drawn(untried().filter(not_open), random));
        let admitted = found.and_then(|index| Some((index, admitted(self.server(index), now)?)));
        if admitted.is_some() || !live_probes {
            return admitted;
        }
        untried().find_map(|index| match self.server(index).breaker.check(now) {
            Admit::Probe(ticket) | Admit::Pass(ticket) => Some((index, ticket)),
            Admit::Open { .. } => None,
        })
    }

    fn nobody(&self, tried: Tried, live_probes: bool, now: Moment) -> Choice {
        if (0..self.pools.len()).any(|index| tried.contains(index)) {
            return Choice::AllTried;
        }
        let wait = |pool: &Arc<Pool>| match pool.server.breaker.check(now) {
            Admit::Open { retry_after } => retry_after,
            Admit::Pass(_) | Admit::Probe(_) => Duration::ZERO,
        };
        // Where tests are made in the background, asking would take one.
        let waits = self.pools.iter().filter(|_| live_probes).map(wait);
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

/// A closed breaker's permission; `None` if it opened this moment.
fn admitted(server: &Server, now: Moment) -> Option<Ticket> {
    match server.breaker.check(now) {
        Admit::Pass(ticket) | Admit::Probe(ticket) => Some(ticket),
        Admit::Open { .. } => None,
    }
}

/// A number below `total` from 32 random bits; zero if there is none.
fn point(bits: u64, total: u32) -> u32 {
    u32::try_from((bits & u64::from(u32::MAX)) * u64::from(total) >> 32).unwrap_or(0)
}
