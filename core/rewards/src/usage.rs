//! Usage added up per actor and metric, in whatever order it arrives.

use std::{collections::HashMap, sync::Arc};

use crate::{Metric, Row, rows::is_actor};

/// Sums per actor and metric, growing.
///
/// Bounded by what it is told at its making. Two of them, filled on two threads, are joined by [`Usage::merge`].
#[derive(Clone, Debug)]
pub struct Usage {
    max_actors: usize,
    max_metrics: usize,
    index: HashMap<Arc<str>, u32>,
    /// The names of actors, by their index.
    names: Vec<Arc<str>>,
    /// By number: the actor that followed this one the last time. Snapshots are in one order, so that whoever comes
    /// next is mostly known without a look into the index, which is all over the memory.
    followers: Vec<u32>,
    metrics: Vec<Metric>,
    /// One column per metric, as long as its last actor's number asks for.
    columns: Vec<Vec<u128>>,
    /// Rows of one actor mostly come together.
    last_actor: u32,
    last_metric: usize,
}

/// Why usage could not be added. What was added before still stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UsageFault {
    /// The actor's name is not canonical.
    #[error("an actor that is not canonical")]
    Actor,
    /// The metric's name is not canonical.
    #[error("a metric that is not canonical")]
    Metric,
    /// More actors than allowed.
    #[error("too many actors")]
    TooManyActors,
    /// More metrics than allowed.
    #[error("too many metrics")]
    TooManyMetrics,
    /// The sum does not fit into 128 bits.
    #[error("a sum of units overflows")]
    Overflow,
}

impl Usage {
    /// Nothing yet, and room for so many actors and metrics. An actor costs about 100 bytes and its name, and 16
    /// bytes per metric.
    #[must_use]
    pub fn new(max_actors: usize, max_metrics: usize) -> Self {
        let max_actors = max_actors.min(u32::MAX as usize);
        let (index, names, followers) = (HashMap::new(), Vec::new(), Vec::new());
        let (metrics, columns) = (Vec::new(), Vec::new());
        let (last_actor, last_metric) = (0, 0);
        Self { max_actors, max_metrics, index, names, followers, metrics, columns, last_actor, last_metric }
    }

    /// Adds units.
    ///
    /// # Errors
    /// [`UsageFault`], if a name is not canonical, a limit is reached, or the sum overflows.
    pub fn add(&mut self, row: Row<'_>) -> Result<(), UsageFault> {
        let actor = self.actor(row.actor)?;
        let metric = self.metric(row.metric)?;
        self.add_numbered(actor, metric, row.units)
    }

    /// Adds units to the actor and the metric with these numbers, for those who read columns with dictionaries.
    ///
    /// # Errors
    /// [`UsageFault`], if a number was not given out by [`Usage::actor`] or [`Usage::metric`], or the sum overflows.
    pub fn add_numbered(&mut self, actor: u32, metric: u32, units: u128) -> Result<(), UsageFault> {
        let (actor, actors) = (actor as usize, self.names.len());
        let column = self.columns.get_mut(metric as usize).ok_or(UsageFault::Metric)?;
        if column.len() <= actor {
            if actor >= actors {
                return Err(UsageFault::Actor);
            }
            column.resize(actor + 1, 0);
        }
        column[actor] = column[actor].checked_add(units).ok_or(UsageFault::Overflow)?;
        Ok(())
    }

    /// The number of an actor, who is new or known.
    ///
    /// # Errors
    /// [`UsageFault`], if the name is not canonical or there is no room for one more.
    pub fn actor(&mut self, name: &str) -> Result<u32, UsageFault> {
        let last = self.last_actor;
        if self.is_named(last, name) {
            return Ok(last);
        }
        let follower = self.followers.get(last as usize).copied().unwrap_or(0);
        self.last_actor = if self.is_named(follower, name) { follower } else { self.looked_up(name)? };
        if let Some(follower) = self.followers.get_mut(last as usize) {
            *follower = self.last_actor;
        }
        Ok(self.last_actor)
    }

