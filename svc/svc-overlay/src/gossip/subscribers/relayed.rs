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

    /// Forgets the topics whose moment has come; those that are neither configured nor wanted by peers are to be left.
    pub(in crate::gossip) fn take_unwanted(
        &mut self,
        now: Moment,
        is_configured: impl Fn(&Topic) -> bool,
        is_relayed: impl Fn(&Topic) -> bool,
    ) -> Vec<Topic> {
        let mut unwanted = Vec::new();
        self.topics.retain(|topic, audience| {
            let is_over = audience.leave_at.is_some_and(|at| at <= now);
            if is_over && (is_configured(topic) || is_relayed(topic)) {
                audience.relayed = !is_configured(topic);
                audience.leave_at = None;
                if audience.relayed {
                    self.bytes -= audience.retention.bytes();
                    audience.retention.clear();
                }
                return true;
            }
            if is_over {
                self.bytes -= audience.retention.bytes();
                unwanted.push(topic.clone());
            }
            !is_over
        });
        for topic in &unwanted {
            self.supplies.forget(topic);
            self.has_left(topic);
        }
        unwanted
    }

    /// The patterns that somebody subscribes to here.
    pub(in crate::gossip) fn patterns(&self) -> impl Iterator<Item = &str> {
        let filters = self.filters.values().flat_map(|(filter, _)| filter.patterns());
        filters.filter(|pattern| !pattern.is_exact()).map(topics::Pattern::as_str)
    }

    /// Whether anybody here hears of a topic, now or when coming back.
    pub(in crate::gossip) fn is_told_of(&self, topic: &Topic) -> bool {
        self.topics.get(topic).is_some_and(super::Audience::is_told)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        Delivery,
        gossip::{EventId, retention::Retained},
    };

    #[test]
    fn those_who_come_back_to_a_topic_that_was_only_relayed_are_told_how_much_is_gone() {
        let retained = Retained { events: 10, bytes: 1000, all_bytes: 1000 };
        let mut subscribers = Subscribers::new(0, 7, retained, Arc::default());
        let (topic, at) = (Topic::new("a.1").unwrap(), Moment::from_nanos);
        subscribers.relay(&topic, 2);
        subscribers.follow(topic.clone());
        let keep = |subscribers: &mut Subscribers| {
            let entry = oap::Entry { publisher: types::NodeId::new([1; 32]), incarnation: 1, seq: 1 };
            let (id, body) = (entry.in_topic(&topic), bytes::Bytes::from_static(b"text"));
            subscribers
                .keep(&topic, Delivery::Publication { id, body, hops: 0, late: false })
                .map(|heard| heard.id)
        };
        let gone = |subscribers: &Subscribers, heard: EventId| {
            subscribers.topics[&topic].retention.after(heard).gone
        };
        assert_eq!(keep(&mut subscribers), None, "nobody hears of it");
        subscribers.topics.get_mut(&topic).unwrap().leave_at = Some(at(60));
        let heard = keep(&mut subscribers).unwrap();
        keep(&mut subscribers).unwrap();
        assert_eq!((gone(&subscribers, heard), subscribers.bytes), (Some(0), 8));
        // The while is over, and peers still want it.
        assert_eq!(subscribers.take_unwanted(at(60), |_| false, |_| true), []);
        assert_eq!((gone(&subscribers, heard), subscribers.bytes), (Some(1), 0));
        assert_eq!(keep(&mut subscribers), None);
        assert_eq!(gone(&subscribers, heard), Some(2));
        // It is left, and taken part in again: the numbers of before are not known.
        subscribers.end(&topic);
        subscribers.relay(&topic, 2);
        (0..10).for_each(|_| assert_eq!(keep(&mut subscribers), None));
        assert_eq!(gone(&subscribers, heard), None);
    }

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
