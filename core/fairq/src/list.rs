//! Linked lists over small dense indices: O(1) at both ends and in the middle, without an allocation per element.

/// The index that stands for no element.
const NONE: u32 = u32::MAX;

/// The ends of one list. Its elements' neighbours are in a [`Links`], which many lists share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct List {
    first: u32,
    last: u32,
}

#[derive(Debug, Clone, Copy)]
struct Link {
    before: u32,
    after: u32,
}

/// The neighbours of every element, each of which is in at most one list.
#[derive(Debug, Default)]
pub(crate) struct Links(Vec<Link>);

impl List {
    pub(crate) const EMPTY: Self = Self { first: NONE, last: NONE };

    pub(crate) fn is_empty(self) -> bool {
        self.first == NONE
    }

    pub(crate) fn first(self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }
}

impl Links {
    /// `id` must be in no list.
    pub(crate) fn push_back(&mut self, list: &mut List, id: u32) {
        let at = id as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, Link { before: NONE, after: NONE });
        }
        self.0[at] = Link { before: list.last, after: NONE };
        match self.0.get_mut(list.last as usize) {
            Some(last) => last.after = id,
            None => list.first = id,
        }
        list.last = id;
    }

    /// `id` must be in this list.
    pub(crate) fn remove(&mut self, list: &mut List, id: u32) {
        let Link { before, after } = self.0[id as usize];
        match self.0.get_mut(before as usize) {
            Some(link) => link.after = after,
            None => list.first = after,
        }
        match self.0.get_mut(after as usize) {
            Some(link) => link.before = before,
            None => list.last = before,
        }
    }

    /// The next element of the list that `id` is in.
    pub(crate) fn after(&self, id: u32) -> Option<u32> {
        self.0.get(id as usize).map(|link| link.after).filter(|&id| id != NONE)
    }

    #[cfg(test)]
    pub(crate) fn ids(&self, list: List) -> Vec<u32> {
        std::iter::successors(list.first(), |&id| self.after(id)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lists_behave_like_vectors(steps in prop::collection::vec((0_u32..8, 0_usize..3), 0..100)) {
            let (mut links, mut lists) = (Links::default(), [List::EMPTY; 2]);
            let mut naive = [Vec::new(), Vec::new()];
            for (id, to) in steps {
                if let Some(from) = naive.iter().position(|list| list.contains(&id)) {
                    naive[from].retain(|&known| known != id);
                    links.remove(&mut lists[from], id);
                }
                if to < 2 {
                    naive[to].push(id);
                    links.push_back(&mut lists[to], id);
                }
                for (list, naive) in lists.iter().zip(&naive) {
                    prop_assert_eq!(&links.ids(*list), naive);
                    prop_assert_eq!(list.first(), naive.first().copied());
                    prop_assert_eq!(list.is_empty(), naive.is_empty());
                }
            }
        }
    }
}
