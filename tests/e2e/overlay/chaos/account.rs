//! What the subscriber of one node was told: every number of a publisher's life once, as a publication or as missing.

use std::collections::BTreeMap;

use serde_json::Value;

/// A publisher in one of its lives.
pub(super) type Life = (String, u64);

/// Numbers, as runs that do not touch: the first of each run, and its last.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Adds the numbers from `from` to `to`; whether none of them was there.
    pub(super) fn add(&mut self, mut from: u64, mut to: u64) -> bool {
        let mut is_new = true;
        // All runs that overlap or touch, from the last one on.
        while let Some((&first, &last)) = self.0.range(..=to.saturating_add(1)).next_back() {
            if last.saturating_add(1) < from {
                break;
            }
            is_new &= first > to || last < from;
            (from, to) = (from.min(first), to.max(last));
            self.0.remove(&first);
        }
        self.0.insert(from, to);
        is_new
    }

    /// How many of the numbers from one to `upto` are not there.
    pub(super) fn missing(&self, upto: u64) -> u64 {
        let there: u64 = self.0.range(..=upto).map(|(from, to)| to.min(&upto) - from + 1).sum();
        upto - there
    }

    pub(super) fn highest(&self) -> u64 {
        self.0.last_key_value().map_or(0, |(_, to)| *to)
    }

    pub(super) fn len(&self) -> u64 {
        self.0.iter().map(|(from, to)| to - from + 1).sum()
    }

    /// The first runs of numbers up to `upto` that are not there.
    pub(super) fn holes(&self, upto: u64) -> Vec<(u64, u64)> {
        let mut next = 1;
        let mut holes = Vec::new();
        for (from, to) in self.0.range(..=upto) {
            if *from > next {
                holes.push((next, from - 1));
            }
            next = to + 1;
        }
        holes.extend((next <= upto).then_some((next, upto)));
        holes.truncate(8);
        holes
    }
}

/// What one subscriber heard since its node was started.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// What was delivered.
    pub(super) heard: BTreeMap<Life, Ranges>,
    /// That, and what was named as missing.
    pub(super) told: BTreeMap<Life, Ranges>,
    /// Bodies that were delivered, by the number of the node that published them.
    bodies: BTreeMap<usize, Ranges>,
    /// Events that came before this subscriber did, or that it was too slow for.
    pub(super) unread: u64,
    /// What must not happen, as it happened.
    pub(super) wrong: Vec<String>,
}

impl Account {
    /// Takes note of an event. `attempted` says how many bodies a node was given to publish so far.
    pub(super) fn enter(&mut self, name: &str, event: &Value, attempted: impl Fn(usize) -> u64) {
        let number = |field: &str| event[field].as_u64().unwrap_or(0);
        let life = || (event["publisher"].as_str().unwrap_or_default().to_owned(), number("incarnation"));
        match name {
            "publication" => {
                let seq = number("seq");
                let is_new = self.heard.entry(life()).or_default().add(seq, seq);
                self.told.entry(life()).or_default().add(seq, seq);
                let body = event["text"].as_str().and_then(|text| text.split_once('/'));
                let body = body.and_then(|(node, count)| Some((node.parse().ok()?, count.parse().ok()?)));
                let Some((node, count)) = body.filter(|(node, count)| (1..=attempted(*node)).contains(count))
                else {
                    return self.wrong.push(format!("invented: {event}"));
                };
                if !is_new || !self.bodies.entry(node).or_default().add(count, count) {
                    self.wrong.push(format!("twice: {event}"));
                }
            }
            "gap" => {
                self.told.entry(life()).or_default().add(number("from"), number("to"));
            }
            "lagging" => self.unread += number("missed"),
            _ => {}
        }
    }

    /// The highest number of a life that is known here.
    pub(super) fn highest(&self, life: &Life) -> u64 {
        self.told.get(life).map_or(0, Ranges::highest)
    }

    /// How many numbers, up to those given, were neither heard nor named.
    pub(super) fn open(&self, upto: &BTreeMap<Life, u64>) -> u64 {
        let missing = |(life, upto): (&Life, &u64)| match self.told.get(life) {
            Some(told) => told.missing(*upto),
            None => *upto,
        };
        upto.iter().map(missing).sum()
    }

    /// Delivered, and named as missing without being delivered.
    pub(super) fn sums(&self) -> (u64, u64) {
        let sum = |all: &BTreeMap<Life, Ranges>| all.values().map(Ranges::len).sum::<u64>();
        let heard = sum(&self.heard);
        (heard, sum(&self.told) - heard)
    }
}

#[test]
fn runs_of_numbers_join_and_what_was_there_is_noticed() {
    let mut ranges = Ranges::default();
    assert!(ranges.add(1, 3) && ranges.add(7, 9) && ranges.add(4, 4));
    assert!(!ranges.add(3, 5), "three and four were there");
    assert_eq!((ranges.missing(10), ranges.highest(), ranges.len()), (2, 9, 8));
    assert_eq!(ranges.holes(10), [(6, 6), (10, 10)]);
    assert!(ranges.add(6, 6));
    assert_eq!((ranges.missing(9), ranges.0.len()), (0, 1));
}
