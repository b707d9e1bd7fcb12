//! Models of how work passes through a service and ends with it: a producer, a bounded queue, a consumer, a shutdown.
//!
//! Run with `RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=3 CARGO_TARGET_DIR=target/loom cargo test -p svc-gateway
//! --test loom --release`. Loom runs each scenario under every interleaving up to that bound, and reports a
//! deadlock or a missed wake-up itself.
#![cfg(loom)]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    future::poll_fn,
    num::NonZeroUsize,
    pin::{Pin, pin},
    task::Poll,
};

use loom::{future::block_on, model::Builder, thread};
use ron_sync::{
    drop_oldest::{Receiver, Sender, channel},
    phase::{Phase, PhaseCell, Reached, Stage},
};

/// Enough for every ordering of two conflicting steps around a third.
const PREEMPTIONS: usize = 3;
const INTAKE: Phase = Phase::Draining(Stage::Intake);

fn model(scenario: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(PREEMPTIONS));
    builder.check(scenario);
}

fn queue_of(capacity: usize) -> (Sender<u32>, Receiver<u32>) {
    channel(NonZeroUsize::new(capacity).unwrap())
}

/// Sends the items and counts those dropped: displaced by a newer one, or refused because the intake is closed.
fn produce(sender: &Sender<u32>, items: impl IntoIterator<Item = u32>) -> usize {
    let mut dropped = 0;
    for item in items {
        dropped += match sender.send(item) {
            Ok(displaced) => usize::from(displaced.is_some()),
            Err(_refused) => 1,
        };
        assert!(sender.len() <= sender.capacity(), "above capacity");
    }
    dropped
}

/// The next item, or `None` at the shutdown or the end of the queue, whichever comes first.
async fn next(receiver: &Receiver<u32>, mut shutdown: Pin<&mut Reached>) -> Option<u32> {
    let mut item = pin!(receiver.recv());
    poll_fn(|cx| match shutdown.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(None),
        Poll::Pending => item.as_mut().poll(cx),
    })
    .await
}

/// Works until told to stop, then takes nothing new and finishes what was taken in.
fn consume(receiver: &Receiver<u32>, phase: &PhaseCell) -> Vec<u32> {
    let mut processed = Vec::new();
    block_on(async {
        let mut shutdown = pin!(phase.reached(INTAKE));
        while let Some(item) = next(receiver, shutdown.as_mut()).await {
            processed.push(item);
        }
    });
    receiver.close();
    processed.extend(receiver.drain());
    processed
}

#[test]
fn a_shutdown_at_any_moment_is_noticed_and_leaves_no_item_unaccounted_for() {
    model(|| {
        let (sender, receiver) = queue_of(1);
        let phase = PhaseCell::new();
        let conductor = phase.clone();
        let producer = thread::spawn(move || {
            let dropped = produce(&sender, 0..2);
            // Alive until the end, so that only the shutdown can end the consumer.
            (dropped, sender)
        });
        let shutdown = thread::spawn(move || conductor.advance(INTAKE));

        let processed = consume(&receiver, &phase);

        assert!(shutdown.join().unwrap());
        let (dropped, sender) = producer.join().unwrap();
        assert_eq!(processed.len() + dropped, 2, "processed {processed:?}, dropped {dropped}");
        assert!(processed.is_sorted_by(|earlier, later| earlier < later), "out of order: {processed:?}");
        assert!(sender.is_empty() && sender.is_closed());
        assert_eq!(phase.waiting(), 0);
    });
}

#[test]
fn without_a_shutdown_the_last_producer_ends_the_consumer() {
    model(|| {
        let (sender, receiver) = queue_of(1);
        let producer = thread::spawn(move || produce(&sender, 0..3));

        let processed = consume(&receiver, &PhaseCell::new());

        assert_eq!(processed.len() + producer.join().unwrap(), 3);
        assert_eq!(processed.last(), Some(&2), "the newest item is never displaced");
    });
}

#[test]
fn two_producers_and_a_shutdown_neither_lose_nor_double_an_item() {
    model(|| {
        let (sender, receiver) = queue_of(2);
        let phase = PhaseCell::new();
        let other = sender.clone();
        let one = thread::spawn(move || produce(&sender, [0]));
        let two = thread::spawn(move || produce(&other, [10]));
        assert!(phase.advance(INTAKE));

        let mut processed = consume(&receiver, &phase);

        let dropped = one.join().unwrap() + two.join().unwrap();
        processed.sort_unstable();
        processed.dedup();
        assert_eq!(processed.len() + dropped, 2);
    });
}
