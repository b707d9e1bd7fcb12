//! A peer that follows topics as every peer does: it reads, answers, and asks for what it is only told of.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    time::{Duration, Instant},
};

use oap::{Entry, IHave, IWant, LIST_MAX, Message, Publication, Topic};
use types::NodeId;

use crate::support::{Hand, SOON, any_node};

/// Which publisher, in which of its lives, in which topic.
type Life = (Topic, NodeId, u64);

/// A peer that takes part in topics from the beginning.
pub(crate) struct Follower {
    hand: Hand,
    got: BTreeMap<Life, BTreeSet<u64>>,
    /// Heads that were announced since a publication last came. What they tell of is asked for when they are announced
    /// again: nothing of it is on its way.
    told: BTreeMap<Life, u64>,
    /// The highest heads that were ever announced. What is missing of them is asked for when the node has fallen silent:
    /// it announces what changes, and nothing does.
    heads: BTreeMap<Life, u64>,
}

/// After so long without a word, nothing that is missing is on its way.
const SILENCE: Duration = Duration::from_secs(2);

impl Follower {
    /// Joins as the node of that number.
    pub(crate) fn join(addr: SocketAddr, number: u64, topic: &str) -> Self {
        Self::over(Hand::join(addr, any_node(number)), topic)
    }

    /// A peer that has introduced itself takes part from now on.
    pub(crate) fn over(mut hand: Hand, topic: &str) -> Self {
        hand.say(Message::Subscribe(Topic::new(topic).unwrap()));
        Self { hand, got: BTreeMap::new(), told: BTreeMap::new(), heads: BTreeMap::new() }
    }

    /// The next publication that is new.
    pub(crate) fn hear(&mut self) -> Publication {
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < SOON, "nothing new is heard; {} were", self.count());
            if let Some(publication) = self.step() {
                return publication;
            }
        }
    }

    /// Takes one message; a publication that is new comes back.
    pub(crate) fn step(&mut self) -> Option<Publication> {
        if !self.hand.hears_within(SILENCE) {
            self.ask_up_to(&self.heads.clone());
            return None;
        }
        match self.hand.hear() {
            Some(Message::Publish(publication)) => {
                self.told.clear();
                let id = &publication.id;
                let life = (id.topic.clone(), id.publisher, id.incarnation);
                let is_new = self.got.entry(life).or_default().insert(id.seq);
                is_new.then_some(publication)
            }
            Some(Message::IHave(have)) => {
                self.announced(&have);
                None
            }
            Some(Message::Ping(number)) => {
                self.hand.say(Message::Pong(number));
                None
            }
            Some(_) => None,
            None => panic!("the node closed the connection"),
        }
    }

    /// How many different ones have come.
    pub(crate) fn count(&self) -> u64 {
        self.got.values().map(|got| got.len() as u64).sum()
    }

    /// The numbers of a publisher's first life that have come, in all topics.
    pub(crate) fn got(&self, publisher: NodeId) -> BTreeSet<u64> {
        let of_publisher = |((_, of, life), _): &(&Life, _)| (*of, *life) == (publisher, 1);
        self.got.iter().filter(of_publisher).flat_map(|(_, got)| got).copied().collect()
    }

    fn announced(&mut self, have: &IHave) {
        let mut again = BTreeMap::new();
        for head in have.heads.iter().map(|head| &head.entry).chain(&have.entries) {
            let life = (have.topic.clone(), head.publisher, head.incarnation);
            again.insert(life.clone(), self.told.insert(life.clone(), head.seq).unwrap_or(0));
            let highest = self.heads.entry(life).or_default();
            *highest = head.seq.max(*highest);
        }
        self.ask_up_to(&again);
    }

    /// Asks for what has not come, of these publishers up to these numbers.
    fn ask_up_to(&mut self, heads: &BTreeMap<Life, u64>) {
        for (life, head) in heads {
            let (topic, publisher, incarnation) = life;
            let got = self.got.entry(life.clone()).or_default();
            let missing: Vec<_> = (1..=*head)
                .filter(|seq| !got.contains(seq))
                .map(|seq| Entry { publisher: *publisher, incarnation: *incarnation, seq })
                .collect();
            for entries in missing.chunks(LIST_MAX) {
                let want = IWant { topic: topic.clone(), entries: entries.to_vec() };
                self.hand.say(Message::IWant(want));
            }
        }
    }
}
