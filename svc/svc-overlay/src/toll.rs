//! What a drain cost: how many publications were given up while the node drained, by topic, said in the log at its end.
//!
//! The loss report ends with the process, so whoever stops a node would not see what the last second added to it.

use std::{
    collections::BTreeMap,
    fmt, mem,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::AcqRel, Ordering::Relaxed},
    },
};

use oap::Topic;
use ron_kernel::{Shutdown, lock::Ranked};

use crate::locks;

/// Topics that are told apart; peers can name as many as they like.
const TOPICS: usize = 32;

/// The toll of a node's drain.
#[derive(Debug)]
pub(crate) struct Toll {
    shutdown: Shutdown,
    /// Those who may still give something up.
    parties: AtomicUsize,
    /// Nothing else is locked under it.
    sum: Ranked<Sum>,
}

/// Somebody who may give publications up. The last of them to go tells what the drain cost, in good order or not.
#[derive(Debug)]
pub(crate) struct Party(Arc<Toll>);

#[derive(Debug, Default)]
struct Sum {
    total: u64,
    topics: BTreeMap<Topic, u64>,
}

impl Toll {
    pub(crate) fn new(shutdown: Shutdown) -> Arc<Self> {
        Arc::new(Self {
            shutdown,
            parties: AtomicUsize::new(0),
            sum: Ranked::new(&locks::DRAIN_SUM, Sum::default()),
        })
    }

    /// Counts publications of a topic that were given up, if the node drains.
    pub(crate) fn add(&self, topic: &Topic, count: u64) {
        if self.shutdown.is_draining() {
            self.sum.lock().add(topic, count);
        }
    }

    /// The end of the drain is not before this one's.
    pub(crate) fn party(self: &Arc<Self>) -> Party {
        self.parties.fetch_add(1, Relaxed);
        Party(Arc::clone(self))
    }

    fn tell(&self) {
        let sum = mem::take(&mut *self.sum.lock());
        if sum.total > 0 {
            let (lost, topics) = (sum.total, sum.to_string());
            tracing::warn!(lost, topics, "publications were given up while the node drained");
        }
    }
}

impl Drop for Party {
    fn drop(&mut self) {
        if self.0.parties.fetch_sub(1, AcqRel) == 1 {
            self.0.tell();
        }
    }
}

impl Sum {
    fn add(&mut self, topic: &Topic, count: u64) {
        self.total = self.total.saturating_add(count);
        if self.topics.len() < TOPICS || self.topics.contains_key(topic) {
            let sum = self.topics.entry(topic.clone()).or_default();
            *sum = sum.saturating_add(count);
        }
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (topic, count)) in self.topics.iter().enumerate() {
            write!(f, "{}{topic} {count}", if at == 0 { "" } else { ", " })?;
        }
        match self.total.saturating_sub(self.topics.values().sum()) {
            0 => Ok(()),
            others => write!(f, ", others {others}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_tells_topics_apart_up_to_the_most_and_the_others_together() {
        let topic = |number: usize| Topic::new(&format!("news/{number:02}")).expect("a good name");
        let mut sum = Sum::default();
        sum.add(&topic(0), 2);
        sum.add(&topic(1), 5);
        sum.add(&topic(0), 1);
        assert_eq!(sum.to_string(), "news/00 3, news/01 5");
        (2..TOPICS).for_each(|number| sum.add(&topic(number), 1));
        assert!(!sum.to_string().contains("others"), "{sum}");
        sum.add(&topic(TOPICS), 7);
        sum.add(&topic(TOPICS + 1), 2);
        sum.add(&topic(1), 1);
        assert!(sum.to_string().starts_with("news/00 3, news/01 6, "), "{sum}");
        assert!(sum.to_string().ends_with(", news/31 1, others 9"), "{sum}");
    }
}
