//! Which topics a shard takes part in: those of the configuration, those somebody subscribes to here by name or by a pattern,
//! and for a while those that applications publish in.

use std::sync::Arc;

use gossip::Event;
use oap::Topic;
use topics::Filter;
use types::Moment;

use super::{KEPT_FOR, Shard, shard_of};
use crate::gossip::{
    By,
    subscribers::{After, Found, Joined, Sink},
};

/// Of all topics that a shard has room for, one in so many may be taken part in only because a pattern means it.
const FOR_PATTERNS: usize = 2;
/// This part of them, one in so many, is not for applications. What was published in is remembered until the node ends, so they
/// could use up all of them.
const FOR_OPERATORS: usize = 4;

impl Shard {
    /// Adds a subscriber of several topics.
    pub(super) fn join(&mut self, filter: &Arc<Filter>, sink: Sink, after: After, now: Moment) -> Joined {
        let count = self.shared.gossip.shards.len();
        let is_here = |topic: &Topic| shard_of(topic, count) == usize::from(self.index);
        let mut topics: Vec<Topic> =
            filter.exact().filter_map(|name| Topic::new(name).ok()).filter(is_here).collect();
        let mut found = Vec::new();
        if filter.is_wild() {
            let is_meant = |topic: &&Topic| filter.matches_wild(topic.as_str());
            topics.extend(self.subscribers.names().filter(is_meant).cloned());
            found.extend(self.engine.topic_names().filter(is_meant).cloned());
        }
        topics.sort_unstable();
        topics.dedup();
        let (topics, refused): (Vec<Topic>, Vec<Topic>) =
            topics.into_iter().partition(|topic| self.has_room(topic));
        refused.iter().for_each(|topic| self.subscribers.turn_away(&sink, topic));
        let new: Vec<Topic> = topics.iter().filter(|topic| !self.takes_part(topic)).cloned().collect();
        let joined = self.subscribers.join(&topics, filter, sink, after);
        for topic in new {
            self.event(Event::Subscribe { topic }, now);
        }
        // Those that only peers take part in so far.
        for topic in found {
            self.notice(&topic, now);
        }
        joined
    }

    /// A topic is heard of that this shard may not take part in: it does from now on if somebody's pattern means it.
    pub(super) fn notice(&mut self, topic: &Topic, now: Moment) {
        let most = self.shared.gossip.settings.max_topics / FOR_PATTERNS;
        match self.subscribers.find(topic, most) {
            Found::Nothing => {}
            Found::Join => self.event(Event::Subscribe { topic: topic.clone() }, now),
            Found::NoRoom => self.no_room(topic),
        }
    }

    /// Something is about to be published here; whether there is room for its topic. If applications publish it, this node
    /// takes part in the topic for a while, so that peers hear that there is such a topic.
    pub(super) fn before_publishing(&mut self, topic: &Topic, by: By, now: Moment) -> bool {
        if by == By::Application && !self.has_room(topic) {
            return false;
        }
        self.notice(topic, now);
        if by == By::Application
            && !self.configured.contains(topic)
            && self.subscribers.hold(topic, now.after(KEPT_FOR))
        {
            self.event(Event::Subscribe { topic: topic.clone() }, now);
            self.plan_leaving();
        }
        true
    }

    /// Whether applications may have this node take part in a topic: it does, or enough is left for the node's own.
    pub(super) fn has_room(&self, topic: &Topic) -> bool {
        let most = self.shared.gossip.settings.max_topics;
        self.takes_part(topic)
            || self.engine.knows_topic(topic)
            || self.engine.topic_count() < most - most / FOR_OPERATORS
    }

    /// Those who want a topic by a pattern are told that there is no room for it; once, as far as that can be remembered.
    fn no_room(&mut self, topic: &Topic) {
        if self.refused.contains(topic) {
            return;
        }
        if self.refused.len() == REFUSED_MAX {
            self.refused.clear();
        }
        self.refused.insert(topic.clone());
        tracing::warn!(%topic, "there are too many topics to take part in one more that a pattern means");
        self.subscribers.refuse(topic);
    }

    /// Forgets subscribers that have gone.
    pub(super) fn forget_departed(&mut self, now: Moment) {
        let departed = self.shared.gossip.shards[usize::from(self.index)].take_departed();
        let mut is_last = false;
        for number in departed.into_iter().chain(self.subscribers.take_gone()) {
            is_last |= self.subscribers.remove(number, now.after(KEPT_FOR));
        }
        if is_last {
            self.plan_leaving();
        }
    }

    /// The configuration's topics are these from now on.
    pub(super) fn follow(&mut self, topics: Vec<Topic>, now: Moment) {
        let before = std::mem::replace(&mut self.configured, topics);
        for topic in self.configured.clone() {
            if !before.contains(&topic) && !self.subscribers.has(&topic) {
                self.subscribers.follow(topic.clone());
                self.event(Event::Subscribe { topic }, now);
            }
        }
        for topic in before {
            if !self.configured.contains(&topic) && !self.subscribers.is_heard(&topic) {
                self.subscribers.end(&topic);
                self.event(Event::Unsubscribe { topic }, now);
            }
        }
    }

    /// Whether this node takes part in a topic already.
    pub(super) fn takes_part(&self, topic: &Topic) -> bool {
        self.subscribers.has(topic) || self.configured.contains(topic)
    }

    /// Topics that nobody wanted for long enough are left.
    pub(super) fn leave_unwanted(&mut self, now: Moment) {
        let configured = &self.configured;
        for topic in self.subscribers.take_unwanted(now, |topic| configured.contains(topic)) {
            self.event(Event::Unsubscribe { topic }, now);
        }
        self.plan_leaving();
    }

    fn plan_leaving(&mut self) {
        self.leaving = self.subscribers.next_leaving();
    }
}

/// Topics that there was no room for, and of which their subscribers are not told again.
const REFUSED_MAX: usize = 64;
