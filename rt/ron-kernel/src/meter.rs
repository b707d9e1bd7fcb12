//! Usage meters: who used or provided how much, counted in a few nanoseconds on the hot path.
//!
//! A [`Meter`] is one actor's count of one thing. It only ever grows; whoever keeps accounts reads the cumulative
//! values from the [`MeterBook`] and takes differences, so a reader that dies loses nothing.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use types::ActorId;

use crate::{inflight::shard_of_this_thread, lock::lock};

const SHARDS: usize = 8;

#[repr(align(128))]
#[derive(Debug, Default)]
struct Cell(AtomicU64);

/// One actor's running total of one metric. Cheap to clone, to keep, and to add to.
#[derive(Clone, Debug, Default)]
pub struct Meter(Arc<[Cell; SHARDS]>);

impl Meter {
    /// Adds `units` to the meter.
    pub fn add(&self, units: u64) {
        self.0[shard_of_this_thread() % SHARDS].0.fetch_add(units, Ordering::Relaxed);
    }

    /// Everything booked since the node started.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().map(|cell| cell.0.load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
    }
}

/// All meters of a node, bounded: actors beyond the limit share the meter of `other`. What is used and what is provided
/// count apart, so that a flood of names of those who use something never hides who provides it.
#[derive(Clone, Debug)]
pub struct MeterBook {
    meters: Arc<Mutex<Named>>,
    max_meters: usize,
}

#[derive(Debug, Default)]
struct Named {
    meters: BTreeMap<(ActorId, &'static str), Meter>,
    /// Meters of what actors with a name use.
    used: usize,
    /// Meters of what they provide.
    provided: usize,
}

impl MeterBook {
    /// A book of at most `max_meters` meters of what is used and as many of what is provided (each about 1 KiB), not
    /// counting those of `other`.
    #[must_use]
    pub fn new(max_meters: usize) -> Self {
        Self { meters: Arc::default(), max_meters }
    }

    /// The meter of `actor` for `metric`. Keep it: looking it up takes a lock.
    #[must_use]
    pub fn meter(&self, actor: &ActorId, metric: &'static str) -> Meter {
        let mut book = lock(&self.meters);
        if let Some(meter) = book.meters.get(&(actor.clone(), metric)) {
            return meter.clone();
        }
        let named = if metric.starts_with(ActorId::PROVIDED) { &mut book.provided } else { &mut book.used };
        let actor = if *named < self.max_meters {
            *named += 1;
            actor.clone()
        } else {
            ActorId::other()
        };
        book.meters.entry((actor, metric)).or_default().clone()
    }

    /// Every meter's running total, in the order of actors and metrics.
    #[must_use]
    pub fn totals(&self) -> Vec<(ActorId, &'static str, u64)> {
        let book = lock(&self.meters);
        book.meters.iter().map(|((actor, metric), meter)| (actor.clone(), *metric, meter.total())).collect()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn adding_from_many_threads_loses_nothing() {
        let book = MeterBook::new(10);
        let acme = ActorId::new("acme").unwrap();
        std::thread::scope(|s| {
            for _ in 0..4 {
                let meter = book.meter(&acme, "used.requests");
                s.spawn(move || (0..1000).for_each(|_| meter.add(2)));
            }
        });
        assert_eq!(book.totals(), [(acme, "used.requests", 8000)]);
    }

    #[test]
    fn a_flood_of_names_does_not_hide_who_provides() {
        let book = MeterBook::new(2);
        for name in ["a", "b", "c"] {
            let _ = book.meter(&ActorId::new(name).unwrap(), "used.bytes");
        }
        book.meter(&ActorId::new("node").unwrap(), "provided.bytes").add(7);
        assert!(book.totals().contains(&(ActorId::new("node").unwrap(), "provided.bytes", 7)));
    }

    #[test]
    fn actors_beyond_the_limit_share_one_meter() {
        let book = MeterBook::new(2);
        for name in ["a", "b", "c", "d"] {
            book.meter(&ActorId::new(name).unwrap(), "used.bytes").add(1);
        }
        let totals: Vec<_> = book.totals().into_iter().map(|(actor, _, n)| (actor.to_string(), n)).collect();
        assert_eq!(totals, [("a".into(), 1), ("b".into(), 1), ("other".to_owned(), 2)]);
    }
}
