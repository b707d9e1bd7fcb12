//! Subscribers by patterns, and the topics that these mean.

use std::sync::Arc;

use oap::Topic;
use topics::{Filter, TooManyPatterns};

use super::{Delivery, Sink, Subscribers};

/// A subscriber by patterns.
#[derive(Debug)]
pub(super) struct Wild {
    filter: Arc<Filter>,
    pub(super) sink: Arc<Sink>,
    /// The number of the application that subscribes.
    holder: u64,
}

impl Wild {
    /// Whether one of its patterns means a topic.
    pub(super) fn means(&self, topic: &Topic) -> bool {
        self.filter.matches_wild(topic.as_str())
    }
}

impl Subscribers {
    /// Whether other nodes can be told of the patterns of a subscription, besides those that are there.
    pub(in crate::gossip) fn check_patterns(
        &self,
        filter: &Filter,
        holder: u64,
    ) -> Result<(), TooManyPatterns> {
        self.shares.check(holder, filter)
    }

    pub(super) fn add_wild(&mut self, filter: &Arc<Filter>, holder: u64, sink: &Arc<Sink>) {
        if filter.is_wild() {
            self.shares.add(holder, filter);
            let wild = Wild { filter: Arc::clone(filter), sink: Arc::clone(sink), holder };
            self.wild.insert(sink.number, wild);
        }
    }

    pub(super) fn remove_wild(&mut self, number: u64) {
        if let Some(wild) = self.wild.remove(&number) {
            self.shares.remove(wild.holder, &wild.filter);
        }
    }

    /// The applications whose patterns mean a topic that is not taken part in.
    pub(in crate::gossip) fn wanting(&self, topic: &Topic) -> Vec<u64> {
        if self.has(topic) {
            return Vec::new();
        }
        let mut holders: Vec<u64> =
            self.wild.values().filter(|wild| wild.means(topic)).map(|wild| wild.holder).collect();
        holders.sort_unstable();
        holders.dedup();
        holders
    }

    /// Tells those who want a topic that there is no room for it.
    pub(in crate::gossip) fn refuse(&self, topic: &Topic) {
        let heard = self.unkept(Delivery::NoRoom(topic.clone()));
        let by_pattern =
            self.wild.values().filter(|wild| wild.means(topic)).map(|wild| Arc::clone(&wild.sink));
        let audience = self.topics.get(topic).map(|audience| audience.sinks.values().cloned());
        let mut all: Vec<Arc<Sink>> = by_pattern.chain(audience.into_iter().flatten()).collect();
        all.sort_unstable_by_key(|sink| sink.number);
        all.dedup_by_key(|sink| sink.number);
        for sink in all {
            // It is refused again when somebody takes part in it again.
            let _ = sink.offer(&heard, 0);
        }
    }

    /// The patterns that somebody subscribes to here.
    pub(in crate::gossip) fn patterns(&self) -> impl Iterator<Item = &str> {
        self.wild.values().flat_map(|wild| wild.filter.wild()).map(topics::Pattern::as_str)
    }
}
