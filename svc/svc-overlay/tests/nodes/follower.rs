//! A peer that follows a topic as every peer does: it reads, answers, and asks for what it is only told of.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    time::Instant,
};

use oap::{Entry, IHave, IWant, LIST_MAX, Message, Publication, Topic};
use types::NodeId;

use crate::support::{Hand, SOON, any_node};

/// Which publisher, in which of its lives.
type Life = (NodeId, u64);

/// A peer that takes part in one topic from the beginning.
pub(crate) struct Follower {
    hand: Hand,
    topic: Topic,
    got: BTreeMap<Life, BTreeSet<u64>>,
    /// Heads that were announced since a publication last came. What they tell of is asked for when they are announced
    /// again: nothing of it is on its way.
    told: BTreeMap<Life, u64>,
}

impl Follower {
    /// Joins as the node of that number.
    pub(crate) fn join(addr: SocketAddr, number: u64, topic: &str) -> Self {
        Self::over(Hand::join(addr, any_node(number)), topic)
    }

    /// A peer that has introduced itself takes part from now on.
    pub(crate) fn over(mut hand: Hand, topic: &str) -> Self {
        let topic = Topic::new(topic).unwrap();
        hand.say(Message::Subscribe(topic.clone()));
        Self { hand, topic, got: BTreeMap::new(), told: BTreeMap::new() }
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
        match self.hand.hear() {
            Some(Message::Publish(publication)) => {
                self.told.clear();
                let life = (publication.id.publisher, publication.id.incarnation);
                let is_new = self.got.entry(life).or_default().insert(publication.id.seq);
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

    /// The numbers of a publisher's first life that have come.
    pub(crate) fn got(&self, publisher: NodeId) -> BTreeSet<u64> {
        self.got.get(&(publisher, 1)).cloned().unwrap_or_default()
    }

    fn announced(&mut self, have: &IHave) {
        let mut entries = Vec::new();
        for head in &have.heads {
            let life = (head.publisher, head.incarnation);
            let before = self.told.insert(life, head.seq).unwrap_or(0);
            let got = self.got.entry(life).or_default();
            let missing = (1..=before).filter(|seq| !got.contains(seq));
            entries.extend(missing.map(|seq| Entry { seq, ..*head }));
        }
        for entries in entries.chunks(LIST_MAX) {
            let want = IWant { topic: self.topic.clone(), entries: entries.to_vec() };
            self.hand.say(Message::IWant(want));
        }
    }
}
