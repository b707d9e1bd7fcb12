//! The admission gate against a naive reference, operation by operation.

use crate::support::Task;
use proptest::prelude::*;
use ron_sync::gate::{Denied, Enter, Fifo, Gate, Permit, Room, TicketId, Verdict};
use std::{collections::BTreeMap, sync::Arc, task::Poll};

#[derive(Debug, Clone)]
enum Step {
    TryEnter,
    Enter,
    /// Polls the chosen entry, woken or not.
    Poll(prop::sample::Index),
    Cancel(prop::sample::Index),
    Release(prop::sample::Index),
    SetLimit(u32),
    Close,
}

fn step() -> impl Strategy<Value = Step> {
    let which = any::<prop::sample::Index>;
    prop_oneof![
        20 => Just(Step::TryEnter),
        40 => Just(Step::Enter),
        30 => which().prop_map(Step::Poll),
        20 => which().prop_map(Step::Cancel),
        40 => which().prop_map(Step::Release),
        10 => (0_u32..5).prop_map(Step::SetLimit),
        1 => Just(Step::Close),
    ]
}

/// A full room sheds its oldest ticket for the newcomer.
struct ShedOldest {
    capacity: usize,
    tickets: Vec<TicketId>,
}

impl Room for ShedOldest {
    type Key = ();
    type Stay = ();
    type Denial = ();

    fn walk_in((): ()) {}

    fn push(&mut self, (): (), id: TicketId) -> Verdict<()> {
        self.tickets.push(id);
        if self.tickets.len() <= self.capacity {
            return Verdict::Queued;
        }
        Verdict::Evicted(self.tickets.remove(0), ())
    }

    fn pop(&mut self, _: u32) -> Option<(TicketId, ())> {
        (!self.tickets.is_empty()).then(|| (self.tickets.remove(0), ()))
    }

    fn cancel(&mut self, id: TicketId) {
        let at = self.tickets.iter().position(|&known| known == id);
        self.tickets.remove(at.expect("only a waiting ticket is cancelled"));
    }

    fn returned(&mut self, (): ()) {}
}

/// The gate as one would write it without a thought for speed or threads. Entries are named by number.
struct Naive {
    inflight: usize,
    limit: usize,
    closed: bool,
    room: Vec<u32>,
    capacity: usize,
    sheds: bool,
    settled: BTreeMap<u32, Result<(), Denied<()>>>,
}

impl Naive {
    fn try_enter(&mut self) -> bool {
        let free = !self.closed && self.room.is_empty() && self.inflight < self.limit;
        self.inflight += usize::from(free);
        free
    }

    fn arrive(&mut self, entry: u32) -> Poll<Result<(), Denied<()>>> {
        if self.closed {
            return Poll::Ready(Err(Denied::Closed));
        }
        if self.try_enter() {
            return Poll::Ready(Ok(()));
        }
        if self.room.len() == self.capacity {
            if !self.sheds {
                return Poll::Ready(Err(Denied::Refused(())));
            }
            self.settled.insert(self.room.remove(0), Err(Denied::Evicted(())));
        }
        self.room.push(entry);
        Poll::Pending
    }

    fn poll(&mut self, entry: u32) -> Poll<Result<(), Denied<()>>> {
        self.settled.remove(&entry).map_or(Poll::Pending, Poll::Ready)
    }

    fn cancel(&mut self, entry: u32) {
        self.room.retain(|&waiting| waiting != entry);
        if self.settled.remove(&entry) == Some(Ok(())) {
            self.release();
        }
    }

    fn release(&mut self) {
        self.inflight -= 1;
        self.fill();
    }

    fn fill(&mut self) {
        while self.inflight < self.limit && !self.room.is_empty() {
            self.inflight += 1;
            self.settled.insert(self.room.remove(0), Ok(()));
        }
    }

    fn close(&mut self) {
        self.closed = true;
        self.settled.extend(self.room.drain(..).map(|entry| (entry, Err(Denied::Closed))));
    }
}

/// The gate under test with all that was taken from it, beside its reference.
struct Bench<R: Room<Key = (), Stay = (), Denial = ()>> {
    gate: Arc<Gate<R>>,
    naive: Naive,
    permits: Vec<Permit<R>>,
    entries: Vec<(u32, Enter<R>, Task)>,
    next_entry: u32,
}

