//! Places for requests that read or write what is stored.

use std::sync::atomic::{AtomicUsize, Ordering};

/// How many places are taken, over all cores. How many there are is a setting, which may change meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Places(AtomicUsize);

/// A place, given back when dropped.
#[derive(Debug)]
pub(crate) struct Place<'a>(&'a Places);

impl Places {
    /// A place, if fewer than `most` are taken.
    pub(crate) fn take(&self, most: usize) -> Option<Place<'_>> {
        let one_more = |taken: usize| (taken < most).then_some(taken + 1);
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        taken.is_ok().then(|| Place(self))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_place_is_given_and_the_next_is_not_and_another_limit_counts_at_once() {
        let places = Places::default();
        let held = [places.take(2), places.take(2)];
        assert!(held.iter().all(Option::is_some));
        assert!(places.take(2).is_none());
        let more = places.take(3);
        assert!(more.is_some(), "a higher limit");
        drop(held);
        assert!(places.take(1).is_none(), "a lower limit counts those that are taken");
        drop(more);
        assert!(places.take(1).is_some());
    }
}
