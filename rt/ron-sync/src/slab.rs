//! A slab: values under small dense indices that are reused, with O(1) insert and remove.

/// Grows to the most values ever held at once, and stays there.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    entries: Vec<Entry<T>>,
    first_vacant: Option<usize>,
    occupied: usize,
}

#[derive(Debug)]
enum Entry<T> {
    Vacant { next: Option<usize> },
    Occupied(T),
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Self { entries: Vec::new(), first_vacant: None, occupied: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.occupied
    }

    pub(crate) fn insert(&mut self, value: T) -> usize {
        self.occupied += 1;
        let vacant = self.first_vacant.and_then(|index| Some((index, self.entries.get_mut(index)?)));
        if let Some((index, entry)) = vacant
            && let Entry::Vacant { next } = *entry
        {
            self.first_vacant = next;
            *entry = Entry::Occupied(value);
            return index;
        }
        self.entries.push(Entry::Occupied(value));
        self.entries.len() - 1
    }

    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        match self.entries.get_mut(index) {
            Some(Entry::Occupied(value)) => Some(value),
            Some(Entry::Vacant { .. }) | None => None,
        }
    }

    pub(crate) fn remove(&mut self, index: usize) -> Option<T> {
        let entry = self.entries.get_mut(index)?;
        if matches!(entry, Entry::Vacant { .. }) {
            return None;
        }
        let removed = std::mem::replace(entry, Entry::Vacant { next: self.first_vacant });
        self.first_vacant = Some(index);
        self.occupied -= 1;
        match removed {
            Entry::Occupied(value) => Some(value),
            Entry::Vacant { .. } => None,
        }
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut T)> {
        self.entries.iter_mut().enumerate().filter_map(|(index, entry)| match entry {
            Entry::Occupied(value) => Some((index, value)),
            Entry::Vacant { .. } => None,
        })
    }

    /// Removes and returns the values for which `choose` says so.
    pub(crate) fn extract(&mut self, choose: impl Fn(&T) -> bool) -> Vec<T> {
        let chosen: Vec<usize> =
            self.iter_mut().filter_map(|(index, value)| choose(value).then_some(index)).collect();
        chosen.into_iter().filter_map(|index| self.remove(index)).collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Slab;

    #[test]
    fn a_freed_index_is_used_again_before_the_slab_grows() {
        let mut slab = Slab::new();
        assert_eq!([slab.insert('a'), slab.insert('b'), slab.insert('c')], [0, 1, 2]);
        assert_eq!(slab.remove(1), Some('b'));
        assert_eq!(slab.remove(0), Some('a'));
        assert_eq!([slab.insert('d'), slab.insert('e'), slab.insert('f')], [0, 1, 3]);
        assert_eq!(slab.len(), 4);
    }

    #[test]
    fn a_vacant_or_unknown_index_yields_nothing() {
        let mut slab = Slab::new();
        let index = slab.insert('a');
        assert_eq!(slab.remove(index), Some('a'));
        assert_eq!(slab.remove(index), None);
        assert_eq!(slab.get_mut(index), None);
        assert_eq!(slab.remove(7), None);
        assert_eq!(slab.len(), 0);
    }

    #[test]
    fn extract_takes_the_chosen_and_leaves_the_rest() {
        let mut slab = Slab::new();
        for value in 0..6 {
            slab.insert(value);
        }
        assert_eq!(slab.extract(|value| value % 2 == 0), [0, 2, 4]);
        assert_eq!(slab.iter_mut().map(|(_, value)| *value).collect::<Vec<_>>(), [1, 3, 5]);
    }
}