impl<R: Room<Key = (), Stay = (), Denial = ()>> Bench<R> {
    fn apply(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::TryEnter => {
                let permit = self.gate.try_enter(()).ok();
                prop_assert_eq!(permit.is_some(), self.naive.try_enter());
                self.permits.extend(permit);
            }
            Step::Enter => {
                let (number, mut entry, task) = (self.next_entry, self.gate.enter(()), Task::new());
                self.next_entry += 1;
                let outcome = task.poll(&mut entry);
                let expected = self.naive.arrive(number);
                self.entries.push((number, entry, task));
                self.settle(self.entries.len() - 1, outcome, expected)?;
            }
            Step::Poll(which) if !self.entries.is_empty() => {
                let at = which.index(self.entries.len());
                let (number, entry, task) = &mut self.entries[at];
                let (outcome, expected) = (task.poll(entry), self.naive.poll(*number));
                self.settle(at, outcome, expected)?;
            }
            Step::Cancel(which) if !self.entries.is_empty() => {
                let (number, entry, _) = self.entries.remove(which.index(self.entries.len()));
                drop(entry);
                self.naive.cancel(number);
            }
            Step::Release(which) if !self.permits.is_empty() => {
                drop(self.permits.remove(which.index(self.permits.len())));
                self.naive.release();
            }
            Step::Poll(_) | Step::Cancel(_) | Step::Release(_) => {}
            Step::SetLimit(limit) => {
                self.gate.set_limit(limit);
                self.naive.limit = limit as usize;
                self.naive.fill();
            }
            Step::Close => {
                self.gate.close();
                self.naive.close();
            }
        }
        self.compare()
    }

    /// Compares the outcome of a poll, and keeps the permit instead of the entry once there is one.
    fn settle(
        &mut self,
        at: usize,
        outcome: Poll<Result<Permit<R>, Denied<()>>>,
        expected: Poll<Result<(), Denied<()>>>,
    ) -> Result<(), TestCaseError> {
        let summary = match &outcome {
            Poll::Ready(result) => Poll::Ready(result.as_ref().map(|_| ()).map_err(|denied| *denied)),
            Poll::Pending => Poll::Pending,
        };
        prop_assert_eq!(summary, expected);
        if let Poll::Ready(result) = outcome {
            drop(self.entries.remove(at));
            self.permits.extend(result);
        }
        Ok(())
    }

    fn compare(&self) -> Result<(), TestCaseError> {
        let naive = &self.naive;
        let counts = (self.gate.inflight() as usize, self.gate.waiters() as usize);
        prop_assert_eq!(counts, (naive.inflight, naive.room.len()));
        prop_assert_eq!(self.gate.limit() as usize, naive.limit);
        prop_assert_eq!(self.gate.is_closed(), naive.closed);
        for (number, _, task) in &self.entries {
            let expected = usize::from(naive.settled.contains_key(number));
            prop_assert_eq!(task.wakes(), expected, "entry {} is woken once, when it is settled", number);
        }
        Ok(())
    }
}

fn run<R: Room<Key = (), Stay = (), Denial = ()>>(
    room: R,
    capacity: usize,
    sheds: bool,
    limit: u32,
    steps: Vec<Step>,
) -> Result<(), TestCaseError> {
    let naive = Naive {
        inflight: 0,
        limit: limit as usize,
        closed: false,
        room: Vec::new(),
        capacity,
        sheds,
        settled: BTreeMap::new(),
    };
    let gate = Gate::new(limit, room);
    let mut bench = Bench { gate, naive, permits: Vec::new(), entries: Vec::new(), next_entry: 0 };
    for step in steps {
        bench.apply(step)?;
    }
    let Bench { gate, permits, entries, .. } = bench;
    drop((permits, entries));
    prop_assert_eq!((gate.inflight(), gate.waiters()), (0, 0), "something was not given back");
    Ok(())
}

proptest! {
    #[test]
    fn a_gate_with_a_refusing_room_agrees_with_the_reference(
        capacity in 0_usize..4, limit in 0_u32..4, steps in prop::collection::vec(step(), 0..150),
    ) {
        run(Fifo::new(capacity), capacity, false, limit, steps)?;
    }

    #[test]
    fn a_gate_with_a_shedding_room_agrees_with_the_reference(
        capacity in 1_usize..4, limit in 0_u32..4, steps in prop::collection::vec(step(), 0..150),
    ) {
        run(ShedOldest { capacity, tickets: Vec::new() }, capacity, true, limit, steps)?;
    }
}
