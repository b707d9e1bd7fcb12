//! Subscribers of this node, and what they hear.

mod catch_up;
mod relayed;
mod wild;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{
            AtomicU64, AtomicUsize,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
};

use gossip::{GapReason, Packet, RelayShares};
use oap::{MessageId, PATTERNS_MAX, Topic};
use ron_kernel::{
    queue::{SendError, Sender},
    topology::{Policy, QueueSpec},
};
use topics::{Filter, PatternShares};
use types::Moment;

use super::retention::{EventId, Retained, Retention};
use crate::{
    conditions::{Supplies, Supply},
    losses::LossReport,
    metrics::OverlayMetrics,
};
use catch_up::LeftTopics;
pub(crate) use catch_up::{After, Joined};
pub use gossip::Gap;
use wild::Wild;

/// What a subscriber has not taken yet.
pub(crate) const SUBSCRIBER: QueueSpec = QueueSpec {
    name: "subscriber",
    capacity: 1024,
    policy: Policy::RejectNew,
    from: "gossip_shard",
    to: "one subscriber of this node",
    doc: "publications and gaps; a subscriber that falls behind is told how many it missed, and each is in the loss report",
};

/// One gap counts for no more than so many: a publisher can sign a number as high as it likes, and counters must not wrap.
const GAP_COUNTS: u64 = 1 << 20;
/// Gaps take at most this part of a subscriber's queue, one in so many: publishers that somebody invents cause gaps, and these
/// must not keep out what honest ones publish.
const GAP_SHARE: usize = 2;

/// An event for a subscriber.
#[derive(Clone, Debug)]
pub enum Delivery {
    /// A publication arrived.
    Publication {
        /// The id of the publication.
        id: MessageId,
        /// The body of the publication.
        body: bytes::Bytes,
        /// How many links it came over; zero if it was published here.
        hops: u8,
        /// It was named in a gap before.
        late: bool,
    },
    /// Publications that will not be seen.
    Gap(Gap),
    /// The subscriber was too slow for so many publications, or came back too late for so many events.
    Lagging(u64),
    /// The subscriber came back, and what it heard last is not known here: the node was started again, or has left the topic
    /// meanwhile. What was published since then may be missing.
    NotResumed,
    /// There are too many topics for this one, which the subscription is of: nothing is heard of it.
    NoRoom(Topic),
}

/// An event, and where it is.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    /// Its number in what is told of its topic.
    pub(crate) id: EventId,
    /// Its place in all that its shard tells.
    pub(crate) place: Place,
    pub(crate) delivery: Delivery,
}

/// A place in all that one shard tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) shard: u16,
    pub(crate) life: u64,
    pub(crate) number: u64,
}

/// The sending side of a subscription.
#[derive(Debug)]
pub(crate) struct Sink {
    pub(crate) number: u64,
    queue: Sender<Heard>,
    due: Arc<Due>,
    /// Bytes of bodies that may wait in its queue.
    room: usize,
}

/// What a subscriber's end and the subscriber itself both know.
#[derive(Debug, Default)]
pub(crate) struct Due {
    /// Publications it was too slow for, and has not been told of.
    missed: AtomicU64,
    /// Bytes of bodies in its queue.
    waiting: AtomicUsize,
}

impl Due {
    /// Something was taken out of the queue.
    pub(crate) fn taken(&self, heard: &Heard) {
        self.waiting.fetch_sub(size(&heard.delivery), Release);
    }

    /// How many were missed since this was asked last.
    pub(crate) fn missed(&self) -> u64 {
        self.missed.swap(0, Relaxed)
    }
}

impl Sink {
    pub(crate) fn new(number: u64, queue: Sender<Heard>, due: &Arc<Due>, room: usize) -> Self {
        Self { number, queue, due: Arc::clone(due), room }
    }

