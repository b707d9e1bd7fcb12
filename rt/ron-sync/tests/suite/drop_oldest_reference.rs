//! The drop-oldest queue against a naive reference, operation by operation.

use crate::support::Task;
use proptest::prelude::*;
use ron_sync::drop_oldest::{Closed, Recv, TryRecvError, channel};
use std::{num::NonZeroUsize, task::Poll};

#[derive(Debug, Clone)]
enum Step {
    Send,
    TryRecv,
    /// A new receiver begins to wait.
    Begin,
    /// The chosen pending receiver is polled, woken or not.
    Poll(prop::sample::Index),
    /// Each pending receiver that was woken is polled.
    RunWoken,
    Cancel(prop::sample::Index),
    Drain,
    Close,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => Just(Step::Send),
        3 => Just(Step::TryRecv),
        4 => Just(Step::Begin),
        3 => any::<prop::sample::Index>().prop_map(Step::Poll),
        2 => Just(Step::RunWoken),
        3 => any::<prop::sample::Index>().prop_map(Step::Cancel),
        1 => Just(Step::Drain),
        1 => Just(Step::Close),
    ]
}

/// The queue as one would write it without a thought for speed or threads.
#[derive(Default)]
struct Naive {
    capacity: usize,
    items: Vec<u32>,
    closed: bool,
    accepted: usize,
    gone: usize,
}

impl Naive {
    fn send(&mut self, item: u32) -> Result<Option<u32>, Closed<u32>> {
        if self.closed {
            return Err(Closed(item));
        }
        self.accepted += 1;
        let displaced = if self.items.len() == self.capacity { self.take() } else { None };
        self.items.push(item);
        Ok(displaced)
    }

    fn take(&mut self) -> Option<u32> {
        let item = (!self.items.is_empty()).then(|| self.items.remove(0));
        self.gone += usize::from(item.is_some());
        item
    }

    fn recv(&mut self) -> Poll<Option<u32>> {
        match self.take() {
            None if !self.closed => Poll::Pending,
            item => Poll::Ready(item),
        }
    }
}

/// A receiver that waits, and the wakes its task had when it was last polled.
struct Pending<'a> {
    recv: Recv<'a, u32>,
    task: Task,
    wakes_seen: usize,
}

impl Pending<'_> {
    fn is_woken(&self) -> bool {
        self.task.wakes() > self.wakes_seen
    }

    fn poll(&mut self) -> Poll<Option<u32>> {
        self.wakes_seen = self.task.wakes();
        self.task.poll(&mut self.recv)
    }
}

/// Polls the pending receiver at `at`, forgets it when it is done, and compares the outcome.
fn poll_at(pending: &mut Vec<Pending<'_>>, at: usize, naive: &mut Naive) -> Result<(), TestCaseError> {
    let outcome = pending[at].poll();
    if outcome.is_ready() {
        pending.remove(at);
    }
    prop_assert_eq!(outcome, naive.recv());
    Ok(())
}

/// A runtime that runs every woken receiver would leave no item behind while someone waits.
fn assert_enough_are_woken(pending: &[Pending<'_>], naive: &Naive) -> Result<(), TestCaseError> {
    let woken = pending.iter().filter(|pending| pending.is_woken()).count();
    let needed = if naive.closed { pending.len() } else { naive.items.len().min(pending.len()) };
    prop_assert!(woken >= needed, "{woken} of {} woken, {needed} needed", pending.len());
    Ok(())
}

proptest! {
    #[test]
    fn every_operation_agrees_with_the_reference(
        capacity in 1_usize..4,
        steps in prop::collection::vec(step(), 0..120),
    ) {
        let (sender, receiver) = channel(NonZeroUsize::new(capacity).expect("at least 1"));
        let mut naive = Naive { capacity, ..Naive::default() };
        let mut pending: Vec<Pending<'_>> = Vec::new();
        for (item, step) in (0_u32..).zip(steps) {
            match step {
                Step::Send => prop_assert_eq!(sender.send(item), naive.send(item)),
                Step::TryRecv => {
                    let empty = if naive.closed { TryRecvError::Closed } else { TryRecvError::Empty };
                    prop_assert_eq!(receiver.try_recv(), naive.take().ok_or(empty));
                }
                Step::Begin => {
                    pending.push(Pending { recv: receiver.recv(), task: Task::new(), wakes_seen: 0 });
                    let newest = pending.len() - 1;
                    poll_at(&mut pending, newest, &mut naive)?;
                }
                Step::Poll(which) if !pending.is_empty() => {
                    let at = which.index(pending.len());
                    poll_at(&mut pending, at, &mut naive)?;
                }
                Step::Cancel(which) if !pending.is_empty() => drop(pending.remove(which.index(pending.len()))),
                Step::Poll(_) | Step::Cancel(_) => {}
                Step::RunWoken => {
                    while let Some(at) = pending.iter().position(Pending::is_woken) {
                        poll_at(&mut pending, at, &mut naive)?;
                    }
                    prop_assert!(pending.is_empty() || naive.items.is_empty());
                }
                Step::Drain => {
                    naive.gone += naive.items.len();
                    prop_assert_eq!(receiver.drain(), std::mem::take(&mut naive.items));
                }
                Step::Close => {
                    sender.close();
                    naive.closed = true;
                }
            }
            prop_assert_eq!(sender.len(), naive.items.len());
            prop_assert_eq!(naive.accepted, naive.gone + sender.len());
            assert_enough_are_woken(&pending, &naive)?;
        }
    }
}