    /// The number of a metric, which is new or known.
    ///
    /// # Errors
    /// [`UsageFault`], if the name is not canonical or there is no room for one more.
    pub fn metric(&mut self, name: &str) -> Result<u32, UsageFault> {
        // In sorted rows the next metric is mostly the one behind the last.
        let (before, behind) = (0..=self.last_metric, self.last_metric + 1..self.metrics.len());
        let is_it = |at: &usize| self.metrics.get(*at).is_some_and(|metric| metric.as_str() == name);
        let number = match behind.chain(before).find(is_it) {
            Some(number) => number,
            None => self.new_metric(name)?,
        };
        self.last_metric = number;
        u32::try_from(number).map_err(|_| UsageFault::TooManyMetrics)
    }

    /// Adds all of `other`.
    ///
    /// # Errors
    /// [`UsageFault`], as for [`Usage::add`].
    pub fn merge(&mut self, other: Self) -> Result<(), UsageFault> {
        for row in other.into_table().rows() {
            self.add(row)?;
        }
        Ok(())
    }

    /// Everything in the order of actors and metrics, ready to be sealed.
    #[must_use]
    pub fn into_table(self) -> UsageTable {
        self.into()
    }

    fn is_named(&self, actor: u32, name: &str) -> bool {
        self.names.get(actor as usize).is_some_and(|known| **known == *name)
    }

    /// The number of an actor by the index, where it is put if it is new.
    fn looked_up(&mut self, name: &str) -> Result<u32, UsageFault> {
        if let Some(number) = self.index.get(name) {
            return Ok(*number);
        }
        if !is_actor(name) {
            return Err(UsageFault::Actor);
        }
        if self.names.len() >= self.max_actors {
            return Err(UsageFault::TooManyActors);
        }
        let number = u32::try_from(self.names.len()).map_err(|_| UsageFault::TooManyActors)?;
        let name: Arc<str> = name.into();
        self.index.insert(Arc::clone(&name), number);
        self.names.push(name);
        self.followers.push(number);
        Ok(number)
    }

    fn new_metric(&mut self, name: &str) -> Result<usize, UsageFault> {
        if self.metrics.len() >= self.max_metrics {
            return Err(UsageFault::TooManyMetrics);
        }
        self.metrics.push(Metric::new(name).map_err(|_| UsageFault::Metric)?);
        self.columns.push(Vec::new());
        Ok(self.metrics.len() - 1)
    }
}

/// Sums per actor and metric, in order.
#[derive(Clone, Debug)]
pub struct UsageTable {
    /// In the order of their bytes, with their places in the columns.
    actors: Vec<(Arc<str>, u32)>,
    /// In the order of their names.
    columns: Vec<(Metric, Vec<u128>)>,
}

impl From<Usage> for UsageTable {
    fn from(usage: Usage) -> Self {
        let mut actors: Vec<_> = usage.names.into_iter().zip(0..).collect();
        actors.sort_unstable();
        let mut columns: Vec<_> = usage.metrics.into_iter().zip(usage.columns).collect();
        columns.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        Self { actors, columns }
    }
}

impl UsageTable {
    /// Returns the number of actors.
    #[must_use]
    pub fn actors(&self) -> usize {
        self.actors.len()
    }

    /// The rows that have units, in the order that snapshots have.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        (0..self.actors.len()).flat_map(|at| self.of(at).filter(|row| row.units > 0))
    }

    /// The name of the actor at a place in the order.
    pub(crate) fn name(&self, at: usize) -> &str {
        &self.actors[at].0
    }

    /// The place of an actor in the order.
    pub(crate) fn find(&self, actor: &str) -> Option<usize> {
        self.actors.binary_search_by(|(name, _)| (**name).cmp(actor)).ok()
    }

    /// The units of an actor and a metric; zero where there is no such row.
    pub(crate) fn units(&self, actor: &str, metric: &str) -> u128 {
        let mut rows = self.find(actor).into_iter().flat_map(|at| self.of(at));
        rows.find(|row| row.metric == metric).map_or(0, |row| row.units)
    }

    /// One row per metric of the actor at a place in the order, also where there are no units.
    pub(crate) fn of(&self, at: usize) -> impl Iterator<Item = Row<'_>> {
        let (actor, place) = &self.actors[at];
        self.columns.iter().map(move |(metric, units)| {
            let units = units.get(*place as usize).copied().unwrap_or(0);
            Row { actor, metric: metric.as_str(), units }
        })
    }
}
