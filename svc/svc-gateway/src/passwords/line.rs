//! Who waits for a check: addresses in turn, and when there is no more room, an address that has the most waiting makes room.
//!
//! So a crowd of guesses from a few addresses costs a new address one check per crowded address, and never its place.

use std::collections::VecDeque;

/// Waiting items of several keys, limited together. Keys take turns; the items of one key are first in, first out.
#[derive(Debug)]
pub(super) struct Line<K, T> {
    /// The keys with waiting items, in the order of their turns. At most as many as there are items.
    turns: VecDeque<(K, VecDeque<T>)>,
    len: usize,
    capacity: usize,
}

/// What became of an item that was put in.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entered<T> {
    /// The item waits for its turn.
    Waits,
    /// It waits in the place of this one, the last of the key with the most.
    InPlaceOf(T),
    /// Its own key has the most.
    Refused(T),
}

impl<K: PartialEq, T> Line<K, T> {
    pub(super) fn new(capacity: usize) -> Self {
        Self { turns: VecDeque::new(), len: 0, capacity }
    }

    /// The number of items that wait.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Puts an item in behind those of its key.
    pub(super) fn enter(&mut self, key: K, item: T) -> Entered<T> {
        let own = self.turns.iter().find(|(of, _)| *of == key).map_or(0, |(_, items)| items.len());
        let displaced = match self.len < self.capacity {
            true => None,
            false => match self.displace(own + 1) {
                Some(displaced) => Some(displaced),
                None => return Entered::Refused(item),
            },
        };
        self.len += 1;
        match self.turns.iter_mut().find(|(of, _)| *of == key) {
            Some((_, items)) => items.push_back(item),
            None => self.turns.push_back((key, VecDeque::from([item]))),
        }
        displaced.map_or(Entered::Waits, Entered::InPlaceOf)
    }

    /// Takes the last item of the key with the most, if it has more than `least`.
    fn displace(&mut self, least: usize) -> Option<T> {
        let (_, most) = self.turns.iter_mut().max_by_key(|(_, items)| items.len())?;
        let displaced = if most.len() > least { most.pop_back() } else { None };
        self.len -= usize::from(displaced.is_some());
        displaced
    }

    /// Takes the next item; its key has its next turn after all others.
    pub(super) fn next(&mut self) -> Option<T> {
        let (key, mut items) = self.turns.pop_front()?;
        let item = items.pop_front();
        self.len -= usize::from(item.is_some());
        if !items.is_empty() {
            self.turns.push_back((key, items));
        }
        item
    }

    /// Drops the items that are no longer wanted.
    pub(super) fn retain(&mut self, is_wanted: impl Fn(&T) -> bool) {
        for (_, items) in &mut self.turns {
            items.retain(&is_wanted);
        }
        self.turns.retain(|(_, items)| !items.is_empty());
        self.len = self.turns.iter().map(|(_, items)| items.len()).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(capacity: usize, keys: &str) -> Line<char, usize> {
        let mut line = Line::new(capacity);
        for (number, key) in keys.chars().enumerate() {
            assert_eq!(line.enter(key, number), Entered::Waits);
        }
        line
    }

    fn rest(mut line: Line<char, usize>) -> Vec<usize> {
        std::iter::from_fn(|| line.next()).collect()
    }

    #[test]
    fn keys_take_turns_and_each_is_first_in_first_out() {
        assert_eq!(rest(line(9, "aaabbc")), [0, 3, 5, 1, 4, 2]);
    }

    #[test]
    fn when_it_is_full_the_last_of_the_key_with_the_most_makes_room() {
        let mut line = line(4, "aaab");
        assert_eq!(line.enter('c', 10), Entered::InPlaceOf(2));
        assert_eq!(line.enter('a', 11), Entered::Refused(11), "its own key has the most");
        assert_eq!(line.enter('b', 12), Entered::Refused(12), "it would have as many as the other");
        assert_eq!(line.len(), 4);
        assert_eq!(rest(line), [0, 3, 10, 1]);
    }

    #[test]
    fn what_is_no_longer_wanted_makes_room() {
        let mut line = line(3, "aab");
        line.retain(|number| *number == 1);
        assert_eq!(line.len(), 1);
        assert_eq!(line.enter('b', 7), Entered::Waits);
        assert_eq!(rest(line), [1, 7]);
        assert!(rest(Line::new(1)).is_empty());
    }
}
