//! Topics that this node takes part in because peers want them by patterns, though nobody may hear of them here.

use oap::Topic;
use types::Moment;

use super::Subscribers;

impl Subscribers {
    /// Takes part in a topic for peers, if there are fewer than `most` of them; whether that is new.
    pub(in crate::gossip) fn relay(&mut self, topic: &Topic, most: usize) -> bool {
        if self.has(topic) || self.topics.values().filter(|audience| audience.relayed).count() >= most {
            return false;
        }
        self.audience(topic.clone()).relayed = true;
        true
    }

    /// Topics that no peer wants any more may be left at `leave_at`.
    pub(in crate::gossip) fn end_relaying(&mut self, is_wanted: impl Fn(&Topic) -> bool, leave_at: Moment) {
        for (topic, audience) in self.topics.iter_mut().filter(|(_, audience)| audience.relayed) {
            if !is_wanted(topic) {
                audience.relayed = false;
                if audience.sinks.is_empty() {
                    audience.leave_at = Some(leave_at);
                }
            }
        }
    }

    /// The patterns that somebody subscribes to here.
    pub(in crate::gossip) fn patterns(&self) -> impl Iterator<Item = &str> {
        let filters = self.filters.values().flat_map(|(filter, _)| filter.patterns());
        filters.filter(|pattern| !pattern.is_exact()).map(topics::Pattern::as_str)
    }

    /// Whether anybody here hears of a topic, now or when coming back.
    pub(in crate::gossip) fn is_told_of(&self, topic: &Topic) -> bool {
        self.topics.get(topic).is_some_and(|audience| !audience.relayed || !audience.sinks.is_empty())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::gossip::retention::Retained;

    #[test]
    fn topics_are_relayed_within_their_share_until_no_peer_wants_them() {
        let retained = Retained { events: 10, bytes: 1000, all_bytes: 1000 };
        let mut subscribers = Subscribers::new(0, 7, retained, Arc::default());
        let topic = |name: &str| Topic::new(name).unwrap();
        let at = Moment::from_nanos;
        assert!(subscribers.relay(&topic("a.1"), 2) && !subscribers.relay(&topic("a.1"), 2));
        assert!(subscribers.relay(&topic("b.1"), 2) && !subscribers.relay(&topic("a.2"), 2), "two are all");
        assert!(subscribers.has(&topic("a.1")) && !subscribers.is_told_of(&topic("a.1")));
        subscribers.end_relaying(|topic| topic.as_str().starts_with("b."), at(60));
        assert_eq!(subscribers.next_leaving(), Some(at(60)));
        assert!(subscribers.relay(&topic("a.2"), 2), "there is room again");
        // What was left by its subscribers is relayed on while peers want it.
        assert_eq!(subscribers.take_unwanted(at(60), |_| false, |topic| topic.as_str() == "a.1"), []);
        assert!(subscribers.has(&topic("a.1")) && !subscribers.is_told_of(&topic("a.1")));
        subscribers.end_relaying(|_| false, at(90));
        assert_eq!(subscribers.take_unwanted(at(90), |_| false, |_| false).len(), 3);
    }
}
