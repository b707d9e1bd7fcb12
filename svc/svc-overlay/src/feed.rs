//! A subscription to several topics and patterns at once.

use std::{fmt, str::FromStr, sync::Arc};

use oap::Topic;
use ron_kernel::queue::Receiver;
use topics::Filter;

use crate::{
    error::OverlayError,
    gossip::{
        After, By, Delivery, Due, EventId, Heard, InvalidEventId, Joined, Place, SUBSCRIBER, Sink, digits,
    },
    shared::Shared,
    subscription::Subscription,
};

/// Places in a cursor at most: more cores than a node has.
const PLACES_MAX: usize = 1024;
/// The longest text that is read as a cursor.
const TEXT_MAX: usize = 64 * 1024;

/// Where a subscriber is in what it hears: with that it goes on later.
///
/// Of one topic it is the id of an event. Of several it is a place in all that each shard of the node tells, as
/// `shard:life-number` with a dot between two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(At);

#[derive(Clone, Debug, PartialEq, Eq)]
enum At {
    Topic(EventId),
    Shards(Vec<Place>),
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            At::Topic(id) => id.fmt(f),
            At::Shards(places) => {
                for (at, Place { shard, life, number }) in places.iter().enumerate() {
                    write!(f, "{}{shard}:{life}-{number}", if at == 0 { "" } else { "." })?;
                }
                Ok(())
            }
        }
    }
}

impl FromStr for Cursor {
    type Err = InvalidEventId;

    fn from_str(text: &str) -> Result<Self, InvalidEventId> {
        if !text.contains(':') {
            return text.parse().map(|id| Self(At::Topic(id)));
        }
        if text.len() > TEXT_MAX || text.split('.').count() > PLACES_MAX {
            return Err(InvalidEventId);
        }
        let place = |text: &str| {
            let (shard, rest) = text.split_once(':')?;
            let (life, number) = rest.split_once('-')?;
            Some(Place { shard: digits(shard)?, life: digits(life)?, number: digits(number)? })
        };
        let places: Option<Vec<Place>> = text.split('.').map(place).collect();
        let places = places.ok_or(InvalidEventId)?;
        let is_ordered = places.windows(2).all(|pair| pair[0].shard < pair[1].shard);
        if is_ordered { Ok(Self(At::Shards(places))) } else { Err(InvalidEventId) }
    }
}

impl Cursor {
    /// Where it is in what one shard of this node tells; `is_ours` says whether a place is of a life of this node's shards.
    fn within(&self, shard: u16, is_ours: impl Fn(&Place) -> bool) -> After {
        let At::Shards(places) = &self.0 else { return After::Unknown };
        match places.iter().find(|place| place.shard == shard) {
            Some(place) => After::Heard { life: place.life, number: place.number },
            // All of it was issued here: it was not of this shard's topics before.
            None if places.iter().all(is_ours) => After::Now,
            // Another node, or this one before it was restarted, had its topics on other shards.
            None => After::Unknown,
        }
    }
}

/// What is published in several topics and in those that patterns mean, from the moment it was asked for. Ends when dropped.
#[derive(Debug)]
pub struct Feed(Kind);

#[derive(Debug)]
enum Kind {
    One(Subscription),
    Many(Many),
}

#[derive(Debug)]
struct Many {
    number: u64,
    queue: Receiver<Heard>,
    due: Arc<Due>,
    /// What has been heard of each shard, by their numbers.
    places: Vec<Place>,
    /// Said before what is in the queue.
    first: Option<Delivery>,
    /// Taken out of the queue, and said after that something was missed.
    held: Option<Heard>,
    shared: Arc<Shared>,
}

impl Feed {
    /// Subscribes for the application of the number `holder`; `room` bytes of bodies may wait for the subscriber.
    pub(crate) async fn open(
        shared: &Arc<Shared>,
        filter: &Filter,
        holder: u64,
        after: Option<Cursor>,
        room: usize,
    ) -> Result<Self, OverlayError> {
        if let Some(topic) = filter.single().and_then(|name| Topic::new(name).ok()) {
            let after = after.map(|Cursor(at)| match at {
                At::Topic(id) => id,
                // Of a subscription to other topics: nobody knows where it was.
                At::Shards(_) => EventId::nowhere(0),
            });
            return Ok(Self(Kind::One(
                Subscription::open(shared, topic, By::Application(holder), after, room).await?,
            )));
        }
        Many::open(shared, filter, holder, after, room).await.map(|many| Self(Kind::Many(many)))
    }

