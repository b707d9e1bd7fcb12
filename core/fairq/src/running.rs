//! The slots that were given through the queue, in the order in which they were given, to find those held for long.

use crate::list::{Links, List};
use types::Moment;

/// A slot that is in use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    /// Index of the flow that holds the slot.
    pub(crate) flow: u32,
    pub(crate) start: Moment,
    /// Whether it was given to a slow tenant, or to one of which nothing is known.
    pub(crate) slow: bool,
    /// Whether it has been held for longer than what counts as slow.
    pub(crate) overdue: bool,
    /// Whose of the tenant's addresses it is; `None` where the tenant has one alone.
    pub(crate) address: Option<u64>,
}

/// All slots in use, under small numbers. Grows to the most that are in use at once.
#[derive(Debug)]
pub(crate) struct Running {
    slots: Vec<Held>,
    vacant: Vec<u32>,
    links: Links,
    /// Those that are not overdue, in the order in which they were given.
    in_time: List,
}

impl Running {
    pub(crate) fn new() -> Self {
        Self { slots: Vec::new(), vacant: Vec::new(), links: Links::default(), in_time: List::EMPTY }
    }

    /// A slot is given; returns its number.
    pub(crate) fn begin(&mut self, flow: u32, address: Option<u64>, slow: bool, now: Moment) -> u32 {
        let held = Held { flow, start: now, slow, overdue: false, address };
        let id = match self.vacant.pop() {
            Some(id) => {
                self.slots[id as usize] = held;
                id
            }
            None => {
                self.slots.push(held);
                u32::try_from(self.slots.len() - 1).expect("slots have small numbers")
            }
        };
        self.links.push_back(&mut self.in_time, id);
        id
    }

    /// Finds the next slot that was given before `given_before` and was not known to be overdue; it is from now on.
    pub(crate) fn next_overdue(&mut self, given_before: Moment) -> Option<Held> {
        let id = self.in_time.first()?;
        let held = &mut self.slots[id as usize];
        if held.start >= given_before {
            return None;
        }
        held.overdue = true;
        self.links.remove(&mut self.in_time, id);
        Some(*held)
    }

    /// A slot comes back.
    pub(crate) fn end(&mut self, id: u32) -> Held {
        let held = self.slots[id as usize];
        if !held.overdue {
            self.links.remove(&mut self.in_time, id);
        }
        self.vacant.push(id);
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_become_overdue_in_the_order_in_which_they_were_given_and_only_once() {
        let at = Moment::from_nanos;
        let mut running = Running::new();
        let ids: Vec<u32> =
            (0..4).map(|flow| running.begin(flow, None, flow == 2, at(10 * u64::from(flow)))).collect();
        running.end(ids[1]);
        let overdue = |running: &mut Running, before| -> Vec<u32> {
            std::iter::from_fn(|| running.next_overdue(at(before))).map(|held| held.flow).collect()
        };
        assert_eq!(overdue(&mut running, 0), []);
        assert_eq!(overdue(&mut running, 21), [0, 2]);
        assert_eq!(overdue(&mut running, 30), []);
        let ended = running.end(ids[2]);
        assert!(ended.overdue && ended.slow);
        assert!(!running.end(ids[3]).overdue);
        assert_eq!(running.begin(9, None, false, at(50)), ids[3], "numbers are used again");
        assert_eq!(overdue(&mut running, 99), [9]);
    }
}
