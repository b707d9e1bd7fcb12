//! Models of how fills pass through the edge and end with it: a producer, a queue of two that refuses the newcomer, a
//! worker, a shutdown.
//!
//! Run with `RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=3 CARGO_TARGET_DIR=target/loom cargo test -p svc-edge --test loom
//! --release`. Loom runs each scenario under every interleaving up to that bound, and reports a deadlock or a missed
//! wake-up itself.
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
/// What the queue holds; the edge's holds 512.
const CAPACITY: usize = 2;
const INTAKE: Phase = Phase::Draining(Stage::Intake);

fn model(scenario: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(PREEMPTIONS));
    builder.check(scenario);
}

fn queue() -> (Sender<u32>, Receiver<u32>) {
    channel(NonZeroUsize::new(CAPACITY).unwrap())
}

/// What became of jobs.
#[derive(Debug, Default)]
struct Tally {
    worked: Vec<u32>,
    turned_away: Vec<u32>,
}

/// Offers jobs without waiting, and counts those refused: the queue is full, or closed by the drain. Whoever is the only
/// producer may look first: a worker can only make more room meanwhile.
fn offer(sender: &Sender<u32>, jobs: impl IntoIterator<Item = u32>) -> usize {
    let mut refused = 0;
    for job in jobs {
        if sender.len() == sender.capacity() {
            refused += 1;
            continue;
        }
        match sender.send(job) {
            Ok(displaced) => assert_eq!(displaced, None, "who is in the queue stays there"),
            Err(_closed) => refused += 1,
        }
        assert!(sender.len() <= CAPACITY, "above capacity");
    }
    refused
}

/// The next job, or `None` at the drain or the end of the queue, whichever comes first.
async fn next(receiver: &Receiver<u32>, mut drain: Pin<&mut Reached>) -> Option<u32> {
    let mut job = pin!(receiver.recv());
    poll_fn(|cx| match drain.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(None),
        Poll::Pending => job.as_mut().poll(cx),
    })
    .await
}

/// Works until the drain, then takes nothing more in and turns away whoever waits.
fn work(receiver: &Receiver<u32>, phase: &PhaseCell) -> Tally {
    let mut tally = Tally::default();
    block_on(async {
        let mut drain = pin!(phase.reached(INTAKE));
        while let Some(job) = next(receiver, drain.as_mut()).await {
            tally.worked.push(job);
        }
    });
    receiver.close();
    tally.turned_away = receiver.drain();
    tally
}

#[test]
fn a_drain_at_any_moment_is_noticed_and_turns_at_most_two_away() {
    model(|| {
        let (sender, receiver) = queue();
        let phase = PhaseCell::new();
        let conductor = phase.clone();
        let producer = thread::spawn(move || {
            let refused = offer(&sender, 0..3);
            // Alive until the end, so that only the drain can end the worker.
            (refused, sender)
        });
        let drain = thread::spawn(move || conductor.advance(INTAKE));

        let tally = work(&receiver, &phase);

        assert!(drain.join().unwrap());
        let (refused, sender) = producer.join().unwrap();
        assert!(tally.turned_away.len() <= CAPACITY, "{tally:?}");
        assert_eq!(tally.worked.len() + tally.turned_away.len() + refused, 3, "{tally:?}, {refused} refused");
        let seen: Vec<_> = tally.worked.iter().chain(&tally.turned_away).collect();
        assert!(seen.is_sorted_by(|earlier, later| earlier < later), "out of order: {tally:?}");
        assert!(sender.is_empty() && sender.is_closed());
        assert_eq!(phase.waiting(), 0);
    });
}

#[test]
fn without_a_drain_whatever_was_taken_in_is_worked() {
    model(|| {
        let (sender, receiver) = queue();
        let producer = thread::spawn(move || offer(&sender, 0..4));

        let tally = work(&receiver, &PhaseCell::new());

        assert!(tally.turned_away.is_empty());
        assert_eq!(tally.worked.len() + producer.join().unwrap(), 4);
        assert_eq!(tally.worked.first(), Some(&0), "the first is never refused");
    });
}

#[test]
fn who_comes_after_the_drain_is_refused() {
    model(|| {
        let (sender, receiver) = queue();
        let phase = PhaseCell::new();
        assert!(phase.advance(INTAKE));
        let worker = {
            let phase = phase.clone();
            thread::spawn(move || work(&receiver, &phase))
        };
        let refused = offer(&sender, 0..2);
        let tally = worker.join().unwrap();
        assert_eq!(tally.turned_away.len() + refused, 2, "{tally:?}");
        assert!(tally.worked.is_empty());
        assert_eq!(offer(&sender, [9]), 1);
    });
}
