//! What subscribers of a topic were told lately, kept so that one that comes back can go on where it was.
//!
//! An event has two numbers: one that counts what is told of its topic, and one that counts all that its shard tells. The first
//! says exactly how many a subscriber of one topic missed; the second lets a subscriber of many topics say where it was in
//! all of them with one number for each shard.

use std::{
    collections::{BinaryHeap, VecDeque},
    fmt,
    str::FromStr,
};

use super::subscribers::Delivery;

/// How much of one topic is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retained {
    /// Events: fewer than a new subscriber's queue takes, so that it has room for one that says what is gone.
    pub(super) events: usize,
    /// Total size of the kept events in bytes.
    pub(super) bytes: usize,
    /// Bytes of events of all topics of a shard.
    pub(super) all_bytes: usize,
}

/// Where a subscriber is in what its node tells of a topic. Numbers count from one, and only within one life of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId {
    life: u64,
    number: u64,
}

/// A text that is not the id of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the id of an event: two numbers with a dash between them")]
pub struct InvalidEventId;

impl EventId {
    /// Before the first event of a life.
    pub(crate) const fn nowhere(life: u64) -> Self {
        Self { life, number: 0 }
    }

    /// The event before this one.
    pub(crate) const fn before(self) -> Self {
        Self { number: self.number.saturating_sub(1), ..self }
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.life, self.number)
    }
}

impl FromStr for EventId {
    type Err = InvalidEventId;

    fn from_str(text: &str) -> Result<Self, InvalidEventId> {
        let (life, number) = text.split_once('-').ok_or(InvalidEventId)?;
        let number_of = |text| digits(text).ok_or(InvalidEventId);
        Ok(Self { life: number_of(life)?, number: number_of(number)? })
    }
}

/// A number that is written with digits and nothing else, not even a sign.
pub(crate) fn digits<T: FromStr>(text: &str) -> Option<T> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// The last events of one topic.
#[derive(Debug)]
pub(super) struct Retention {
    life: u64,
    /// The number before the first event. It is higher than all that the topic had before, if the node left it meanwhile.
    start: u64,
    /// The number of the last event.
    last: u64,
    /// With their numbers in all that the shard tells.
    kept: VecDeque<(u64, Delivery)>,
    bytes: usize,
    /// The shard's number of the last event that is not kept any more; zero if all are.
    dropped: u64,
    limits: Retained,
}

/// What a subscriber that comes back is told first.
#[derive(Debug)]
pub(super) struct Resumed<'a> {
    /// Events after the one it heard last that are not kept any more; absent if the event is of another life, or of before the
    /// node left the topic, so that nobody knows how many they are.
    pub(super) gone: Option<u64>,
    /// The events that are kept, with their ids.
    pub(super) kept: Vec<(EventId, &'a Delivery)>,
}

impl Retention {
    /// Nothing yet, in this life of the node, and with numbers after `start`.
    pub(super) fn new(life: u64, start: u64, limits: Retained) -> Self {
        Self { life, start, last: start, kept: VecDeque::new(), bytes: 0, dropped: 0, limits }
    }

    /// Keeps an event that has this number in all that the shard tells, and drops the oldest ones it has no room beside.
    pub(super) fn keep(&mut self, number: u64, event: Delivery) -> EventId {
        self.last += 1;
        self.bytes += size(&event);
        self.kept.push_back((number, event));
        let Retained { events, bytes, .. } = self.limits;
        while self.kept.len() > events || (self.bytes > bytes && self.kept.len() > 1) {
            self.drop_oldest();
        }
        self.id(self.last)
    }

    /// Drops the oldest event.
    pub(super) fn drop_oldest(&mut self) {
        if let Some((number, event)) = self.kept.pop_front() {
            self.bytes -= size(&event);
            self.dropped = number;
        }
    }

    /// Counts an event that is not kept. Nothing before it is kept either, so that what is kept has no hole.
    pub(super) fn skip(&mut self, number: u64) {
        self.clear();
        self.last += 1;
        self.dropped = number;
    }

    /// Drops all events.
    pub(super) fn clear(&mut self) {
        while !self.kept.is_empty() {
            self.drop_oldest();
        }
    }

    /// Bytes that are kept.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// What came after the event that has this number in all that the shard tells: how many at most are gone, and what is
    /// kept.
    pub(super) fn after_number(&self, heard: u64) -> (u64, impl KeptEvents<'_>) {
        let before = self.last - self.kept.len() as u64;
        let gone = self.dropped.saturating_sub(heard).min(before - self.start);
        let first = self.kept.partition_point(|(number, _)| *number <= heard);
        let kept = (first..self.kept.len()).map(move |at| {
            let (number, event) = &self.kept[at];
            KeptEvent { number: *number, id: self.id(before + 1 + at as u64), event }
        });
        (gone, kept)
    }

