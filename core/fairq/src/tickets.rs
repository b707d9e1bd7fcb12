//! The tickets that wait, under the numbers their owner gave them.

use crate::list::{Links, List};

/// One waiting ticket.
#[derive(Debug)]
pub(crate) struct Ticket<T> {
    pub(crate) value: T,
    /// Whose it is.
    pub(crate) flow: u32,
    /// In nanoseconds of slot-time.
    pub(crate) estimate: u64,
    /// Charged on top, in nanoseconds of slot-time.
    pub(crate) extra: u64,
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
