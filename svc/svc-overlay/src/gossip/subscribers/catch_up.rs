//! Subscribers of many topics that come back: what they are sent first, and what they are told is gone.

use std::{collections::VecDeque, sync::Arc};

use oap::Topic;
use topics::Filter;

use super::{Heard, Place, SUBSCRIBER, Sink, Subscribers};
use crate::gossip::retention::newest;

/// Topics that were left and are remembered by name; older ones are remembered by one number for all of them.
const LEFT_MAX: usize = 1024;

/// Where a subscriber of many topics was in what this shard tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// Start with the next event.
    Now,
    /// Resume after this event.
    Heard { life: u64, number: u64 },
    /// It was somewhere, and where is not known.
    Unknown,
}

/// A subscriber of many topics is there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joined {
    /// What it has heard by now.
    pub(crate) place: Place,
    /// Events after the one it heard last that are not kept any more, at most; absent if nobody knows.
    pub(crate) gone: Option<u64>,
}

/// Topics that the shard left, oldest first, each with the number that the shard's events had reached. What was kept of a topic is
/// dropped when it is left, and what is published in it afterwards is not heard here.
#[derive(Debug, Default)]
pub(super) struct LeftTopics {
    list: VecDeque<(u64, Topic)>,
    /// The number of the latest of those that are not listed any more; zero if all are.
    forgotten: u64,
}

impl LeftTopics {
    fn add(&mut self, number: u64, topic: Topic) {
        if self.list.len() == LEFT_MAX {
            self.forgotten = self.list.pop_front().map_or(self.forgotten, |(number, _)| number);
        }
        self.list.push_back((number, topic));
    }

    /// Whether a topic that the filter matches was left, or may have been, after the event with this number.
    fn is_any_after(&self, heard: u64, filter: &Filter) -> bool {
        let later = self.list.iter().rev().take_while(|(number, _)| *number > heard);
        self.forgotten > heard || later.into_iter().any(|(_, topic)| filter.matches(topic.as_str()))
    }
}

impl Subscribers {
    /// Remembers that a topic was left. That has a number of its own, which comes after the last event and before whatever a
    /// subscriber hears from now on.
    pub(super) fn has_left(&mut self, topic: &Topic) {
        self.told += 1;
        self.left.add(self.told, topic.clone());
    }

