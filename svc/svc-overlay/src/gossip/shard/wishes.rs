//! Which topics a shard takes part in: those of the configuration, those somebody subscribes to here by name or by a pattern,
//! for a while those that applications publish in, and those that peers want by patterns.

use std::{sync::Arc, time::Duration};

use gossip::{Claim, Event, PeerKey, Relay};
use oap::{Features, Frame, Message, PATTERNS_MAX, Topic, WantedPattern};
use topics::Filter;
use types::Moment;

use super::{KEPT_FOR, Shard, shard_of};
use crate::{
    error::OverlayError,
    gossip::{
        By,
        subscribers::{After, Joined, Sink},
    },
    metrics::TopicLimit,
};

/// Of all topics that a shard has room for, one in so many may be taken part in only because a pattern of a peer means it.
const FOR_PEERS_PATTERNS: usize = 4;

/// How long changes of patterns are gathered before they are looked at.
const LOOK_AFTER: Duration = Duration::from_secs(1);
/// How often peers are told of all patterns, in case they have forgotten.
const TELL_AGAIN: Duration = Duration::from_secs(60);

/// Topics that a shard takes part in only for patterns of peers, at most.
pub(super) const fn relayed_max(settings: &gossip::Settings) -> usize {
    settings.max_topics / FOR_PEERS_PATTERNS
}

impl Shard {
    /// Adds a subscriber of several topics.
    pub(super) fn join(
        &mut self,
        filter: &Arc<Filter>,
        holder: u64,
        sink: Sink,
        after: After,
        now: Moment,
    ) -> Result<Joined, OverlayError> {
        self.check_patterns(filter, holder)?;
        let claim = Claim::Application(holder);
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
        // One by one, because each takes of the share.
        topics.retain(|topic| {
            if !self.has_room(topic, claim) {
                self.shared.metrics.topic_refused(TopicLimit::Application);
                self.subscribers.turn_away(&sink, topic);
                return false;
            }
            if !self.takes_part(topic) {
                self.event(Event::Subscribe { topic: topic.clone(), claim }, now);
            }
            true
        });
        let joined = self.subscribers.join(&topics, filter, holder, sink, after);
        // Those that only peers take part in so far.
        for topic in found {
            self.notice(&topic, None, now);
        }
        if filter.is_wild() {
            self.look_soon(now);
        }
        Ok(joined)
    }

    /// Refuses patterns that peers could not be told of. The first shard tells them, so it alone decides.
    fn check_patterns(&self, filter: &Filter, holder: u64) -> Result<(), OverlayError> {
        if self.index == 0 && self.shared.gossip.pattern_hops > 0 {
            self.subscribers.check_patterns(filter, holder).inspect_err(|_| {
                self.shared.metrics.topic_refused(TopicLimit::Patterns);
            })?;
        }
        Ok(())
    }

    /// A topic is heard of that this shard may not take part in: it does from now on if somebody's pattern means it. `source` is
    /// the peer that takes part in it.
    pub(super) fn notice(&mut self, topic: &Topic, source: Option<PeerKey>, now: Moment) {
        let wanting = self.subscribers.wanting(topic);
        if wanting.is_empty() {
            return self.relay(topic, source, now);
        }
        match self.engine.application_with_room(topic, wanting) {
            Some(holder) => {
                self.subscribers.follow(topic.clone());
                self.event(Event::Subscribe { topic: topic.clone(), claim: Claim::Application(holder) }, now);
            }
            None => self.no_room(topic),
        }
    }

    /// Takes part in a topic that a peer wants by a pattern.
    fn relay(&mut self, topic: &Topic, source: Option<PeerKey>, now: Moment) {
        if self.takes_part(topic) {
            return;
        }
        let wanters = self.patterns.wanters(topic.as_str());
        if wanters.is_empty() {
            return;
        }
        if !self.has_room(topic, Claim::Peers) {
            return self.shared.metrics.topic_refused(TopicLimit::Relayed);
        }
        match self.subscribers.relay(topic, &wanters, source) {
            Relay::Unwanted => return,
            Relay::Refused => return self.shared.metrics.topic_refused(TopicLimit::Relayed),
            Relay::Added => {}
            Relay::Instead(other) => {
                self.shared.metrics.topic_refused(TopicLimit::Relayed);
                if self.subscribers.stop_relaying(&other) {
                    self.event(Event::Unsubscribe { topic: other }, now);
                }
            }
        }
        self.event(Event::Subscribe { topic: topic.clone(), claim: Claim::Peers }, now);
    }

