//! Topics that this node takes part in because peers want them by patterns, though nobody may hear of them here.

use gossip::{PeerKey, Relay};
use oap::Topic;
use types::Moment;

use super::{Audience, Subscribers};

/// What became of topics whose moment to be left has come.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::gossip) struct Leaving {
    /// Topics that are not taken part in any more.
    pub(in crate::gossip) left: Vec<Topic>,
    /// Topics that are taken part in only for peers from now on.
    pub(in crate::gossip) relayed: Vec<Topic>,
}

impl Subscribers {
    /// Takes part in a topic for the patterns of these peers, if it is not taken part in and there is room. `source` is the peer
    /// that takes part in it.
    pub(in crate::gossip) fn relay(
        &mut self,
        topic: &Topic,
        wanters: &[PeerKey],
        source: Option<PeerKey>,
    ) -> Relay {
        let relay = self.relays.add(topic, wanters, source);
        if matches!(relay, Relay::Added | Relay::Instead(_)) {
            self.audience(topic.clone()).relayed = true;
        }
        relay
    }

    /// A topic made way for another one that is relayed; whether it is to be left, because nobody hears of it here.
    pub(in crate::gossip) fn stop_relaying(&mut self, topic: &Topic) -> bool {
        let Some(audience) = self.topics.get_mut(topic) else { return false };
        audience.relayed = false;
        let is_over = audience.sinks.is_empty();
        if is_over {
            self.end(topic);
        }
        is_over
    }

    /// Topics that no peer wants any more may be left at `leave_at`. They count until they are: else a peer that changes its
    /// patterns again and again would have more than its share.
    pub(in crate::gossip) fn end_relaying(
        &mut self,
        wanters: impl Fn(&Topic) -> Vec<PeerKey>,
        leave_at: Moment,
    ) {
        for (topic, audience) in self.topics.iter_mut().filter(|(_, audience)| audience.relayed) {
            if !wanters(topic).is_empty() {
                continue;
            }
            if audience.sinks.is_empty() {
                audience.leave_at.get_or_insert(leave_at);
            } else {
                audience.relayed = false;
                self.relays.remove(topic);
            }
        }
        self.relays.recount(wanters);
    }

    /// A peer is gone that took part in topics which are relayed.
    pub(in crate::gossip) fn forget_source(&mut self, peer: PeerKey) {
        self.relays.forget_source(peer);
    }

    /// Forgets the topics whose moment has come; those that are neither configured nor wanted by peers are to be left.
    pub(in crate::gossip) fn take_unwanted(
        &mut self,
        now: Moment,
        is_configured: impl Fn(&Topic) -> bool,
        wanters: impl Fn(&Topic) -> Vec<PeerKey>,
    ) -> Leaving {
        let mut leaving = Leaving::default();
        let is_over = |audience: &Audience| audience.leave_at.is_some_and(|at| at <= now);
        let over = self.topics.iter().filter(|(_, audience)| is_over(audience));
        let over: Vec<Topic> = over.map(|(topic, _)| topic.clone()).collect();
        for topic in over {
            if is_configured(&topic) {
                self.configure(topic);
                continue;
            }
            match self.relays.add(&topic, &wanters(&topic), None) {
                Relay::Added => {}
                Relay::Instead(other) => leaving.left.extend(self.stop_relaying(&other).then_some(other)),
                Relay::Unwanted | Relay::Refused => {
                    self.end(&topic);
                    leaving.left.push(topic);
                    continue;
                }
            }
            if let Some(audience) = self.topics.get_mut(&topic) {
                (audience.relayed, audience.leave_at) = (true, None);
                self.bytes -= audience.retention.bytes();
                audience.retention.clear();
                leaving.relayed.push(topic);
            }
        }
        leaving
    }

