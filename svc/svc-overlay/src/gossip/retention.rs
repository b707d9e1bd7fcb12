//! What subscribers of a topic were told lately, kept so that one that comes back can go on where it was.

use std::{collections::VecDeque, fmt, str::FromStr};

use super::subscribers::Delivery;

/// How much of one topic is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retained {
    /// Events: fewer than a new subscriber's queue takes, so that it has room for one that says what is gone.
    pub(super) events: usize,
    /// Bytes of bodies.
    pub(super) bytes: usize,
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
        let number_of = |text: &str| text.parse().map_err(|_| InvalidEventId);
        Ok(Self { life: number_of(life)?, number: number_of(number)? })
    }
}

/// The last events of one topic.
#[derive(Debug)]
pub(super) struct Retention {
    life: u64,
    /// The number of the last event; zero before the first.
    last: u64,
    kept: VecDeque<Delivery>,
    bytes: usize,
    limits: Retained,
}

/// What a subscriber that comes back is told first.
#[derive(Debug)]
pub(super) struct Resumed<'a> {
    /// Events after the one it heard last that are not kept any more; absent if the event is of another life, so that nobody
    /// knows how many they are.
    pub(super) gone: Option<u64>,
    /// The events that are kept, with their ids.
    pub(super) kept: Vec<(EventId, &'a Delivery)>,
}

impl Retention {
    /// Nothing yet, in this life of the node.
    pub(super) fn new(life: u64, limits: Retained) -> Self {
        Self { life, last: 0, kept: VecDeque::new(), bytes: 0, limits }
    }

    /// Keeps an event, and drops the oldest ones it has no room beside.
    pub(super) fn keep(&mut self, event: Delivery) -> EventId {
        self.last += 1;
        self.bytes += size(&event);
        self.kept.push_back(event);
        let Retained { events, bytes } = self.limits;
        while self.kept.len() > events || (self.bytes > bytes && self.kept.len() > 1) {
            self.bytes -= self.kept.pop_front().as_ref().map_or(0, size);
        }
        self.id(self.last)
    }

    /// What came after an event.
    pub(super) fn after(&self, heard: EventId) -> Resumed<'_> {
        let is_known = heard.life == self.life && heard.number <= self.last;
        let heard = if is_known { heard.number } else { 0 };
        let before = self.last - self.kept.len() as u64;
        let kept = (before + 1..).zip(&self.kept).filter(|(number, _)| *number > heard);
        Resumed {
            gone: is_known.then(|| before.saturating_sub(heard)),
            kept: kept.map(|(number, event)| (self.id(number), event)).collect(),
        }
    }

    fn id(&self, number: u64) -> EventId {
        EventId { life: self.life, number }
    }
}

fn size(event: &Delivery) -> usize {
    match event {
        Delivery::Publication { body, .. } => body.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Retained = Retained { events: 1023, bytes: 4 << 20 };

    fn numbers(resumed: &Resumed<'_>) -> Vec<u64> {
        resumed.kept.iter().map(|(id, _)| id.number).collect()
    }

    #[test]
    fn who_comes_back_gets_what_came_after_and_is_told_what_is_gone() {
        let mut retention = Retention::new(7, LIMITS);
        let ids: Vec<_> = (0..5).map(|missed| retention.keep(Delivery::Lagging(missed))).collect();
        let resumed = retention.after(ids[2]);
        assert_eq!((resumed.gone, numbers(&resumed)), (Some(0), vec![4, 5]));
        assert!(retention.after(ids[4]).kept.is_empty());
        for _ in 0..LIMITS.events {
            retention.keep(Delivery::Lagging(1));
        }
        let resumed = retention.after(ids[2]);
        assert_eq!((resumed.gone, resumed.kept.len()), (Some(2), LIMITS.events));
    }

    #[test]
    fn an_event_of_another_life_or_of_the_future_is_not_known() {
        let mut retention = Retention::new(7, LIMITS);
        retention.keep(Delivery::Lagging(1));
        for heard in ["6-1", "7-2", "8-0"] {
            let resumed = retention.after(heard.parse().expect("an id"));
            assert_eq!((resumed.gone, numbers(&resumed)), (None, vec![1]), "{heard}");
        }
        assert_eq!(retention.id(1).to_string(), "7-1");
        assert!(["", "7", "7-", "a-b", "7-1-1"].iter().all(|text| text.parse::<EventId>().is_err()));
    }

    #[test]
    fn bytes_are_bounded_too() {
        let mut retention = Retention::new(1, LIMITS);
        let id = oap::Entry { publisher: types::NodeId::new([1; 32]), incarnation: 1, seq: 1 };
        let id = id.in_topic(&oap::Topic::new("news").expect("a good name"));
        let body = bytes::Bytes::from(vec![0; 64 * 1024]);
        for _ in 0..200 {
            retention.keep(Delivery::Publication {
                id: id.clone(),
                body: body.clone(),
                hops: 0,
                late: false,
            });
        }
        assert_eq!((retention.kept.len(), retention.bytes), (64, LIMITS.bytes));
    }
}
