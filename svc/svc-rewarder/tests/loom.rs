//! Models of how epochs pass through the rewarder and end with it: requests into a queue that refuses the newcomer, one
//! scheduler, a shutdown; and two workers that try to take the same epoch.
//!
//! Run with `RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=3 CARGO_TARGET_DIR=target/loom cargo test -p svc-rewarder --test
//! loom --release`. Loom runs each scenario under every interleaving up to that bound, and reports a deadlock or a
//! missed wake-up itself.
#![cfg(loom)]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    future::poll_fn,
    num::NonZeroUsize,
    pin::{Pin, pin},
    task::Poll,
};

use loom::{
    future::block_on,
    model::Builder,
    sync::{Arc, Mutex},
    thread,
};
use ron_sync::{
    drop_oldest::{Receiver, Sender, channel},
    phase::{Phase, PhaseCell, Reached, Stage},
};

/// Enough for every ordering of two conflicting steps around a third.
const PREEMPTIONS: usize = 3;
/// What the queue holds; the rewarder's holds 512.
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

/// Offers epochs as the listener does: what finds no room, or no queue, is told so.
fn offer(sender: &Sender<u32>, epochs: impl IntoIterator<Item = u32>) -> usize {
    let mut refused = 0;
    for epoch in epochs {
        if sender.len() == sender.capacity() {
            refused += 1;
            continue;
        }
        match sender.send(epoch) {
            Ok(displaced) => assert_eq!(displaced, None, "who is in the queue stays there"),
            Err(_closed) => refused += 1,
        }
        assert!(sender.len() <= CAPACITY, "above capacity");
    }
    refused
}

/// The next epoch, or `None` at the drain.
async fn next(receiver: &Receiver<u32>, mut drain: Pin<&mut Reached>) -> Option<u32> {
    let mut epoch = pin!(receiver.recv());
    poll_fn(|cx| match drain.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(None),
        Poll::Pending => epoch.as_mut().poll(cx),
    })
    .await
}

#[test]
fn every_request_is_taken_or_told_whenever_the_drain_comes() {
    model(|| {
        let (sender, receiver) = queue();
        let phase = PhaseCell::new();
        let conductor = phase.clone();
        let listener = thread::spawn(move || (offer(&sender, 0..3), sender));
        let drain = thread::spawn(move || conductor.advance(INTAKE));
        let mut taken = 0;
        block_on(async {
            let mut drain = pin!(phase.reached(INTAKE));
            while next(&receiver, drain.as_mut()).await.is_some() {
                taken += 1;
            }
        });
        receiver.close();
        let told = receiver.drain().len();
        assert!(drain.join().unwrap());
        let (refused, sender) = listener.join().unwrap();
        assert!(told <= CAPACITY);
        assert_eq!(taken + told + refused, 3);
        assert!(sender.is_closed() && sender.is_empty());
    });
}

/// The row of an epoch: a state, and who changed it.
#[derive(Debug, Default)]
struct Row {
    posted: u32,
    settled: u32,
}

#[test]
fn of_two_that_settle_the_same_epoch_one_does_and_the_ledger_has_its_batch_once() {
    model(|| {
        let row = Arc::new(Mutex::new(Row::default()));
        let ledger = Arc::new(Mutex::new(Vec::<u32>::new()));
        let emit = |row: Arc<Mutex<Row>>, ledger: Arc<Mutex<Vec<u32>>>| {
            // The two share no transaction: the ledger first, under its key, then the note.
            {
                let mut keys = ledger.lock().unwrap();
                if !keys.contains(&0) {
                    keys.push(0);
                }
            }
            let mut row = row.lock().unwrap();
            row.posted = row.posted.max(1);
            // One conditional update: only who finds it not settled settles it.
            if row.posted == 1 && row.settled == 0 {
                row.settled += 1;
            }
        };
        let other = {
            let (row, ledger) = (Arc::clone(&row), Arc::clone(&ledger));
            thread::spawn(move || emit(row, ledger))
        };
        emit(Arc::clone(&row), Arc::clone(&ledger));
        other.join().unwrap();
        assert_eq!((row.lock().unwrap().settled, ledger.lock().unwrap().len()), (1, 1));
    });
}