    /// Puts an event into the queue if there is room. `missing` publications are missed if there is none.
    fn offer(&self, heard: &Heard, missing: u64) -> Result<(), Unheard> {
        let bytes = size(&heard.delivery);
        // One that is alone always fits; only the shards add.
        let waiting = self.due.waiting.fetch_add(bytes, Acquire);
        let fits = waiting == 0 || waiting + bytes <= self.room;
        let sent =
            if fits { self.queue.try_send(heard.clone()) } else { Err(SendError::Busy(heard.clone())) };
        sent.map_err(|error| {
            self.due.waiting.fetch_sub(bytes, Release);
            match error {
                SendError::Busy(_) => {
                    self.due.missed.fetch_add(missing, Relaxed);
                    self.tell_if_idle(heard);
                    Unheard::Busy
                }
                SendError::Closed(_) => Unheard::Gone,
            }
        })
    }

    /// A subscriber hears of what it missed with the next event. If it has taken the last one just now, that may never come, so it
    /// is told at once.
    fn tell_if_idle(&self, not_told: &Heard) {
        if !self.queue.is_empty() {
            return;
        }
        let missed = self.due.missed();
        if missed == 0 {
            return;
        }
        let place = Place { number: not_told.place.number.saturating_sub(1), ..not_told.place };
        let lagging = Heard { id: not_told.id.before(), place, delivery: Delivery::Lagging(missed) };
        if self.queue.try_send(lagging).is_err() {
            self.due.missed.fetch_add(missed, Relaxed);
        }
    }

    /// Puts a gap into the queue if gaps have not taken their part of it.
    fn offer_gap(&self, heard: &Heard, missing: u64) -> Result<(), Unheard> {
        if self.queue.len() >= SUBSCRIBER.capacity / GAP_SHARE {
            self.due.missed.fetch_add(missing, Relaxed);
            return Err(Unheard::Busy);
        }
        self.offer(heard, missing)
    }
}

/// Why an event did not get into a subscriber's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unheard {
    /// The subscriber is too slow.
    Busy,
    /// The subscriber has gone.
    Gone,
}

fn size(delivery: &Delivery) -> usize {
    match delivery {
        Delivery::Publication { body, .. } => body.len(),
        _ => 0,
    }
}

/// The subscribers of a shard, by topic. A subscriber with a pattern is one of every local topic that matches it.
#[derive(Debug)]
pub(super) struct Subscribers {
    topics: HashMap<Topic, Audience>,
    /// Those who subscribe by patterns, by their numbers.
    wild: BTreeMap<u64, Wild>,
    /// Their patterns, as far as other nodes can be told of them.
    shares: PatternShares<u64>,
    /// Topics that are taken part in because peers want them by patterns.
    relays: RelayShares,
    shard: u16,
    /// The life of the node that events are numbered in.
    life: u64,
    /// The number of the last event.
    told: u64,
    /// How much is kept of each topic.
    retained: Retained,
    /// What all shards count of their topics.
    supplies: Arc<Supplies>,
    /// Bytes that are kept of all topics.
    bytes: usize,
    /// Subscribers that were found to have gone.
    gone: Vec<u64>,
    /// Topics that were left, and what was kept of them with them.
    left: LeftTopics,
}

/// Who hears of a topic, and what they were told lately.
#[derive(Debug)]
struct Audience {
    sinks: BTreeMap<u64, Arc<Sink>>,
    retention: Retention,
    supply: Arc<Supply>,
    /// It is taken part in because a peer wants it by a pattern; nothing is kept of it once nobody has heard of it here for a
    /// while.
    relayed: bool,
    /// Nobody hears of it, and when that has lasted long enough.
    leave_at: Option<Moment>,
}

impl Subscribers {
    /// No subscribers yet. At most `relayed` topics are taken part in for patterns of peers.
    pub(super) fn new(
        shard: u16,
        life: u64,
        retained: Retained,
        supplies: Arc<Supplies>,
        relayed: usize,
    ) -> Self {
        Self {
            topics: HashMap::new(),
            wild: BTreeMap::new(),
            shares: PatternShares::new(PATTERNS_MAX),
            relays: RelayShares::new(relayed),
            shard,
            life,
            told: 0,
            retained,
            supplies,
            bytes: 0,
            gone: Vec::new(),
            left: LeftTopics::default(),
        }
    }

    /// Events of a topic are kept from now on.
    pub(super) fn follow(&mut self, topic: Topic) {
        self.audience(topic).leave_at = None;
    }

