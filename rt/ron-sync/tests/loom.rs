//! Models of the three primitives, and of a service's drain, which is made of two of them: loom runs each test under every interleaving, up to a number of preemptions.
//!
//! Run with `RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test -p ron-sync --test loom --release`.
//! `LOOM_MAX_PREEMPTIONS` overrides the bound. A deadlock or a missed wake-up is reported by loom itself. Tallies
//! are std atomics, which loom does not model, so that counting adds no interleavings.
#![cfg(loom)]
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "loom/drain.rs"]
mod drain;
#[path = "loom/gate.rs"]
mod gate;
#[path = "loom/gate_room.rs"]
mod gate_room;
#[path = "loom/phase.rs"]
mod phase;
#[path = "loom/queue.rs"]
mod queue;

use loom::model::Builder;
use std::{
    pin::Pin,
    task::{Context, Poll, Waker},
};

/// Enough for every ordering of two conflicting steps around a third.
const PREEMPTIONS: usize = 3;

fn model(scenario: impl Fn() + Send + Sync + 'static) {
    model_within(PREEMPTIONS, scenario);
}

/// For a scenario with too many steps for the usual bound.
fn model_within(preemptions: usize, scenario: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.check(scenario);
}

/// Polls once, as a task that is never polled again.
fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}
