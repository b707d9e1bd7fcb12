//! The queue against a naive reference, operation by operation.

use crate::support::Task;
use proptest::prelude::*;
use ron_sync::queue::{Closed, Receiver, Recv, Sender, Sending, TryRecvError, TrySendError, channel};
use std::{collections::BTreeMap, num::NonZeroUsize, task::Poll};

#[derive(Debug, Clone)]
enum Step {
    /// Queue an item, if need be in place of the oldest.
    Force,
    TrySend,
    /// A new sender begins to wait for room, if there is none.
    Send,
    TryRecv,
    /// A new receiver begins to wait.
    Recv,
    /// The chosen pending receiver is polled, woken or not.
    PollRecv(prop::sample::Index),
    PollSend(prop::sample::Index),
    CancelRecv(prop::sample::Index),
    CancelSend(prop::sample::Index),
    /// Each pending receiver and sender that was woken is polled.
    RunWoken,
    Drain,
    Close,
}

fn step() -> impl Strategy<Value = Step> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        2 => Just(Step::Force),
        6 => Just(Step::TrySend),
        6 => Just(Step::Send),
        4 => Just(Step::TryRecv),
        5 => Just(Step::Recv),
        3 => index().prop_map(Step::PollRecv),
        3 => index().prop_map(Step::PollSend),
        2 => index().prop_map(Step::CancelRecv),
        2 => index().prop_map(Step::CancelSend),
        3 => Just(Step::RunWoken),
        1 => Just(Step::Drain),
        1 => Just(Step::Close),
    ]
}

/// The queue as one would write it without a thought for speed or threads.
#[derive(Default)]
struct Naive {
    capacity: usize,
    items: Vec<u32>,
    /// What senders that wait have offered, oldest first.
    offers: Vec<u32>,
    closed: bool,
    accepted: usize,
    gone: usize,
}

impl Naive {
    fn is_full(&self) -> bool {
        self.items.len() == self.capacity
    }

    fn force(&mut self, item: u32) -> Result<Option<u32>, Closed<u32>> {
        if self.closed {
            return Err(Closed(item));
        }
        let displaced = self.is_full().then(|| self.items.remove(0));
        self.gone += usize::from(displaced.is_some());
        self.accept(item);
        Ok(displaced)
    }

    fn try_send(&mut self, item: u32) -> Result<(), TrySendError<u32>> {
        if self.closed {
            return Err(TrySendError::Closed(item));
        }
        if self.is_full() {
            return Err(TrySendError::Full(item));
        }
        self.accept(item);
        Ok(())
    }

    /// What a poll of the send of `item` says.
    fn send(&mut self, item: u32, is_first: bool) -> Poll<Result<(), Closed<u32>>> {
        if is_first && !self.closed && self.is_full() {
            self.offers.push(item);
        } else if is_first && !self.closed {
            self.accept(item);
        } else if is_first {
            return Poll::Ready(Err(Closed(item)));
        }
        match self.offers.iter().position(|offer| *offer == item) {
            None => Poll::Ready(Ok(())),
            Some(_) if !self.closed => Poll::Pending,
            Some(at) => Poll::Ready(Err(Closed(self.offers.remove(at)))),
        }
    }

    fn cancel(&mut self, item: u32) -> Option<u32> {
        let at = self.offers.iter().position(|offer| *offer == item)?;
        Some(self.offers.remove(at))
    }

    fn accept(&mut self, item: u32) {
        self.accepted += 1;
        self.items.push(item);
    }

    fn take(&mut self) -> Option<u32> {
        let item = (!self.items.is_empty()).then(|| self.items.remove(0))?;
        self.gone += 1;
        self.refill();
        Some(item)
    }

    fn drain(&mut self) -> Vec<u32> {
        self.gone += self.items.len();
        let all = std::mem::take(&mut self.items);
        self.refill();
        all
    }

    fn refill(&mut self) {
        while !self.closed && !self.is_full() && !self.offers.is_empty() {
            let item = self.offers.remove(0);
            self.accept(item);
        }
    }

    fn recv(&mut self) -> Poll<Option<u32>> {
        match self.take() {
            None if !self.closed => Poll::Pending,
            item => Poll::Ready(item),
        }
    }
}

/// A future that waits, and the wakes its task had when it was last polled.
struct Pending<F> {
    future: F,
    task: Task,
    wakes_seen: usize,
}

impl<F: Future + Unpin> Pending<F> {
    fn new(future: F) -> Self {
        Self { future, task: Task::new(), wakes_seen: 0 }
    }

    fn is_woken(&self) -> bool {
        self.task.wakes() > self.wakes_seen
    }

    fn poll(&mut self) -> Poll<F::Output> {
        self.wakes_seen = self.task.wakes();
        self.task.poll(&mut self.future)
    }
}

/// The queue, its reference, and the futures that wait; senders by their item.
struct Bench<'a> {
    sender: &'a Sender<u32>,
    receiver: &'a Receiver<u32>,
    naive: Naive,
    receiving: Vec<Pending<Recv<'a, u32>>>,
    sending: BTreeMap<u32, Pending<Sending<'a, u32>>>,
}