    /// A topic is one of the configuration from now on: it is not left, and not relayed for peers alone.
    pub(super) fn configure(&mut self, topic: Topic) {
        self.relays.remove(&topic);
        let audience = self.audience(topic);
        (audience.relayed, audience.leave_at) = (false, None);
    }

    /// Takes part in a topic for a while though nobody hears of it; whether that is new.
    pub(super) fn hold(&mut self, topic: &Topic, until: Moment) -> bool {
        let is_new = !self.has(topic);
        let audience = self.audience(topic.clone());
        if audience.sinks.is_empty() && (is_new || audience.leave_at.is_some()) {
            audience.leave_at = audience.leave_at.max(Some(until));
        }
        is_new
    }

    /// Adds a subscriber, which is told first what came after the event that it heard last.
    pub(super) fn add(&mut self, topic: Topic, sink: Sink, after: Option<EventId>) {
        let (shard, life, told) = (self.shard, self.life, self.told);
        let audience = self.audience(topic);
        audience.leave_at = None;
        if let Some(heard) = after {
            audience.resume(&sink, heard, Place { shard, life, number: told });
        }
        audience.sinks.insert(sink.number, Arc::new(sink));
    }

    /// Adds a subscriber of these topics here, and of those that will be found to be meant by its patterns.
    pub(super) fn join(
        &mut self,
        topics: &[Topic],
        filter: &Arc<Filter>,
        holder: u64,
        sink: Sink,
        after: After,
    ) -> Joined {
        let sink = Arc::new(sink);
        for topic in topics {
            let audience = self.audience(topic.clone());
            audience.leave_at = None;
            audience.sinks.insert(sink.number, Arc::clone(&sink));
        }
        self.add_wild(filter, holder, &sink);
        self.catch_up(topics, filter, &sink, after)
    }

    /// Forgets a subscriber; whether it was the last of a topic, so that this may be left at `leave_at`.
    pub(super) fn remove(&mut self, number: u64, leave_at: Moment) -> bool {
        self.remove_wild(number);
        let mut is_last = false;
        for audience in self.topics.values_mut() {
            if audience.sinks.remove(&number).is_some() && audience.sinks.is_empty() {
                audience.leave_at = Some(leave_at);
                is_last = true;
            }
        }
        is_last
    }