    /// A peer wants topics that these patterns mean, and no others.
    pub(super) fn hear_patterns(&mut self, peer: PeerKey, list: Vec<WantedPattern>, now: Moment) {
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
        }
    }

    /// Looks at patterns: takes part in what peers want by now, and tells peers. All shards know them; the first one tells.
    pub(super) fn look_at_patterns(&mut self, now: Moment) {
        self.look_at = None;
        if std::mem::take(&mut self.has_news) {
            self.follow_peers(now);
        }
        if self.index == 0 {
            self.tell_patterns_if_due(now);
        }
    }

    /// Tells peers of patterns, unless they were told a moment ago; then a little later.
    fn tell_patterns_if_due(&mut self, now: Moment) {
        if !self.announcing.is_due(now) {
            self.look_at = Some(self.announcing.next(now));
            return;
        }
        let again = self.told_at.is_none_or(|at| now.since(at) >= TELL_AGAIN);
        if self.tell_patterns(again) {
            self.announcing.announced(now);
        }
        self.told_at = if again { Some(now) } else { self.told_at };
        self.look_at = self.patterns.are_told().then(|| now.after(TELL_AGAIN));
    }

    fn follow_peers(&mut self, now: Moment) {
        self.patterns.choose();
        let patterns = &self.patterns;
        self.subscribers.end_relaying(|topic| patterns.wanters(topic.as_str()), now.after(KEPT_FOR));
        let wanted = self.engine.topic_names().filter(|topic| patterns.mean(topic.as_str()));
        let wanted: Vec<Topic> = wanted.cloned().collect();
        for topic in wanted {
            let source = self.source_of(&topic);
            self.relay(&topic, source, now);
        }
        self.plan_leaving();
    }

    /// A peer that takes part in a topic, if possible one that does not want it by a pattern too.
    fn source_of(&self, topic: &Topic) -> Option<PeerKey> {
        let wanters = self.patterns.wanters(topic.as_str());
        let mut peers = self.engine.peers_in(topic);
        peers.find(|peer| !wanters.contains(peer)).or_else(|| self.engine.peers_in(topic).next())
    }

    /// Tells peers what is wanted here and by others of them: what is new, or all of it `again`. Whether anything was new.
    fn tell_patterns(&mut self, again: bool) -> bool {
        let here = topics::cover(self.subscribers.patterns(), PATTERNS_MAX);
        let hops = self.shared.gossip.pattern_hops;
        let announcement = self.patterns.announcement(here.iter().map(String::as_str), hops);
        let mut is_any = false;
        for (slot, peer) in (0..).zip(&self.peers) {
            let Some(conn) = peer.as_ref().map(|peer| &peer.conn) else { continue };
            if !conn.agreed.features.has(Features::PATTERNS) {
                continue;
            }
            if let Some(list) = self.patterns.news_for(PeerKey(slot), &announcement, again) {
                conn.control(&Frame::connection(Message::Patterns(list)));
                is_any = true;
            }
        }
        is_any
    }

    /// Something is about to be published here; whether there is room for its topic. If applications publish it, this node
    /// takes part in the topic for a while, so that peers hear that there is such a topic.
    pub(super) fn before_publishing(&mut self, topic: &Topic, by: By, now: Moment) -> bool {
        if by == By::Node {
            self.notice(topic, None, now);
            return true;
        }
        if !self.has_room(topic, by.claim()) {
            self.shared.metrics.topic_refused(TopicLimit::Application);
            return false;
        }
        // It counts for the application that publishes, whoever hears of it by a pattern.
        if !self.configured.contains(topic) && self.subscribers.hold(topic, now.after(KEPT_FOR)) {
            self.event(Event::Subscribe { topic: topic.clone(), claim: by.claim() }, now);
            self.plan_leaving();
        }
        true
    }

    /// Whether this node may take part in a topic on behalf of applications or peers: it does, or their share has room.
    pub(super) fn has_room(&self, topic: &Topic, claim: Claim) -> bool {
        self.takes_part(topic) || self.engine.has_room_for(topic, claim)
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
        self.shared.metrics.topic_refused(TopicLimit::Application);
        tracing::warn!(%topic, "there is no room to participate in one more topic that a pattern matches");
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

    /// The configuration's topics are these from now on. Those that are gone make room first, also for those that found none before.
    pub(super) fn follow(&mut self, topics: Vec<Topic>, now: Moment) {
        let before = std::mem::replace(&mut self.configured, topics);
        for topic in &before {
            if !self.configured.contains(topic) && !self.subscribers.is_heard(topic) {
                self.subscribers.end(topic);
                self.event(Event::Unsubscribe { topic: topic.clone() }, now);
            }
        }
        for topic in self.configured.clone() {
            if !before.contains(&topic) || !self.takes_part(&topic) {
                self.subscribers.configure(topic.clone());
                self.event(Event::Subscribe { topic, claim: Claim::Own }, now);
            }
        }
    }

    /// Whether this node takes part in a topic already. In one of the configuration it does not if there was no room for it.
    pub(super) fn takes_part(&self, topic: &Topic) -> bool {
        self.subscribers.has(topic)
    }

    /// Topics that nobody wanted for long enough are left.
    pub(super) fn leave_unwanted(&mut self, now: Moment) {
        let (configured, patterns) = (&self.configured, &self.patterns);
        let is_configured = |topic: &Topic| configured.contains(topic);
        let wanters = |topic: &Topic| patterns.wanters(topic.as_str());
        let leaving = self.subscribers.take_unwanted(now, is_configured, wanters);
        for topic in leaving.left {
            self.event(Event::Unsubscribe { topic }, now);
        }
        for topic in leaving.relayed {
            self.event(Event::Subscribe { topic, claim: Claim::Peers }, now);
        }
        self.plan_leaving();
    }

    fn plan_leaving(&mut self) {
        self.leaving = self.subscribers.next_leaving();
    }
}

/// Topics that there was no room for, and of which their subscribers are not told again.
const REFUSED_MAX: usize = 64;