impl Bench<'_> {
    fn run(&mut self, step: &Step, item: u32) -> Result<(), TestCaseError> {
        match step {
            Step::Force => prop_assert_eq!(self.sender.force_send(item), self.naive.force(item)),
            Step::TrySend => prop_assert_eq!(self.sender.try_send(item), self.naive.try_send(item)),
            Step::Send => {
                self.sending.insert(item, Pending::new(self.sender.send(item)));
                self.poll_send(item, true)?;
            }
            Step::TryRecv => {
                let empty = if self.naive.closed { TryRecvError::Closed } else { TryRecvError::Empty };
                prop_assert_eq!(self.receiver.try_recv(), self.naive.take().ok_or(empty));
            }
            Step::Recv => {
                self.receiving.push(Pending::new(self.receiver.recv()));
                self.poll_recv(self.receiving.len() - 1)?;
            }
            Step::PollRecv(which) if !self.receiving.is_empty() => {
                self.poll_recv(which.index(self.receiving.len()))?;
            }
            Step::CancelRecv(which) if !self.receiving.is_empty() => {
                drop(self.receiving.remove(which.index(self.receiving.len())));
            }
            Step::PollSend(which) if !self.sending.is_empty() => {
                self.poll_send(self.sender_at(which), false)?;
            }
            Step::CancelSend(which) if !self.sending.is_empty() => {
                let item = self.sender_at(which);
                let pending = self.sending.remove(&item).expect("it waits");
                prop_assert_eq!(pending.future.cancel(), self.naive.cancel(item));
            }
            Step::PollRecv(_) | Step::CancelRecv(_) | Step::PollSend(_) | Step::CancelSend(_) => {}
            Step::RunWoken => self.run_woken()?,
            Step::Drain => prop_assert_eq!(self.receiver.drain(), self.naive.drain()),
            Step::Close => {
                self.sender.close();
                self.naive.closed = true;
            }
        }
        Ok(())
    }

    fn sender_at(&self, which: &prop::sample::Index) -> u32 {
        *self.sending.keys().nth(which.index(self.sending.len())).expect("within the map")
    }

    /// Polls the pending receiver at `at`, forgets it when it is done, and compares the outcome.
    fn poll_recv(&mut self, at: usize) -> Result<(), TestCaseError> {
        let outcome = self.receiving[at].poll();
        if outcome.is_ready() {
            self.receiving.remove(at);
        }
        prop_assert_eq!(outcome, self.naive.recv());
        Ok(())
    }

    fn poll_send(&mut self, item: u32, is_first: bool) -> Result<(), TestCaseError> {
        let outcome = self.sending.get_mut(&item).expect("it waits").poll();
        if outcome.is_ready() {
            self.sending.remove(&item);
        }
        prop_assert_eq!(outcome, self.naive.send(item, is_first));
        Ok(())
    }

    fn run_woken(&mut self) -> Result<(), TestCaseError> {
        while let Some(at) = self.receiving.iter().position(Pending::is_woken) {
            self.poll_recv(at)?;
        }
        let woken: Vec<u32> =
            self.sending.iter().filter(|(_, pending)| pending.is_woken()).map(|(item, _)| *item).collect();
        for item in woken {
            self.poll_send(item, false)?;
        }
        prop_assert!(self.receiving.is_empty() || self.naive.items.is_empty());
        let waiting: Vec<u32> = self.sending.keys().copied().collect();
        let mut offered = self.naive.offers.clone();
        offered.sort_unstable();
        prop_assert_eq!(waiting, offered, "a sender that was not woken still waits");
        Ok(())
    }

    /// A runtime that runs every woken future would leave no item behind while someone waits.
    fn check(&self) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.sender.len(), self.naive.items.len());
        prop_assert!(self.sender.len() <= self.naive.capacity);
        prop_assert_eq!(self.naive.accepted, self.naive.gone + self.sender.len());
        let woken = self.receiving.iter().filter(|pending| pending.is_woken()).count();
        let waiting = self.receiving.len();
        let needed = if self.naive.closed { waiting } else { self.naive.items.len().min(waiting) };
        prop_assert!(woken >= needed, "{woken} of {waiting} receivers woken, {needed} needed");
        for (item, pending) in &self.sending {
            let waits = !self.naive.closed && self.naive.offers.contains(item);
            prop_assert_eq!(pending.is_woken(), !waits, "the sender of {}", item);
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn every_operation_agrees_with_the_reference(
        capacity in 1_usize..4,
        steps in prop::collection::vec(step(), 0..120),
    ) {
        let (sender, receiver) = channel(NonZeroUsize::new(capacity).expect("at least 1"));
        let mut bench = Bench {
            sender: &sender,
            receiver: &receiver,
            naive: Naive { capacity, ..Naive::default() },
            receiving: Vec::new(),
            sending: BTreeMap::new(),
        };
        for (item, step) in (0_u32..).zip(steps) {
            bench.run(&step, item)?;
            bench.check()?;
        }
    }
}
