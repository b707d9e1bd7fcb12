//! The tickets that wait, under the numbers their owner gave them.

use crate::list::{Links, List};

/// Tickets that are looked at to find one that can be dropped.
const LOOKED_AT: usize = 8;

/// One request that waits in the queue.
#[derive(Debug)]
pub(crate) struct Ticket<T> {
    pub(crate) value: T,
    /// Index of the flow that the ticket belongs to.
    pub(crate) flow: u32,
    /// Estimated cost, in nanoseconds of slot-time.
    pub(crate) estimate: u64,
    /// Charged on top, in nanoseconds of slot-time.
    pub(crate) extra: u64,
    /// Whether its client was promised this place.
    pub(crate) promised: bool,
    /// Whose of the tenant's addresses it is; `None` where the tenant has one alone.
    pub(crate) address: Option<u64>,
    /// Whether it waits behind the tickets of its tenant's other addresses.
    pub(crate) behind: bool,
}

/// Grows to the highest number seen.
#[derive(Debug)]
pub(crate) struct Tickets<T> {
    waiting: Vec<Option<Ticket<T>>>,
    links: Links,
}

impl<T> Tickets<T> {
    pub(crate) fn new() -> Self {
        Self { waiting: Vec::new(), links: Links::default() }
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Ticket<T>> {
        self.waiting.get(index)?.as_ref()
    }

    /// The oldest ticket of a list whose client was not promised its place, among the first few; if there is none, the oldest.
    pub(crate) fn oldest_to_drop(&self, list: List) -> Option<u32> {
        let oldest = list.first()?;
        let few = std::iter::successors(Some(oldest), |&id| self.links.after(id)).take(LOOKED_AT);
        let mut few = few.filter(|&id| self.get(id as usize).is_some_and(|ticket| !ticket.promised));
        few.next().or(Some(oldest))
    }

    /// Puts a ticket at the end of its tenant's list. Nothing must wait under this number.
    pub(crate) fn push_back(&mut self, list: &mut List, index: usize, ticket: Ticket<T>) {
        if self.waiting.len() <= index {
            self.waiting.resize_with(index + 1, || None);
        }
        self.waiting[index] = Some(ticket);
        self.links.push_back(list, number(index));
    }

    /// Takes a ticket out of the list it is in.
    pub(crate) fn take(&mut self, list: &mut List, index: usize) -> Option<Ticket<T>> {
        let ticket = self.waiting.get_mut(index)?.take()?;
        self.links.remove(list, number(index));
        Some(ticket)
    }
}

fn number(index: usize) -> u32 {
    u32::try_from(index).expect("tickets have small numbers")
}