    /// Subscribers that were found to have gone.
    pub(super) fn take_gone(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.gone)
    }

    /// Tells somebody who subscribes that there is no room for a topic.
    pub(super) fn turn_away(&self, sink: &Sink, topic: &Topic) {
        // A new queue has room for it.
        let _ = sink.offer(&self.unkept(Delivery::NoRoom(topic.clone())), 0);
    }

    /// Whether anybody hears of a topic.
    pub(super) fn is_heard(&self, topic: &Topic) -> bool {
        self.topics.get(topic).is_some_and(|audience| !audience.sinks.is_empty())
    }

    /// When the first topic may be left.
    pub(super) fn next_leaving(&self) -> Option<Moment> {
        self.topics.values().filter_map(|audience| audience.leave_at).min()
    }

    /// Nobody hears of the topic any more: those who subscribe to it alone hear that it is over.
    pub(super) fn end(&mut self, topic: &Topic) {
        if let Some(audience) = self.topics.remove(topic) {
            self.bytes -= audience.retention.bytes();
            self.has_left(topic);
        }
        self.relays.remove(topic);
        self.supplies.forget(topic);
    }

    /// Whether a topic is wanted, or was until a while ago.
    pub(super) fn has(&self, topic: &Topic) -> bool {
        self.topics.contains_key(topic)
    }

    /// The names of all topics that are wanted.
    pub(super) fn names(&self) -> impl Iterator<Item = &Topic> {
        self.topics.keys()
    }

    /// Hands a publication to everybody who wants it.
    pub(super) fn deliver(
        &mut self,
        packet: &Packet,
        hops: u8,
        late: bool,
        metrics: &OverlayMetrics,
        losses: &LossReport,
    ) {
        let Some(publication) = packet.publication() else { return };
        let (id, body) = (publication.id.clone(), publication.body.clone());
        let delivery = Delivery::Publication { id, body, hops, late };
        let topic = &publication.id.topic;
        let Some(heard) = self.keep(topic, delivery) else { return };
        let Some(audience) = self.topics.get(topic) else { return };
        audience.supply.came();
        let mut lagging = 0;
        for sink in audience.sinks.values() {
            match sink.offer(&heard, 1) {
                Ok(()) => drop(metrics.delivered.inc()),
                Err(Unheard::Busy) => lagging += 1,
                Err(Unheard::Gone) => self.gone.push(sink.number),
            }
        }
        if lagging > 0 {
            losses.add_lagging(publication.id.clone(), SUBSCRIBER.name, lagging);
        }
    }

    /// Tells everybody of a gap.
    pub(super) fn gap(&mut self, gap: &Gap, metrics: &OverlayMetrics) {
        let Some(heard) = self.keep(&gap.topic, Delivery::Gap(gap.clone())) else { return };
        let missing = gap.to.saturating_sub(gap.from).saturating_add(1).min(GAP_COUNTS);
        metrics.gaps.inc_by(missing);
        let Some(audience) = self.topics.get(&gap.topic) else { return };
        if gap.reason != GapReason::BeforeJoining {
            audience.supply.misses(missing);
        }
        for sink in audience.sinks.values() {
            if sink.offer_gap(&heard, missing) == Err(Unheard::Gone) {
                self.gone.push(sink.number);
            }
        }
    }

    /// Keeps an event of a topic for those who come back, within what may be kept of all topics. One that is only relayed is
    /// counted, so that those who come back are told how many they missed.
    fn keep(&mut self, topic: &Topic, delivery: Delivery) -> Option<Heard> {
        let audience = self.topics.get_mut(topic)?;
        self.told += 1;
        let before = audience.retention.bytes();
        if !audience.is_told() {
            audience.retention.skip(self.told);
            self.bytes -= before;
            return None;
        }
        let id = audience.retention.keep(self.told, delivery.clone());
        self.bytes = self.bytes + audience.retention.bytes() - before;
        while self.bytes > self.retained.all_bytes {
            // Of the topic that keeps the most, down to seven eighths of that, so that it is not looked for each time.
            let largest = self.topics.values_mut().max_by_key(|audience| audience.retention.bytes())?;
            let most = largest.retention.bytes();
            while largest.retention.bytes() > most - most / 8 {
                largest.retention.drop_oldest();
            }
            self.bytes = self.bytes + largest.retention.bytes() - most;
            if most == largest.retention.bytes() {
                break;
            }
        }
        let place = Place { shard: self.shard, life: self.life, number: self.told };
        Some(Heard { id, place, delivery })
    }

    /// An event that is told once and not kept.
    fn unkept(&self, delivery: Delivery) -> Heard {
        let place = Place { shard: self.shard, life: self.life, number: self.told };
        Heard { id: EventId::nowhere(self.life), place, delivery }
    }

    /// Who hears of a topic; new ones are those whose patterns mean it.
    fn audience(&mut self, topic: Topic) -> &mut Audience {
        let Self { wild, life, told, retained, supplies, .. } = self;
        self.topics.entry(topic).or_insert_with_key(|topic| {
            // Beyond all numbers that the topic had if it was left: what was heard then is not known any more.
            *told += u64::from(*told > 0);
            let meant = wild.iter().filter(|(_, wild)| wild.means(topic));
            Audience {
                sinks: meant.map(|(number, wild)| (*number, Arc::clone(&wild.sink))).collect(),
                retention: Retention::new(*life, *told, *retained),
                supply: supplies.of(topic),
                relayed: false,
                leave_at: None,
            }
        })
    }
}

impl Audience {
    /// Whether anybody hears of it, now or when coming back.
    fn is_told(&self) -> bool {
        !self.relayed || !self.sinks.is_empty() || self.leave_at.is_some()
    }