    /// What is heard next, and with which cursor a subscriber that comes back goes on behind it. [`None`] once the node takes
    /// part in nothing any more.
    ///
    /// Cancel safe.
    pub async fn next(&mut self) -> Option<(Cursor, Delivery)> {
        match &mut self.0 {
            Kind::One(one) => one.next_event().await.map(|(id, delivery)| (Cursor(At::Topic(id)), delivery)),
            Kind::Many(many) => {
                let delivery = many.next().await?;
                Some((Cursor(At::Shards(many.places.clone())), delivery))
            }
        }
    }
}

impl Many {
    async fn open(
        shared: &Arc<Shared>,
        filter: &Filter,
        holder: u64,
        after: Option<Cursor>,
        room: usize,
    ) -> Result<Self, OverlayError> {
        let (sender, queue) = shared.scope.queue(&SUBSCRIBER, "subscribe");
        let (number, due) = (shared.next_number(), Arc::<Due>::default());
        // Made first, so that the shards that know of it are told if it does not come to be.
        let mut many = Self {
            number,
            queue,
            due: Arc::clone(&due),
            places: Vec::new(),
            first: None,
            held: None,
            shared: Arc::clone(shared),
        };
        let sink = |_shard| Sink::new(number, sender.clone(), &due, room);
        let is_ours = |place: &Place| shared.gossip.life_of(place.shard) == Some(place.life);
        let was = |shard| after.as_ref().map_or(After::Now, |cursor| cursor.within(shard, is_ours));
        let joined = shared.gossip.join(&Arc::new(filter.clone()), holder, sink, was).await?;
        many.first = first_told(&joined);
        many.places = joined.into_iter().map(|joined| joined.place).collect();
        Ok(many)
    }

    async fn next(&mut self) -> Option<Delivery> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        let heard = match self.held.take() {
            Some(held) => held,
            None => {
                let heard = self.queue.recv().await?;
                self.due.taken(&heard);
                match self.due.missed() {
                    0 => heard,
                    missed => {
                        self.held = Some(heard);
                        return Some(Delivery::Lagging(missed));
                    }
                }
            }
        };
        if let Some(place) = self.places.iter_mut().find(|place| place.shard == heard.place.shard) {
            *place = heard.place;
        }
        Some(heard.delivery)
    }
}

impl Drop for Many {
    fn drop(&mut self) {
        self.shared.gossip.leave_all(self.number);
    }
}

/// What a subscriber of many topics that comes back is told first.
fn first_told(joined: &[Joined]) -> Option<Delivery> {
    if joined.iter().any(|joined| joined.gone.is_none()) {
        return Some(Delivery::NotResumed);
    }
    match joined.iter().filter_map(|joined| joined.gone).sum() {
        0 => None,
        gone => Some(Delivery::Lagging(gone)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_that_a_cursor_does_not_list_is_known_only_if_all_that_it_lists_are_of_this_node() {
        // This node's shards are in the lives 70 and 71.
        let is_ours = |place: &Place| place.shard < 2 && place.life == 70 + u64::from(place.shard);
        let within = |text: &str, shard| text.parse::<Cursor>().expect("a cursor").within(shard, is_ours);
        assert_eq!(within("0:70-5.1:71-6", 1), After::Heard { life: 71, number: 6 });
        assert_eq!(within("0:70-5", 1), After::Now, "topics of that shard are new in the subscription");
        // Of a node with one shard, of one with three, and of this one before it was started again.
        assert_eq!(within("0:50-5", 0), After::Heard { life: 50, number: 5 });
        for elsewhere in ["0:50-5", "2:72-5", "0:70-5.2:72-9", "0:71-5"] {
            assert_eq!(within(elsewhere, 1), After::Unknown, "{elsewhere}");
        }
        assert_eq!(within("70-5", 0), After::Unknown, "of one topic");
    }

    #[test]
    fn cursors_read_as_they_are_written() {
        for text in ["7-1", "0:7-1", "0:7-1.1:8-0", "3:18446744073709551615-18446744073709551615"] {
            assert_eq!(text.parse::<Cursor>().map(|cursor| cursor.to_string()).as_deref(), Ok(text));
        }
        for wrong in [
            "",
            ":",
            "0:",
            "0:7",
            "0:7-1.",
            "1:7-1.0:7-1",
            "0:7-1.0:7-1",
            "99999:7-1",
            "0:7-1,1:7-1",
            "+0:7-1",
            "0:+7-1",
            "0:7-+1",
        ] {
            assert!(wrong.parse::<Cursor>().is_err(), "{wrong}");
        }
        let long = vec!["0:7-1"; PLACES_MAX + 1].join(".");
        assert!(long.parse::<Cursor>().is_err());
    }
}
