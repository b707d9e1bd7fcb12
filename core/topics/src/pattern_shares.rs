//! Which patterns of local subscribers can be announced to other nodes, shared between those who subscribe.

use std::collections::BTreeMap;

use crate::{Filter, Pattern, has_share};

/// The subscription has patterns that cannot be announced any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "other nodes can be told of {most} patterns that begin differently, of which this subscriber has {held}"
)]
pub struct TooManyPatterns {
    /// Patterns that a list holds.
    pub most: usize,
    /// Those that the same holder has already.
    pub held: usize,
}

/// Patterns of subscribers, counted by how they begin: those that begin alike can be merged into one
/// ([`cover`](crate::cover)), so that at most `most` beginnings always fit a list. `K` tells holders apart.
#[derive(Debug)]
pub struct PatternShares<K> {
    most: usize,
    /// Beginnings, each with how many patterns begin so.
    all: BTreeMap<Box<str>, usize>,
    holders: BTreeMap<K, BTreeMap<Box<str>, usize>>,
}

impl<K: Ord + Copy> PatternShares<K> {
    /// Shares of a list that holds `most` patterns.
    #[must_use]
    pub const fn new(most: usize) -> Self {
        Self { most, all: BTreeMap::new(), holders: BTreeMap::new() }
    }

    /// Whether there is room for the patterns of a subscription.
    ///
    /// # Errors
    /// [`TooManyPatterns`] if some begin like none that is there, and there is no room for that or the holder has its share.
    pub fn check(&self, holder: K, filter: &Filter) -> Result<(), TooManyPatterns> {
        let held = self.holders.get(&holder).map_or(0, BTreeMap::len);
        let mut new: Vec<&str> = beginnings(filter).filter(|begin| !self.all.contains_key(*begin)).collect();
        new.sort_unstable();
        new.dedup();
        // Also those that another pattern covers, whose subscriber may leave before.
        let fits = |taken| has_share(held + taken, self.most.saturating_sub(self.all.len() + taken));
        if (0..new.len()).all(fits) { Ok(()) } else { Err(TooManyPatterns { most: self.most, held }) }
    }

    /// Adds the patterns of a subscription, whether there is room or not.
    pub fn add(&mut self, holder: K, filter: &Filter) {
        let held = self.holders.entry(holder).or_default();
        for begin in beginnings(filter) {
            *self.all.entry(begin.into()).or_default() += 1;
            *held.entry(begin.into()).or_default() += 1;
        }
        if held.is_empty() {
            self.holders.remove(&holder);
        }
    }

    /// Removes the patterns of a subscription that was added.
    pub fn remove(&mut self, holder: K, filter: &Filter) {
        let Some(held) = self.holders.get_mut(&holder) else { return };
        for begin in beginnings(filter) {
            less(&mut self.all, begin);
            less(held, begin);
        }
        if held.is_empty() {
            self.holders.remove(&holder);
        }
    }
}

fn less(counts: &mut BTreeMap<Box<str>, usize>, begin: &str) {
    if let Some(count) = counts.get_mut(begin) {
        *count -= 1;
        if *count == 0 {
            counts.remove(begin);
        }
    }
}

/// How the patterns with wildcards begin: those with the same beginning can be merged into one.
fn beginnings(filter: &Filter) -> impl Iterator<Item = &str> {
    filter.wild().map(Pattern::as_str).map(|text| match text.split_once('.') {
        // A star alone and a star before others have no pattern in common but the one that means every topic.
        Some(("*", _)) => "*.",
        Some((first, _)) => first,
        None => text,
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn filter(texts: &[&str]) -> Filter {
        Filter::new(texts.iter().copied()).unwrap()
    }

    fn add(shares: &mut PatternShares<u8>, holder: u8, filter: &Filter) -> Result<(), TooManyPatterns> {
        shares.check(holder, filter).map(|()| shares.add(holder, filter))
    }

    #[test]
    fn one_holder_leaves_room_for_others_and_gets_it_back() {
        let mut shares = PatternShares::new(4);
        assert_eq!(add(&mut shares, 1, &filter(&["a.*", "b.*", "c.*", "d"])), Ok(()));
        assert_eq!(add(&mut shares, 1, &filter(&["e.*"])), Err(TooManyPatterns { most: 4, held: 3 }));
        assert_eq!(
            add(&mut shares, 1, &filter(&["a.>", "b.x.*", "e"])),
            Ok(()),
            "they begin alike, or are names"
        );
        assert_eq!(add(&mut shares, 2, &filter(&["e.*"])), Ok(()));
        assert_eq!(add(&mut shares, 3, &filter(&["f.*"])), Err(TooManyPatterns { most: 4, held: 0 }));
        assert_eq!(add(&mut shares, 3, &filter(&[">"])), Err(TooManyPatterns { most: 4, held: 0 }));
        shares.remove(1, &filter(&["a.*", "b.*", "c.*", "d"]));
        assert_eq!(add(&mut shares, 3, &filter(&["f.*"])), Ok(()), "one has gone");
        shares.remove(1, &filter(&["a.>", "b.x.*", "e"]));
        shares.remove(2, &filter(&["e.*"]));
        shares.remove(3, &filter(&["f.*"]));
        assert!(shares.all.is_empty() && shares.holders.is_empty());
    }
}
