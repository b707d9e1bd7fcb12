//! The admission gate against a bare semaphore: free entry, and the hand-over of the only slot.

use std::{hint::black_box, sync::Arc, thread};

use ron_sync::gate::{Fifo, Gate};
use tokio::{
    runtime::{Handle, Runtime},
    sync::Semaphore,
};

use crate::{
    Failure,
    paired::{Pair, all_cpu_ns_per, cpu_ns_per},
    report::{Group, Report},
    runtimes,
    spawn::Polls,
};

const GROUP: Group = Group { name: "gate", unit: "ns/entry", against: "tokio Semaphore", goal: None };

/// Entries of a round, per thread.
const ENTRIES: usize = 50_000;
/// Tasks that want the only slot.
const RIVALS: usize = 64;
/// Entries of each of them in a round.
const TURNS: usize = 64;

/// Measures entries without and with a wait.
pub(crate) fn run(rounds: usize, report: &mut Report) -> Result<(), Failure> {
    let gate = Gate::new(1024, Fifo::new(0));
    let semaphore = Arc::new(Semaphore::new(1024));
    let ours = || drop(black_box(gate.try_enter(())));
    let bare = || drop(black_box(Arc::clone(&semaphore).try_acquire_owned()));
    let free = Pair::measure(rounds, || alone(ours), || alone(bare));
    report.add(GROUP, "try_enter and release, one thread", free);
    let free = Pair::measure(rounds, || together(ours), || together(bare));
    report.add(GROUP, "try_enter and release, two threads", free);
    report.add(GROUP, "hand-over, one thread", hand_over(rounds, None)?);
    let across = runtimes::with_far(|far| hand_over(rounds, Some(far)))??;
    report.add(GROUP, "hand-over, two threads", across);
    Ok(())
}

fn alone(enter: impl Fn()) -> f64 {
    cpu_ns_per(ENTRIES, || (0..ENTRIES).for_each(|_| enter()))
}

fn together(enter: impl Fn() + Sync) -> f64 {
    all_cpu_ns_per(2 * ENTRIES, || {
        let all = || (0..ENTRIES).for_each(|_| enter());
        thread::scope(|scope| {
            scope.spawn(all);
            all();
        });
    })
}

/// Every slot is handed over: the holder lets the others come and wait before it goes.
fn hand_over(rounds: usize, far: Option<&Handle>) -> Result<Pair, Failure> {
    let near = runtimes::current_thread()?;
    let gate = Gate::new(1, Fifo::new(RIVALS));
    let semaphore = Arc::new(Semaphore::new(1));
    let ours = || {
        let gate = Arc::clone(&gate);
        async move {
            for _ in 0..TURNS {
                let permit = gate.enter(()).await.expect("there is room for every rival");
                Polls(2).await;
                drop(permit);
            }
        }
    };
    let bare = || {
        let semaphore = Arc::clone(&semaphore);
        async move {
            for _ in 0..TURNS {
                let permit = semaphore.acquire().await.expect("it is never closed");
                Polls(2).await;
                drop(permit);
            }
        }
    };
    let entries = RIVALS * TURNS;
    Ok(match far {
        None => Pair::measure(
            rounds,
            || cpu_ns_per(entries, || rivals(&near, near.handle(), ours)),
            || cpu_ns_per(entries, || rivals(&near, near.handle(), bare)),
        ),
        Some(far) => Pair::measure(
            rounds.min(51),
            || all_cpu_ns_per(entries, || rivals(&near, far, ours)),
            || all_cpu_ns_per(entries, || rivals(&near, far, bare)),
        ),
    })
}

/// Runs all rivals to their end, every other one on `far`.
fn rivals<F>(near: &Runtime, far: &Handle, rival: impl Fn() -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let tasks: Vec<_> =
        (0..RIVALS).map(|n| if n % 2 == 0 { near.spawn(rival()) } else { far.spawn(rival()) }).collect();
    near.block_on(async {
        for task in tasks {
            task.await.expect("a rival does not panic");
        }
    });
}
