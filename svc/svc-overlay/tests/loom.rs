//! Models of a peer's outbox: two producers, a permit, one writer, and an end that comes at any time.
//!
//! Run with `RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=3 CARGO_TARGET_DIR=target/loom cargo test -p svc-overlay --test loom
//! --release`. Loom runs each scenario under every interleaving up to that bound, and reports a deadlock or a missed
//! wake-up itself.
#![cfg(loom)]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{future::poll_fn, sync::Arc};

use loom::{future::block_on, model::Builder, thread};
use svc_overlay::outbox::{Limits, Outbox, Parcel, Refused, Taken};

/// Enough for every ordering of two conflicting steps around a third.
const PREEMPTIONS: usize = 3;
/// What waits; a real box holds 512.
const CAPACITY: usize = 2;

#[derive(Debug, PartialEq, Eq, Clone, Copy, PartialOrd, Ord)]
struct Item(u32);

impl Parcel for Item {
    fn len(&self) -> usize {
        10
    }

    fn flow(&self) -> u64 {
        u64::from(self.0 / 10)
    }
}

fn model(scenario: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(PREEMPTIONS));
    builder.check(scenario);
}

fn outbox(drop_oldest: bool) -> Arc<Outbox<Item>> {
    let limits = Limits { permits: 1, queued: CAPACITY, queued_bytes: 1000, control: 1, drop_oldest };
    Arc::new(Outbox::new(limits))
}

/// Offers two publications, and says which did not get in or had to go.
fn produce(outbox: &Outbox<Item>, first: u32) -> Vec<u32> {
    let mut refused = Vec::new();
    let mut frames = vec![Item(first), Item(first + 1)];
    outbox.gossip(&mut frames, |one| {
        let (Refused::Busy(item) | Refused::Displaced(item) | Refused::Closed(item)) = one;
        refused.push(item.0);
    });
    assert!(outbox.queued() <= CAPACITY, "above capacity");
    refused
}

/// The writer: takes until the end, one permit at a time.
fn write(outbox: &Outbox<Item>) -> Vec<u32> {
    block_on(async {
        let (mut written, mut batch) = (Vec::new(), Vec::new());
        loop {
            let taken = poll_fn(|cx| outbox.poll_take(cx, &mut batch)).await;
            assert!(batch.len() <= 1, "more than there are permits");
            written.extend(batch.drain(..).map(|item| item.0));
            if taken == Taken::End {
                return written;
            }
        }
    })
}

fn assert_all_once(mut all: Vec<u32>, expected: &[u32]) {
    all.sort_unstable();
    assert_eq!(all, expected, "each frame is written, refused or left, and once");
}

#[test]
fn every_frame_of_two_producers_is_written_or_refused_and_the_writer_ends() {
    for drop_oldest in [false, true] {
        model(move || {
            let outbox = outbox(drop_oldest);
            let other = Arc::clone(&outbox);
            let producer = thread::spawn(move || produce(&other, 10));
            let writing = Arc::clone(&outbox);
            let writer = thread::spawn(move || write(&writing));
            let mut all = produce(&outbox, 20);
            all.extend(producer.join().unwrap());
            outbox.finish();
            all.extend(writer.join().unwrap());
            assert_all_once(all, &[10, 11, 20, 21]);
        });
    }
}

#[test]
fn an_end_that_comes_at_any_time_loses_nothing_unnamed() {
    model(|| {
        let outbox = outbox(false);
        let producing = Arc::clone(&outbox);
        let producer = thread::spawn(move || produce(&producing, 10));
        let writing = Arc::clone(&outbox);
        let writer = thread::spawn(move || write(&writing));
        let mut all: Vec<u32> = outbox.kill().into_iter().map(|item| item.0).collect();
        all.extend(producer.join().unwrap());
        all.extend(writer.join().unwrap());
        assert_all_once(all, &[10, 11]);
    });
}

#[test]
fn what_is_closed_takes_nothing_in_and_still_gives_out_what_it_has() {
    model(|| {
        let outbox = outbox(false);
        let finishing = Arc::clone(&outbox);
        let closer = thread::spawn(move || finishing.finish());
        let refused = produce(&outbox, 10);
        closer.join().unwrap();
        assert!(matches!(outbox.control(Item(1)), Err(Refused::Closed(_))));
        let mut all = write(&outbox);
        all.extend(refused);
        assert_all_once(all, &[10, 11]);
    });
}

#[test]
fn whoever_waits_to_send_bulk_gets_the_place_or_hears_of_the_end() {
    model(|| {
        let outbox = outbox(false);
        outbox.bulk(Item(1)).unwrap();
        let waiting = Arc::clone(&outbox);
        let sender = thread::spawn(move || {
            block_on(poll_fn(|cx| waiting.poll_bulk(cx)));
            waiting.bulk(Item(2)).is_ok()
        });
        let writing = Arc::clone(&outbox);
        let writer = thread::spawn(move || write(&writing));
        outbox.finish();
        let sent = sender.join().unwrap();
        let written = writer.join().unwrap();
        assert_eq!(written.contains(&2), sent);
        assert!(written.contains(&1));
    });
}
