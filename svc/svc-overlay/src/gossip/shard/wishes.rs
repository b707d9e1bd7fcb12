//! Which topics a shard takes part in: those of the configuration, those somebody subscribes to here by name or by a pattern,
//! for a while those that applications publish in, and those that peers want by patterns.

use std::{sync::Arc, time::Duration};

use gossip::Event;
use oap::{Features, Frame, Message, Topic, WantedPattern};
use topics::Filter;
use types::Moment;

use super::{KEPT_FOR, Shard, shard_of};
use crate::gossip::{
    By,
    subscribers::{After, Found, Joined, Sink},
};

/// Of all topics that a shard has room for, one in so many may be taken part in only because a pattern means it.
const FOR_PATTERNS: usize = 2;
/// This part of them, one in so many, may be taken part in only because a pattern of a peer means it.
const FOR_PEERS_PATTERNS: usize = 4;
/// This part of them, one in so many, is not for applications, which could use up all of them.
const FOR_OPERATORS: usize = 4;

/// How long changes of patterns are gathered before they are looked at.
const LOOK_AFTER: Duration = Duration::from_secs(1);
/// How often peers are told of all patterns, in case they have forgotten.
const TELL_AGAIN: Duration = Duration::from_secs(60);

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
        if filter.is_wild() {
            self.look_soon(now);
        }
        joined
    }

    /// A topic is heard of that this shard may not take part in: it does from now on if somebody's pattern means it.
    pub(super) fn notice(&mut self, topic: &Topic, now: Moment) {
        let most = self.shared.gossip.settings.max_topics / FOR_PATTERNS;
        match self.subscribers.find(topic, most) {
            Found::Nothing => self.relay(topic, now),
            Found::Join => self.event(Event::Subscribe { topic: topic.clone() }, now),
            Found::NoRoom => self.no_room(topic),
        }
    }

    /// Takes part in a topic that a peer wants by a pattern.
    fn relay(&mut self, topic: &Topic, now: Moment) {
        let most = self.shared.gossip.settings.max_topics / FOR_PEERS_PATTERNS;
        if !self.takes_part(topic)
            && self.patterns.mean(topic.as_str())
            && self.has_room(topic)
            && self.subscribers.relay(topic, most)
        {
            self.event(Event::Subscribe { topic: topic.clone() }, now);
        }
    }

    /// A peer wants topics that these patterns mean, and no others.
    pub(super) fn hear_patterns(&mut self, peer: u32, list: Vec<WantedPattern>, now: Moment) {
        if self.patterns.hear(peer, list) {
            self.wanted_has_changed(now);
        }
    }

    /// Peers want other topics than before. All topics are compared with that, so it is done once in a while.
    pub(super) fn wanted_has_changed(&mut self, now: Moment) {
        self.has_news = true;
        self.look_soon(now);
    }

    /// Patterns are looked at soon, but not more often than once in a while.
    pub(super) fn look_soon(&mut self, now: Moment) {
        let soon = now.after(LOOK_AFTER);
        if self.shared.gossip.pattern_hops > 0 && self.look_at.is_none_or(|at| at > soon) {
            self.look_at = Some(soon);
            self.tells_again = false;
        }
    }

    /// Looks at patterns: takes part in what peers want by now, and tells peers. All shards know them; the first one tells.
    pub(super) fn look_at_patterns(&mut self, now: Moment) {
        self.look_at = None;
        if std::mem::take(&mut self.has_news) {
            self.follow_peers(now);
        }
        if self.index == 0 {
            self.tell_patterns(now);
        }
    }

    fn follow_peers(&mut self, now: Moment) {
        self.patterns.choose();
        let patterns = &self.patterns;
        self.subscribers.end_relaying(|topic| patterns.mean(topic.as_str()), now.after(KEPT_FOR));
        let wanted = self.engine.topic_names().filter(|topic| patterns.mean(topic.as_str()));
        let wanted: Vec<Topic> = wanted.cloned().collect();
        wanted.iter().for_each(|topic| self.relay(topic, now));
        self.plan_leaving();
    }

    /// Tells peers what is wanted here and by others of them: what is new, and once a minute all of it.
    fn tell_patterns(&mut self, now: Moment) {
        let (hops, again) = (self.shared.gossip.pattern_hops, self.tells_again);
        for (slot, peer) in (0..).zip(&self.peers) {
            let Some(conn) = peer.as_ref().map(|peer| &peer.conn) else { continue };
            if !conn.agreed.features.has(Features::PATTERNS) {
                continue;
            }
            let here = self.subscribers.patterns();
            if let Some(list) = self.patterns.news_for(slot, here, hops, again) {
                conn.control(&Frame::connection(Message::Patterns(list)));
            }
        }
        self.tells_again = true;
        self.look_at = self.patterns.are_told().then(|| now.after(TELL_AGAIN));
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
        let (mut is_any, mut is_last) = (false, false);
        for number in departed.into_iter().chain(self.subscribers.take_gone()) {
            is_any = true;
            is_last |= self.subscribers.remove(number, now.after(KEPT_FOR));
        }
        if is_last {
            self.plan_leaving();
        }
        if is_any {
            self.look_soon(now);
        }
    }

    /// Follows the topics of a configuration that it was told of, if there is one.
    pub(super) fn follow_told(&mut self, now: Moment) {
        if let Some(topics) = self.shared.gossip.shards[usize::from(self.index)].take_followed() {
            self.follow(topics, now);
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
        let (configured, patterns) = (&self.configured, &self.patterns);
        let is_configured = |topic: &Topic| configured.contains(topic);
        let is_relayed = |topic: &Topic| patterns.mean(topic.as_str());
        for topic in self.subscribers.take_unwanted(now, is_configured, is_relayed) {
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