    /// Returns the events after the given one.
    pub(super) fn after(&self, heard: EventId) -> Resumed<'_> {
        let is_known = heard.life == self.life && (self.start..=self.last).contains(&heard.number);
        let heard = if is_known { heard.number } else { 0 };
        let before = self.last - self.kept.len() as u64;
        let kept = (before + 1..).zip(&self.kept).filter(|(number, _)| *number > heard);
        Resumed {
            gone: is_known.then(|| before.saturating_sub(heard)),
            kept: kept.map(|(number, (_, event))| (self.id(number), event)).collect(),
        }
    }

    fn id(&self, number: u64) -> EventId {
        EventId { life: self.life, number }
    }
}

/// An event that is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeptEvent<'a> {
    /// Its number in all that the shard tells.
    pub(super) number: u64,
    pub(super) id: EventId,
    pub(super) event: &'a Delivery,
}

/// Events of one topic that are kept, oldest first.
pub(super) trait KeptEvents<'a>:
    DoubleEndedIterator<Item = KeptEvent<'a>> + ExactSizeIterator
{
}

impl<'a, I: DoubleEndedIterator<Item = KeptEvent<'a>> + ExactSizeIterator> KeptEvents<'a> for I {}

/// The newest of the events of several topics, at most so many, in the order in which they were told. Looks at no others.
pub(super) fn newest<'a>(mut topics: Vec<impl KeptEvents<'a>>, most: usize) -> Vec<KeptEvent<'a>> {
    let mut heads: Vec<_> = topics.iter_mut().map(DoubleEndedIterator::next_back).collect();
    let by_number = |(at, head): (usize, &Option<KeptEvent<'a>>)| head.map(|head| (head.number, at));
    let mut order: BinaryHeap<(u64, usize)> = heads.iter().enumerate().filter_map(by_number).collect();
    let mut newest = Vec::new();
    while newest.len() < most
        && let Some((_, at)) = order.pop()
    {
        newest.extend(heads[at]);
        heads[at] = topics[at].next_back();
        order.extend(by_number((at, &heads[at])));
    }
    newest.reverse();
    newest
}

/// What a kept event takes besides its body: its place, and the rest of the frame that the body is a part of.
const EVENT_BYTES: usize = 512;

