//! How many publications may wait for their verdicts: of all applications, and of one.

use std::{
    hash::{Hash, RandomState},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use quota::{Forgettable, ShardedBook};
use tokio::sync::{Semaphore, SemaphorePermit};
use types::Moment;

/// One application takes at most this part of the places, one in so many.
const SHARE: usize = 2;

/// The places of all applications, by what `K` names them.
#[derive(Debug)]
pub(super) struct Publishing<K> {
    all: Semaphore,
    share: usize,
    /// Only applications that have a place are in it, so there are no more of them than places.
    holders: ShardedBook<K, Held, RandomState>,
}

/// The number of places that one application has.
#[derive(Debug, Default)]
struct Held(AtomicUsize);

impl Forgettable for Held {
    fn is_forgettable(&self, _: Moment) -> bool {
        self.0.load(Relaxed) == 0
    }
}

/// The limit that is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoTurn {
    /// All places are taken.
    Node,
    /// The application has taken its share.
    Share,
}

/// A place; given back when dropped.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    _permit: SemaphorePermit<'a>,
    held: Option<Arc<Held>>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(held) = &self.held {
            held.0.fetch_sub(1, Relaxed);
        }
    }
}

impl<K: Hash + Eq + Clone> Publishing<K> {
    /// So many places, at least one.
    pub(super) fn new(places: usize, callers: usize) -> Self {
        let holders = ShardedBook::new(callers.max(places), RandomState::new());
        Self { all: Semaphore::new(places), share: places.div_ceil(SHARE), holders }
    }

    /// Takes a place for an application; one that speaks for many has no name and no share.
    pub(super) fn take(&self, who: Option<&K>, now: Moment) -> Result<Turn<'_>, NoTurn> {
        let permit = self.all.try_acquire().map_err(|_| NoTurn::Node)?;
        let Some(who) = who else { return Ok(Turn { _permit: permit, held: None }) };
        // Without room to count it, it is one of very many.
        let Ok(held) = self.holders.get_or_insert(who, now, Held::default) else { return Err(NoTurn::Node) };
        let has_room = |count: usize| (count < self.share).then_some(count + 1);
        held.0.fetch_update(Relaxed, Relaxed, has_room).map_err(|_| NoTurn::Share)?;
        Ok(Turn { _permit: permit, held: Some(held) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take<'a>(publishing: &'a Publishing<u8>, who: Option<u8>) -> Result<Turn<'a>, NoTurn> {
        publishing.take(who.as_ref(), Moment::ORIGIN)
    }

    #[test]
    fn one_application_takes_half_of_the_places_and_others_find_the_rest() {
        let publishing = Publishing::new(9, 100);
        let mut first: Vec<_> =
            (0..5).map(|_| take(&publishing, Some(1)).expect("within its share")).collect();
        assert_eq!(take(&publishing, Some(1)).err(), Some(NoTurn::Share));
        let others: Vec<_> = (2..6).map(|who| take(&publishing, Some(who)).expect("there is room")).collect();
        assert_eq!(take(&publishing, Some(7)).err(), Some(NoTurn::Node));
        // Places come back, also those that were refused on the way.
        first.pop();
        assert!(take(&publishing, Some(1)).is_ok());
        drop((first, others));
        let all: Vec<_> = (0..9).map(|_| take(&publishing, None).expect("all are free")).collect();
        assert_eq!(take(&publishing, None).err(), Some(NoTurn::Node));
        assert_eq!(all.len(), 9);
    }

    #[test]
    fn a_single_place_is_for_anybody() {
        let publishing = Publishing::new(1, 100);
        for who in [Some(1), Some(2), None] {
            let turn = take(&publishing, who).expect("it is free");
            assert_eq!(take(&publishing, who).err(), Some(NoTurn::Node));
            drop(turn);
        }
    }
}