    /// Tells a subscriber what came after an event. A new queue has room for all that is kept.
    fn resume(&self, sink: &Sink, heard: EventId, place: Place) {
        let resumed = self.retention.after(heard);
        let first = match resumed.gone {
            Some(0) => None,
            Some(gone) => Some(Delivery::Lagging(gone)),
            None => Some(Delivery::NotResumed),
        };
        let first = first.map(|delivery| (heard, delivery));
        let kept = resumed.kept.into_iter().map(|(id, event)| (id, event.clone()));
        for (id, delivery) in first.into_iter().chain(kept) {
            // What there is no room for is told with the next event.
            let _ = sink.offer(&Heard { id, place, delivery }, 1);
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn topic(name: &str) -> Topic {
        Topic::new(name).unwrap()
    }

    fn publication(name: &str, len: usize) -> Delivery {
        let entry = oap::Entry { publisher: types::NodeId::new([1; 32]), incarnation: 1, seq: 1 };
        let (id, body) = (entry.in_topic(&topic(name)), bytes::Bytes::from(vec![0; len]));
        Delivery::Publication { id, body, hops: 0, late: false }
    }

    #[test]
    fn all_topics_together_keep_no_more_than_allowed() {
        let retained = Retained { events: 100, bytes: 10_000, all_bytes: 20_000 };
        let mut subscribers = Subscribers::new(0, 7, retained, Arc::default(), 0);
        for name in ["a", "b", "c", "d"] {
            subscribers.follow(topic(name));
        }
        // Busy ones make room, so that the quiet one keeps what it has.
        assert!(subscribers.keep(&topic("a"), publication("a", 100)).is_some());
        for _ in 0..30 {
            for name in ["b", "c", "d"] {
                subscribers.keep(&topic(name), publication(name, 100));
                let held: usize =
                    subscribers.topics.values().map(|audience| audience.retention.bytes()).sum();
                assert_eq!(held, subscribers.bytes);
                assert!(held <= 20_000, "{held}");
            }
        }
        assert!(subscribers.topics[&topic("a")].retention.bytes() > 100);
        for name in ["a", "b", "c", "d"] {
            subscribers.end(&topic(name));
        }
        assert_eq!(subscribers.bytes, 0);
    }

    #[test]
    fn a_subscriber_that_took_the_last_event_meanwhile_is_told_what_it_missed() {
        let kernel = ron_kernel::Kernel::builder("test").build().unwrap();
        let (sender, mut queue) = kernel.scope(&crate::TOPOLOGY).queue(&SUBSCRIBER, "subscribe");
        let due = Arc::<Due>::default();
        let sink = Sink::new(1, sender, &due, 10);
        let heard = |number| Heard {
            id: EventId::nowhere(7),
            place: Place { shard: 0, life: 7, number },
            delivery: publication("a", 20),
        };
        assert!(sink.offer(&heard(1), 1).is_ok());
        let taken = queue.try_recv().unwrap();
        // It has the event, and has not said so yet.
        assert_eq!(sink.offer(&heard(2), 1), Err(Unheard::Busy));
        due.taken(&taken);
        let told = queue.try_recv().unwrap();
        assert!(matches!(told.delivery, Delivery::Lagging(1)), "{told:?}");
        assert_eq!(
            (due.missed(), told.place.number),
            (0, 1),
            "it is told once, and resumes before what it missed"
        );
    }

    #[test]
    fn topics_are_held_for_a_while_for_who_publishes_in_them() {
        let retained = Retained { events: 10, bytes: 1000, all_bytes: 1000 };
        let mut subscribers = Subscribers::new(0, 7, retained, Arc::default(), 0);
        let at = Moment::from_nanos;
        assert!(subscribers.hold(&topic("a"), at(60)) && !subscribers.hold(&topic("a"), at(90)));
        assert_eq!(subscribers.next_leaving(), Some(at(90)));
        assert!(subscribers.take_unwanted(at(89), |_| false, |_| Vec::new()).left.is_empty());
        assert_eq!(subscribers.take_unwanted(at(90), |_| false, |_| Vec::new()).left, [topic("a")]);
        // Those of the configuration are not left.
        subscribers.follow(topic("b"));
        assert!(!subscribers.hold(&topic("b"), at(100)));
        assert_eq!(subscribers.next_leaving(), None);
    }
}