fn size(event: &Delivery) -> usize {
    let body = match event {
        Delivery::Publication { body, .. } => body.len(),
        _ => 0,
    };
    EVENT_BYTES + body
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Retained = Retained { events: 1023, bytes: 4 << 20, all_bytes: usize::MAX };

    fn numbers(resumed: &Resumed<'_>) -> Vec<u64> {
        resumed.kept.iter().map(|(id, _)| id.number).collect()
    }

    #[test]
    fn who_comes_back_gets_what_came_after_and_is_told_what_is_gone() {
        let mut retention = Retention::new(7, 0, LIMITS);
        let ids: Vec<_> =
            (0..5).map(|missed| retention.keep(missed + 1, Delivery::Lagging(missed))).collect();
        let resumed = retention.after(ids[2]);
        assert_eq!((resumed.gone, numbers(&resumed)), (Some(0), vec![4, 5]));
        assert!(retention.after(ids[4]).kept.is_empty());
        for number in 0..LIMITS.events as u64 {
            retention.keep(number + 6, Delivery::Lagging(1));
        }
        let resumed = retention.after(ids[2]);
        assert_eq!((resumed.gone, resumed.kept.len()), (Some(2), LIMITS.events));
    }

    #[test]
    fn an_event_of_another_life_or_of_the_future_is_not_known() {
        let mut retention = Retention::new(7, 0, LIMITS);
        retention.keep(1, Delivery::Lagging(1));
        for heard in ["6-1", "7-2", "8-0"] {
            let resumed = retention.after(heard.parse().expect("an id"));
            assert_eq!((resumed.gone, numbers(&resumed)), (None, vec![1]), "{heard}");
        }
        assert_eq!(retention.id(1).to_string(), "7-1");
        assert!(
            ["", "7", "7-", "a-b", "7-1-1", "+7-1", "7-+1"]
                .iter()
                .all(|text| text.parse::<EventId>().is_err())
        );
    }

    #[test]
    fn events_that_are_not_kept_are_told_as_gone() {
        let mut retention = Retention::new(7, 10, LIMITS);
        let heard = retention.keep(21, Delivery::Lagging(1));
        retention.keep(22, Delivery::Lagging(1));
        (23..=24).for_each(|number| retention.skip(number));
        assert_eq!((heard.to_string().as_str(), retention.bytes()), ("7-11", 0), "nothing is kept");
        retention.keep(25, Delivery::Lagging(1));
        let resumed = retention.after(heard);
        assert_eq!((resumed.gone, numbers(&resumed)), (Some(3), vec![15]));
        assert_eq!((retention.after_number(21).0, retention.after_number(24).0), (3, 0));
        assert_eq!(retention.after_number(0).0, 4, "not more than ever were");
        // Of before the topic was left.
        for heard in ["7-9", "7-1"] {
            assert_eq!(retention.after(heard.parse().expect("an id")).gone, None, "{heard}");
        }
        assert_eq!(retention.after("7-10".parse().expect("an id")).gone, Some(4));
    }

    #[test]
    fn bytes_are_bounded_too() {
        let mut retention = Retention::new(1, 0, LIMITS);
        let id = oap::Entry { publisher: types::NodeId::new([1; 32]), incarnation: 1, seq: 1 };
        let id = id.in_topic(&oap::Topic::new("news").expect("a good name"));
        let body = bytes::Bytes::from(vec![0; 64 * 1024]);
        for number in 1..=200 {
            let event = Delivery::Publication { id: id.clone(), body: body.clone(), hops: 0, late: false };
            retention.keep(number, event);
        }
        assert_eq!((retention.kept.len(), retention.bytes), (63, 63 * (64 * 1024 + EVENT_BYTES)));
        // Events without a body take room, too.
        let mut retention = Retention::new(1, 0, Retained { bytes: 10 * EVENT_BYTES, ..LIMITS });
        for number in 1..=200 {
            retention.keep(number, Delivery::Lagging(1));
        }
        assert_eq!(retention.kept.len(), 10);
    }

    #[test]
    fn of_many_topics_the_newest_events_are_found_in_their_order() {
        let mut topics: Vec<_> = (0..5).map(|_| Retention::new(7, 0, LIMITS)).collect();
        for number in 1..=100_u64 {
            let at = usize::try_from(number * number % 5).expect("small");
            topics[at].keep(number, Delivery::Lagging(number));
        }
        for (heard, most) in [(0, 7), (0, 1000), (95, 1000), (95, 2), (100, 5), (50, 0)] {
            let lists = topics.iter().map(|topic| topic.after_number(heard).1).collect();
            let found: Vec<u64> = newest(lists, most).iter().map(|kept| kept.number).collect();
            let all: Vec<u64> = (heard + 1..=100).collect();
            assert_eq!(found, all[all.len().saturating_sub(most)..], "{heard} {most}");
        }
    }

    #[test]
    fn a_subscriber_of_many_topics_goes_on_by_the_numbers_of_the_shard() {
        let mut retention = Retention::new(7, 0, Retained { events: 3, ..LIMITS });
        // Every third event of the shard is of this topic.
        for number in 1..=10 {
            retention.keep(number * 3, Delivery::Lagging(number));
        }
        let (gone, kept) = retention.after_number(25);
        assert_eq!((gone, kept.map(|kept| kept.number).collect::<Vec<_>>()), (0, vec![27, 30]));
        // Of 4 to 21, six are of this topic; only their span is known.
        let (gone, kept) = retention.after_number(20);
        assert_eq!((gone, kept.count()), (1, 3));
        assert_eq!(retention.after_number(3).0, 7, "not more than ever were");
        assert_eq!(retention.after_number(30).1.count(), 0);
    }

    proptest::proptest! {
        /// Whatever a topic's events are among those of its shard, and however few are kept: who comes back gets all that came
        /// after and is kept, each once and in order, and is told at least how many are gone, and of none if none are.
        #[test]
        fn what_is_gone_of_many_topics_is_never_told_as_less(
            steps in proptest::collection::vec(1_u64..5, 0..60),
            events in 0_usize..20,
            heard in 0_u64..200,
        ) {
            let mut retention = Retention::new(7, 0, Retained { events, ..LIMITS });
            let numbers: Vec<u64> = steps.iter().scan(0, |at, step| { *at += step; Some(*at) }).collect();
            for number in &numbers {
                retention.keep(*number, Delivery::Lagging(*number));
            }
            let after: Vec<u64> = numbers.iter().copied().filter(|number| *number > heard).collect();
            let (gone, kept) = retention.after_number(heard);
            let kept: Vec<u64> = kept.map(|kept| kept.number).collect();
            let lost = after.len() - kept.len();
            proptest::prop_assert_eq!(&after[lost..], &kept[..]);
            proptest::prop_assert!(gone >= lost as u64, "{} told, {} gone", gone, lost);
            proptest::prop_assert_eq!(gone == 0, lost == 0);
        }
    }
}
