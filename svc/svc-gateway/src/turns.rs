//! A bounded queue in which clients take turns: when there is no more room, a client that has the most waiting makes room.
//!
//! So a crowd from a few clients costs a new one a turn of each of them, and never its place.

use std::collections::VecDeque;

/// Waiting items of several keys, limited together. Keys take turns; the items of one key are first in, first out.
#[derive(Debug)]
pub(crate) struct Turns<K, T> {
    /// The keys with waiting items, in the order of their turns. At most as many as there are items.
    turns: VecDeque<(K, VecDeque<T>)>,
    len: usize,
    capacity: usize,
}

/// What became of an item that was put in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Entered<T> {
    /// The item waits for its turn.
    Waits,
    /// It waits in the place of this one, the last of the key with the most.
    InPlaceOf(T),
    /// Its own key has the most.
    Refused(T),
}

impl<K: PartialEq, T> Turns<K, T> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { turns: VecDeque::new(), len: 0, capacity }
    }

    /// The number of items that wait.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Has so many items wait at most from now on. Those beyond a lower number stay.
    pub(crate) fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
    }

    /// Puts an item in behind those of its key.
    pub(crate) fn enter(&mut self, key: K, item: T) -> Entered<T> {
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
    pub(crate) fn next(&mut self) -> Option<T> {
        let (key, mut items) = self.turns.pop_front()?;
        let item = items.pop_front();
        self.len -= usize::from(item.is_some());
        if !items.is_empty() {
            self.turns.push_back((key, items));
        }
        item
    }

    /// Drops the items that have gone, if there is no more room.
    pub(crate) fn forget_if_full(&mut self, has_gone: impl Fn(&T) -> bool) {
        if self.len >= self.capacity {
            self.retain(|item| !has_gone(item));
        }
    }

    /// Drops the items that are no longer wanted.
    pub(crate) fn retain(&mut self, is_wanted: impl Fn(&T) -> bool) {
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

    fn turns_of(capacity: usize, keys: &str) -> Turns<char, usize> {
        let mut turns = Turns::new(capacity);
        for (number, key) in keys.chars().enumerate() {
            assert_eq!(turns.enter(key, number), Entered::Waits);
        }
        turns
    }

    fn rest(mut turns: Turns<char, usize>) -> Vec<usize> {
        std::iter::from_fn(|| turns.next()).collect()
    }

    #[test]
    fn keys_take_turns_and_each_is_first_in_first_out() {
        assert_eq!(rest(turns_of(9, "aaabbc")), [0, 3, 5, 1, 4, 2]);
    }

    #[test]
    fn when_it_is_full_the_last_of_the_key_with_the_most_makes_room() {
        let mut turns = turns_of(4, "aaab");
        assert_eq!(turns.enter('c', 10), Entered::InPlaceOf(2));
        assert_eq!(turns.enter('a', 11), Entered::Refused(11), "its own key has the most");
        assert_eq!(turns.enter('b', 12), Entered::Refused(12), "it would have as many as the other");
        assert_eq!(turns.len(), 4);
        assert_eq!(rest(turns), [0, 3, 10, 1]);
    }

    #[test]
    fn what_is_no_longer_wanted_makes_room() {
        let mut turns = turns_of(3, "aab");
        turns.retain(|number| *number == 1);
        assert_eq!(turns.len(), 1);
        assert_eq!(turns.enter('b', 7), Entered::Waits);
        assert_eq!(rest(turns), [1, 7]);
        assert!(rest(Turns::new(1)).is_empty());
    }
}
