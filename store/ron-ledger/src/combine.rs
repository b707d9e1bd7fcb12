//! Group commit without a thread of its own: whoever comes first commits for everybody who came meanwhile.

use std::{
    collections::HashMap,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

use ledgerbook::Batch;

use crate::{LedgerError, Posted};

/// The result of posting one batch.
pub(crate) type Outcome = Result<Posted, LedgerError>;

/// The most batches that wait; each has a thread that waits with it.
const MAX_WAITING: usize = 4096;
/// The most batches that are committed at once.
const MAX_GROUP: usize = 512;
/// No batch joins a group that has as many steps.
const MAX_GROUP_STEPS: usize = 2 * Batch::MAX_STEPS;

/// Where batches wait for the commit they are part of.
#[derive(Debug, Default)]
pub(crate) struct Combiner {
    desk: Mutex<Waiting>,
    turned: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    queue: Vec<(u64, Batch)>,
    done: HashMap<u64, Outcome>,
    next_ticket: u64,
    somebody_leads: bool,
}

impl Combiner {
    /// Waits until the batch was part of a commit, which this caller may make: for itself and for everybody waiting.
    /// `commit` says what became of each batch, in order.
    pub(crate) fn submit(&self, batch: &Batch, commit: impl Fn(&[Batch]) -> Vec<Outcome>) -> Outcome {
        let mut waiting = self.lock();
        if waiting.queue.len() >= MAX_WAITING {
            return Err(LedgerError::Busy);
        }
        let ticket = waiting.next_ticket;
        waiting.next_ticket += 1;
        waiting.queue.push((ticket, batch.clone()));
        loop {
            if let Some(outcome) = waiting.done.remove(&ticket) {
                return outcome;
            }
            if waiting.somebody_leads {
                waiting = self.turned.wait(waiting).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            waiting.somebody_leads = true;
            let (tickets, group) = waiting.take_group();
            drop(waiting);
            let mut lead = Lead { combiner: self, tickets, outcomes: Vec::new() };
            lead.outcomes = commit(&group);
            drop(lead);
            waiting = self.lock();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// Those who waited longest, as many as go together.
    fn take_group(&mut self) -> (Vec<u64>, Vec<Batch>) {
        let mut steps = 0;
        let fits = self.queue.iter().take(MAX_GROUP).take_while(|(_, batch)| {
            let room = steps == 0 || steps + batch.steps().len() <= MAX_GROUP_STEPS;
            steps += batch.steps().len();
            room
        });
        let count = fits.count();
        self.queue.drain(..count).unzip()
    }
}

/// Tells everybody in the group what became of them, even if the commit panicked.
struct Lead<'a> {
    combiner: &'a Combiner,
    tickets: Vec<u64>,
    outcomes: Vec<Outcome>,
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let mut waiting = self.combiner.lock();
        let mut outcomes = std::mem::take(&mut self.outcomes).into_iter();
        for ticket in self.tickets.drain(..) {
            let lost = || Err(LedgerError::Unavailable("the commit broke off".to_owned()));
            waiting.done.insert(ticket, outcomes.next().unwrap_or_else(lost));
        }
        waiting.somebody_leads = false;
        self.combiner.turned.notify_all();
    }
}
