//! A supervised child against a bare spawn, on a core's kind of runtime.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use ron_kernel::supervisor::Children;
use tokio::runtime::Runtime;

use crate::{
    Failure,
    bench_topology::{CHILD, with_scope},
    paired::{Pair, cpu_ns_per},
    report::{Group, Report},
    runtimes,
};

const GROUP: Group = Group { name: "spawn", unit: "ns/task", against: "tokio::spawn", goal: Some(1.2) };

/// Tasks alive at once: a busy core's worth.
const BATCH: usize = 256;
/// Batches in a round.
const BATCHES: usize = 16;

/// Measures children that are ready at once, and at their second poll, small and of a connection's size.
pub(crate) fn run(rounds: usize, report: &mut Report) -> Result<(), Failure> {
    with_scope(|scope| cases(&scope.children(&CHILD), rounds, report))
}

fn cases(children: &Children, rounds: usize, report: &mut Report) -> Result<(), Failure> {
    let runtime = runtimes::current_thread()?;
    for (case, polls, padded) in [
        ("ready at once", 1, false),
        ("ready at the second poll", 2, false),
        ("ready at once, 2 KiB future", 1, true),
        ("ready at the second poll, 2 KiB future", 2, true),
    ] {
        let pair = if padded {
            Pair::measure(
                rounds,
                || round(&runtime, || children.spawn(Padded::new(polls))),
                || round(&runtime, || drop(tokio::spawn(Padded::new(polls)))),
            )
        } else {
            Pair::measure(
                rounds,
                || round(&runtime, || children.spawn(Polls(polls))),
                || round(&runtime, || drop(tokio::spawn(Polls(polls)))),
            )
        };
        report.add(GROUP, case, pair);
    }
    Ok(())
}

/// Spawns and finishes every batch of a round.
fn round(runtime: &Runtime, spawn: impl Fn()) -> f64 {
    let metrics = runtime.metrics();
    cpu_ns_per(BATCH * BATCHES, || {
        runtime.block_on(async {
            for _ in 0..BATCHES {
                (0..BATCH).for_each(|_| spawn());
                while metrics.num_alive_tasks() > 0 {
                    tokio::task::yield_now().await;
                }
            }
        });
    })
}

/// Ready at its `n`th poll.
pub(crate) struct Polls(pub(crate) u32);

impl Future for Polls {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0 -= 1;
        if self.0 == 0 {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// The same in a future as large as a connection's.
struct Padded {
    polls: Polls,
    _state: [u64; 256],
}

impl Padded {
    fn new(polls: u32) -> Self {
        Self { polls: Polls(polls), _state: [u64::from(polls); 256] }
    }
}

impl Future for Padded {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.polls).poll(cx)
    }
}
