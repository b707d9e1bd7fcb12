//! Random operations on the lanes of a connection: never above their bounds, control first, each topic in order, and every item
//! comes out once.

#![no_main]

use std::collections::{BTreeMap, VecDeque};

use gossip::{Lanes, Next, Pushed, WhenFull};
use libfuzzer_sys::fuzz_target;

const CONTROL_MAX: usize = 4;
const GOSSIP_MAX: usize = 12;

fuzz_target!(|input: &[u8]| {
    let Some((first, steps)) = input.split_first() else { return };
    let full = if first % 2 == 0 { WhenFull::RejectNew } else { WhenFull::DropOldest };
    let mut run = Run::new(full);
    for step in steps.chunks_exact(3) {
        run.apply(step[0], step[1], step[2]);
        run.check();
    }
    run.drain();
});

struct Run {
    lanes: Lanes<u8, u32>,
    full: WhenFull,
    control: VecDeque<u32>,
    topics: BTreeMap<u8, VecDeque<u32>>,
    next_item: u32,
}

impl Run {
    fn new(full: WhenFull) -> Self {
        Self {
            lanes: Lanes::new(CONTROL_MAX, GOSSIP_MAX, full),
            full,
            control: VecDeque::new(),
            topics: BTreeMap::new(),
            next_item: 0,
        }
    }

    fn apply(&mut self, what: u8, a: u8, b: u8) {
        self.next_item += 1;
        let item = self.next_item;
        match what % 8 {
            0 => match self.lanes.push_control(item) {
                Ok(()) => self.control.push_back(item),
                Err(returned) => assert!(returned == item && self.control.len() == CONTROL_MAX),
            },
            1..=3 => self.push(a % 6, item, u32::from(b) << (a % 16)),
            4..=6 => self.next(what % 2 == 0),
            _ => self.lanes.bulk_sent(u32::from(a) << (b % 24)),
        }
    }

    fn push(&mut self, topic: u8, item: u32, bytes: u32) {
        let was_full = self.waiting() == GOSSIP_MAX;
        match self.lanes.push_gossip(&topic, item, bytes) {
            Pushed::Queued => assert!(!was_full),
            Pushed::Shed(oldest) => {
                assert!(was_full && self.full == WhenFull::DropOldest);
                let longest = self.topics.values().map(VecDeque::len).max();
                let of = self.topics.values_mut().find(|waiting| waiting.front() == Some(&oldest));
                let of = of.expect("the oldest of a topic");
                assert_eq!(Some(of.len()), longest, "of the topic with the most");
                of.pop_front();
            }
            Pushed::Refused(returned) => {
                assert!(was_full && self.full == WhenFull::RejectNew && returned == item);
                return;
            }
        }
        self.topics.entry(topic).or_default().push_back(item);
    }

    fn next(&mut self, bulk: bool) {
        match self.lanes.next(bulk) {
            Some(Next::Control(item)) => assert_eq!(self.control.pop_front(), Some(item)),
            Some(Next::Gossip(item)) => {
                assert!(self.control.is_empty(), "control goes first");
                let of = self.topics.values_mut().find(|waiting| waiting.front() == Some(&item));
                of.expect("each topic in order").pop_front();
            }
            Some(Next::Bulk) => assert!(bulk && self.control.is_empty()),
            None => assert!(!bulk && self.control.is_empty() && self.waiting() == 0, "what waits is sent"),
        }
    }

    fn waiting(&self) -> usize {
        self.topics.values().map(VecDeque::len).sum()
    }

    fn check(&self) {
        assert_eq!((self.lanes.control_len(), self.lanes.gossip_len()), (self.control.len(), self.waiting()));
        assert!(self.lanes.control_len() <= CONTROL_MAX && self.lanes.gossip_len() <= GOSSIP_MAX);
    }

    fn drain(&mut self) {
        while !self.lanes.is_empty() {
            self.next(false);
        }
        assert_eq!((self.control.len(), self.waiting()), (0, 0));
    }
}
