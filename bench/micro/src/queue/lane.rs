//! One queue with its producer and its consumer, run for a round at a time.

use std::{
    hint::black_box,
    marker::PhantomData,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::{
    runtime::{Handle, Runtime},
    sync::Notify,
};

use super::ends::{Receive, Send};

/// The item that travels through the queue.
pub(super) trait Item: Copy + std::marker::Send + Sync + std::fmt::Debug + 'static {
    /// The `n`th item.
    fn of(n: usize) -> Self;
}

impl Item for u64 {
    fn of(n: usize) -> Self {
        n as u64
    }
}

impl Item for [u64; 16] {
    fn of(n: usize) -> Self {
        [n as u64; 16]
    }
}

/// How far the producer may run ahead, looked at every `stride` items.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) window: usize,
    pub(super) stride: usize,
}

impl Pace {
    /// The queue itself holds the producer back.
    pub(super) const NONE: Self = Self { window: usize::MAX / 2, stride: 256 };
}

/// What the consumer has taken, for the producer to keep its pace.
#[derive(Debug, Default)]
struct Taken {
    items: AtomicUsize,
    more: Notify,
}

/// A queue with both its ends.
pub(super) struct Lane<T, S, R> {
    tx: S,
    rx: Option<R>,
    items: usize,
    pace: Pace,
    carries: PhantomData<T>,
}

impl<T: Item, S: Send<T>, R: Receive<T>> Lane<T, S, R> {
    pub(super) fn new((tx, rx): (S, R), items: usize, pace: Pace) -> Self {
        Self { tx, rx: Some(rx), items, pace, carries: PhantomData }
    }

    /// Sends all items of a round from a task on `near` to a task on `far`, which may be the same runtime.
    pub(super) fn round(&mut self, near: &Runtime, far: &Handle) {
        let (items, pace) = (self.items, self.pace);
        let tx = self.tx.clone();
        let Some(rx) = self.rx.take() else { return };
        let taken = Arc::new(Taken::default());
        let seen = Arc::clone(&taken);
        self.rx = near.block_on(async {
            let consumer = far.spawn(consume(rx, items, pace, taken));
            let producer = tokio::spawn(produce(tx, items, pace, seen));
            producer.await.expect("the producer does not panic");
            Some(consumer.await.expect("the consumer does not panic"))
        });
    }
}

async fn produce<T: Item>(tx: impl Send<T>, items: usize, pace: Pace, taken: Arc<Taken>) {
    for n in 0..items {
        if n.is_multiple_of(pace.stride) {
            while taken.items.load(Ordering::Acquire) + pace.window < n + pace.stride {
                taken.more.notified().await;
            }
        }
        tx.put(T::of(n)).await;
    }
}

async fn consume<T: Item, R: Receive<T>>(mut rx: R, items: usize, pace: Pace, taken: Arc<Taken>) -> R {
    for n in 1..=items {
        black_box(rx.take().await);
        if n.is_multiple_of(pace.stride) {
            taken.items.store(n, Ordering::Release);
            taken.more.notify_one();
        }
    }
    rx
}
