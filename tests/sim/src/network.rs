//! What lies between the nodes: links with latency, loss and slow ends, and a queue of what is still to happen.

use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

use bytes::BytesMut;
use gossip::{Lanes, Next, Packet, Pushed, WhenFull};
use oap::{Decoder, Message, Parser, Topic};
use types::Moment;

/// Frames that wait for a slow node, per link.
const EGRESS: usize = 64;

/// Something that is still to happen, at a moment; what was planned first happens first.
#[derive(Debug)]
pub struct Agenda<T> {
    heap: BinaryHeap<Reverse<(Moment, u64)>>,
    items: std::collections::HashMap<u64, T>,
    next: u64,
}

impl<T> Default for Agenda<T> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), items: std::collections::HashMap::new(), next: 0 }
    }
}

impl<T> Agenda<T> {
    /// Plans something.
    pub fn plan(&mut self, at: Moment, item: T) {
        self.heap.push(Reverse((at, self.next)));
        self.items.insert(self.next, item);
        self.next += 1;
    }

    /// What happens next, and when, if that is not after `until`.
    pub fn next(&mut self, until: Moment) -> Option<(Moment, T)> {
        let Reverse((at, number)) = *self.heap.peek()?;
        if at > until {
            return None;
        }
        self.heap.pop();
        Some((at, self.items.remove(&number)?))
    }
}

/// One direction of a link.
#[derive(Debug)]
pub struct Direction {
    /// How long a frame is on its way.
    pub latency: Duration,
    /// How long the receiving end takes for each frame.
    pub pace: Duration,
    /// Frames do not overtake each other.
    pub last_arrival: Moment,
    /// What waits for a slow end.
    pub lanes: Lanes<Topic, Packet>,
    /// A frame is leaving.
    pub busy: bool,
}

impl Direction {
    /// A direction without anything on it.
    #[must_use]
    pub fn new(latency: Duration, pace: Duration) -> Self {
        let lanes = Lanes::new(EGRESS * 4, EGRESS, WhenFull::RejectNew);
        Self { latency, pace, last_arrival: Moment::ORIGIN, lanes, busy: false }
    }

    /// A packet waits for a slow end, or comes back.
    pub fn queue(&mut self, packet: Packet, is_control: bool) -> Option<Packet> {
        if is_control {
            return self.lanes.push_control(packet).err();
        }
        let bytes = u32::try_from(packet.bytes().len()).unwrap_or(u32::MAX);
        let topic = packet.topic().cloned()?;
        match self.lanes.push_gossip(&topic, packet, bytes) {
            Pushed::Queued => None,
            Pushed::Shed(packet) | Pushed::Refused(packet) => Some(packet),
        }
    }

    /// What leaves next.
    pub fn take(&mut self) -> Option<Packet> {
        match self.lanes.next(false)? {
            Next::Control(packet) | Next::Gossip(packet) => Some(packet),
            Next::Bulk => None,
        }
    }

    /// When something that leaves at `now` arrives.
    pub fn arrival(&mut self, now: Moment, jitter: Duration) -> Moment {
        let at = now.after(self.latency + jitter).max(self.last_arrival);
        self.last_arrival = at;
        at
    }
}

/// Carries a message the way the wire does: as bytes, in two pieces.
///
/// # Panics
/// If what was encoded does not decode to the same message.
#[must_use]
pub fn over_the_wire(packet: &Packet) -> Message {
    let bytes = packet.bytes();
    let (head, tail) = bytes.split_at(bytes.len() / 2);
    let decoder = Decoder::default();
    let mut received = BytesMut::from(head);
    assert!(decoder.next(&mut received).expect("half a frame is no fault").is_none(), "half a frame");
    received.extend_from_slice(tail);
    let raw = decoder.next(&mut received).expect("a good frame").expect("a whole frame");
    assert!(received.is_empty(), "nothing is left of one frame");
    let frame = Parser::default().parse(raw).expect("a good message");
    assert_eq!(&frame.message, packet.message(), "what arrives is what was sent");
    frame.message
}