    /// Sends a new subscriber of many topics what came after what it heard last, in the order in which it was told.
    pub(super) fn catch_up(
        &self,
        topics: &[Topic],
        filter: &Arc<Filter>,
        sink: &Sink,
        after: After,
    ) -> Joined {
        let place = |number| Place { shard: self.shard, life: self.life, number };
        let heard = match after {
            After::Now => return Joined { place: place(self.told), gone: Some(0) },
            After::Heard { life, number } if life == self.life && number <= self.told => Some(number),
            After::Heard { .. } | After::Unknown => None,
        };
        let (mut gone, mut kept) = (0_u64, Vec::new());
        for audience in topics.iter().filter_map(|topic| self.topics.get(topic)) {
            let (lost, events) = audience.retention.after_number(heard.unwrap_or(0));
            gone = gone.saturating_add(lost);
            kept.push(events);
        }
        // What there is no room for is missed.
        let all: usize = kept.iter().map(ExactSizeIterator::len).sum();
        let offered = newest(kept, SUBSCRIBER.capacity - 1).into_iter().map(|kept| Heard {
            id: kept.id,
            place: place(kept.number),
            delivery: kept.event.clone(),
        });
        let taken = offered.filter(|heard| sink.offer(heard, 0).is_ok()).count();
        let gone = gone.saturating_add((all - taken) as u64);
        let is_known = |heard: &u64| !self.left.is_any_after(*heard, filter);
        Joined { place: place(heard.unwrap_or(0)), gone: heard.filter(is_known).map(|_| gone) }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use ron_kernel::{Kernel, queue::Receiver};
    use types::Moment;

    use super::*;
    use crate::{Delivery, gossip::retention::Retained};

    const LIFE: u64 = 7;

    /// Subscribers of a shard, and what they need to subscribe.
    struct Bench {
        subscribers: Subscribers,
        kernel: Kernel,
        next: u64,
    }

    impl Bench {
        fn new() -> Self {
            let retained = Retained { events: 100, bytes: 100_000, all_bytes: 1_000_000 };
            let subscribers = Subscribers::new(0, LIFE, retained, Arc::default(), 0);
            Self { subscribers, kernel: Kernel::builder("test").build().unwrap(), next: 0 }
        }

        fn publish(&mut self, name: &str) {
            let entry = oap::Entry { publisher: types::NodeId::new([1; 32]), incarnation: 1, seq: 1 };
            let (id, body) = (entry.in_topic(&topic(name)), bytes::Bytes::from_static(b"text"));
            self.subscribers.follow(topic(name));
            self.subscribers.keep(&topic(name), Delivery::Publication { id, body, hops: 0, late: false });
        }

        /// Subscribes to some topics and patterns, and leaves again; how many events came, and how many are gone.
        fn visit(&mut self, texts: &[&str], after: After) -> (u64, Option<u64>, usize) {
            self.next += 1;
            let filter = Arc::new(Filter::new(texts.iter().copied()).unwrap());
            let meant = |name: &&Topic| filter.matches_wild(name.as_str());
            let mut topics: Vec<Topic> = self.subscribers.names().filter(meant).cloned().collect();
            topics.extend(filter.exact().map(topic));
            let (sender, mut queue): (_, Receiver<Heard>) =
                self.kernel.scope(&crate::TOPOLOGY).queue(&SUBSCRIBER, "subscribe");
            let sink = Sink::new(self.next, sender, &Arc::default(), 10_000);
            let joined = self.subscribers.join(&topics, &filter, 1, sink, after);
            self.subscribers.remove(self.next, Moment::from_nanos(60));
            (joined.place.number, joined.gone, std::iter::from_fn(|| queue.try_recv()).count())
        }

        /// Time passes until topics that nobody hears of are left.
        fn leave(&mut self) {
            self.subscribers.take_unwanted(Moment::from_nanos(60), |_| false, |_| Vec::new());
        }
    }

    fn topic(name: &str) -> Topic {
        Topic::new(name).unwrap()
    }

    fn heard(number: u64) -> After {
        After::Heard { life: LIFE, number }
    }

    #[test]
    fn who_comes_back_after_a_topic_was_left_is_told_so() {
        for texts in [&["w.>"][..], &["w.1", "w.2"], &["w.*", "x"]] {
            let mut bench = Bench::new();
            bench.publish("w.1");
            bench.publish("w.1");
            let (last, _, _) = bench.visit(texts, After::Now);
            (0..30).for_each(|_| bench.publish("w.1"));
            assert_eq!(bench.visit(texts, heard(last)).1, Some(0), "it is kept for a while");
            bench.visit(&["w.1", "w.2"], After::Now);
            bench.leave();
            assert_eq!(bench.visit(texts, heard(last)).1, None, "{texts:?}");
            // Also once the topic is there again, and only what the subscriber has not heard is sent.
            bench.publish("w.1");
            let (_, gone, count) = bench.visit(texts, heard(last));
            assert_eq!((gone, count), (None, 1), "{texts:?}");
            // Subscribers of other topics, and those who came afterwards, miss nothing.
            assert_eq!(bench.visit(&["y.>", "z"], heard(last)).1, Some(0));
            let (now, _, _) = bench.visit(texts, After::Now);
            assert_eq!(bench.visit(texts, heard(now)).1, Some(0));
        }
    }

    #[test]
    fn a_topic_that_the_configuration_no_longer_has_was_left_too() {
        let mut bench = Bench::new();
        bench.publish("w.1");
        let (last, _, _) = bench.visit(&["w.>"], After::Now);
        bench.subscribers.end(&topic("w.1"));
        assert_eq!(bench.visit(&["w.>"], heard(last)).1, None);
    }

    #[test]
    fn more_topics_than_are_remembered_are_taken_for_those_that_are_wanted() {
        let mut bench = Bench::new();
        bench.publish("w.1");
        let (last, _, _) = bench.visit(&["w.>"], After::Now);
        for number in 0..LEFT_MAX {
            let name = format!("other.{number}");
            bench.publish(&name);
            bench.subscribers.end(&topic(&name));
        }
        assert_eq!(bench.visit(&["w.>"], heard(last)).1, Some(0));
        bench.publish("other");
        bench.subscribers.end(&topic("other"));
        assert_eq!(bench.visit(&["w.>"], heard(last)).1, None);
    }
}