    /// Whether anybody here hears of a topic, now or when coming back.
    pub(in crate::gossip) fn is_told_of(&self, topic: &Topic) -> bool {
        self.topics.get(topic).is_some_and(Audience::is_told)
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
        let retained = Retained { events: 10, bytes: 10_000, all_bytes: 10_000 };
        let mut subscribers = Subscribers::new(0, 7, retained, Arc::default(), 2);
        let (topic, at) = (Topic::new("a.1").unwrap(), Moment::from_nanos);
        subscribers.relay(&topic, &[PeerKey(1)], None);
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
        assert_eq!((gone(&subscribers, heard), subscribers.bytes > 8), (Some(0), true));
        // The while is over, and peers still want it.
        assert_eq!(subscribers.take_unwanted(at(60), |_| false, |_| vec![PeerKey(1)]).left, []);
        assert_eq!((gone(&subscribers, heard), subscribers.bytes), (Some(1), 0));
        assert_eq!(keep(&mut subscribers), None);
        assert_eq!(gone(&subscribers, heard), Some(2));
        // It is left, and taken part in again: the numbers of before are not known.
        subscribers.end(&topic);
        subscribers.relay(&topic, &[PeerKey(1)], None);
        (0..10).for_each(|_| assert_eq!(keep(&mut subscribers), None));
        assert_eq!(gone(&subscribers, heard), None);
    }

    #[test]
    fn topics_are_relayed_within_their_share_until_no_peer_wants_them() {
        let retained = Retained { events: 10, bytes: 10_000, all_bytes: 10_000 };
        let mut subscribers = Subscribers::new(0, 7, retained, Arc::default(), 2);
        let topic = |name: &str| Topic::new(name).unwrap();
        let (at, peer) = (Moment::from_nanos, [PeerKey(1)]);
        let relay = |subscribers: &mut Subscribers, name| subscribers.relay(&topic(name), &peer, None);
        assert_eq!(relay(&mut subscribers, "a.1"), Relay::Added);
        assert_eq!(relay(&mut subscribers, "b.1"), Relay::Added);
        assert_eq!(relay(&mut subscribers, "a.2"), Relay::Refused, "two are all");
        assert!(subscribers.has(&topic("a.1")) && !subscribers.is_told_of(&topic("a.1")));
        let want_b =
            |topic: &Topic| if topic.as_str().starts_with("b.") { vec![peer[0]] } else { Vec::new() };
        subscribers.end_relaying(want_b, at(60));
        assert_eq!(subscribers.next_leaving(), Some(at(60)));
        assert_eq!(relay(&mut subscribers, "b.2"), Relay::Refused, "until it is left");
        assert_eq!(subscribers.take_unwanted(at(60), |_| false, want_b).left, [topic("a.1")]);
        assert_eq!(relay(&mut subscribers, "b.2"), Relay::Added);
        // What was left by its subscribers is relayed on while peers want it and there is room.
        subscribers.hold(&topic("b.3"), at(70));
        assert_eq!(subscribers.take_unwanted(at(70), |_| false, want_b).left, [topic("b.3")]);
        subscribers.end(&topic("b.1"));
        subscribers.hold(&topic("b.3"), at(80));
        assert_eq!(subscribers.take_unwanted(at(80), |_| false, want_b).relayed, [topic("b.3")]);
        assert!(subscribers.has(&topic("b.3")) && !subscribers.is_told_of(&topic("b.3")));
        subscribers.end_relaying(|_| Vec::new(), at(90));
        assert_eq!(subscribers.take_unwanted(at(90), |_| false, |_| Vec::new()).left.len(), 2);
        assert_eq!((subscribers.relays.len(), subscribers.next_leaving()), (0, None));
    }

    #[test]
    fn a_topic_that_makes_way_is_left_unless_somebody_hears_of_it_here() {
        let retained = Retained { events: 10, bytes: 10_000, all_bytes: 10_000 };
        let mut subscribers = Subscribers::new(0, 7, retained, Arc::default(), 3);
        let topic = |name: &str| Topic::new(name).unwrap();
        for name in ["a.1", "a.2", "a.3"] {
            assert_eq!(subscribers.relay(&topic(name), &[PeerKey(1)], None), Relay::Added);
        }
        assert_eq!(subscribers.relay(&topic("b"), &[PeerKey(2)], None), Relay::Instead(topic("a.3")));
        assert!(subscribers.stop_relaying(&topic("a.3")) && !subscribers.has(&topic("a.3")));
        assert!(!subscribers.stop_relaying(&topic("a.3")));
    }
}
