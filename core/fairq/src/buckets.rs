//! A fixed row of lists with a two-level bitmap, to find the next one that is not empty in two steps.

use crate::list::{Links, List};

/// Number of lists in the bucket queue.
pub(crate) const BUCKETS: usize = 64 * 64;

/// 32 KiB once it has been used.
#[derive(Debug)]
pub(crate) struct Buckets {
    /// None before the first use: many lanes never see anybody.
    lists: Vec<List>,
    /// One bit per list that is not empty.
    words: [u64; 64],
    /// One bit per word that is not zero.
    summary: u64,
}

impl Buckets {
    pub(crate) fn new() -> Self {
        Self { lists: Vec::new(), words: [0; 64], summary: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.summary == 0
    }

    pub(crate) fn first_of(&self, bucket: usize) -> Option<u32> {
        self.lists.get(bucket)?.first()
    }

    pub(crate) fn push_back(&mut self, bucket: usize, id: u32, links: &mut Links) {
        if self.lists.is_empty() {
            self.lists.resize(BUCKETS, List::EMPTY);
        }
        links.push_back(&mut self.lists[bucket], id);
        self.words[bucket / 64] |= 1 << (bucket % 64);
        self.summary |= 1 << (bucket / 64);
    }

    pub(crate) fn remove(&mut self, bucket: usize, id: u32, links: &mut Links) {
        links.remove(&mut self.lists[bucket], id);
        if self.lists[bucket].is_empty() {
            self.words[bucket / 64] &= !(1 << (bucket % 64));
            if self.words[bucket / 64] == 0 {
                self.summary &= !(1 << (bucket / 64));
            }
        }
    }

    /// The first bucket in use at or after `start`, going round at the end.
    pub(crate) fn next_from(&self, start: usize) -> Option<usize> {
        let (word, bit) = (start / 64, start % 64);
        let here = self.words[word] & (u64::MAX << bit);
        if here != 0 {
            return Some(word * 64 + here.trailing_zeros() as usize);
        }
        // In two shifts: one by 64 would be none.
        let later = self.summary & (u64::MAX << word << 1);
        let word = if later == 0 { self.summary } else { later }.trailing_zeros() as usize;
        let bits = self.words.get(word)?;
        Some(word * 64 + bits.trailing_zeros() as usize)
    }

    /// The highest bucket in use.
    pub(crate) fn highest(&self) -> Option<usize> {
        let word = 63_usize.checked_sub(self.summary.leading_zeros() as usize)?;
        Some(word * 64 + 63 - self.words[word].leading_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn the_bitmap_finds_what_a_search_finds(
            steps in prop::collection::vec((0_u32..6, 0..BUCKETS, any::<bool>()), 0..60),
            starts in prop::collection::vec(0..BUCKETS, 8),
        ) {
            let (mut buckets, mut links) = (Buckets::new(), Links::default());
            let mut naive = BTreeMap::<u32, usize>::new();
            for (id, bucket, stay) in steps {
                if let Some(old) = naive.remove(&id) {
                    buckets.remove(old, id, &mut links);
                }
                if stay {
                    naive.insert(id, bucket);
                    buckets.push_back(bucket, id, &mut links);
                }
                prop_assert_eq!(buckets.is_empty(), naive.is_empty());
                prop_assert_eq!(buckets.highest(), naive.values().copied().max());
                for start in starts.iter().copied().chain([0, BUCKETS - 1, bucket]) {
                    let expected = naive.values().copied().min_by_key(|&used| (used + BUCKETS - start) % BUCKETS);
                    prop_assert_eq!(buckets.next_from(start), expected);
                }
            }
        }
    }
}
