//! The kernel's queues against bare tokio channels of the same capacity: one producer task, one consumer task.

mod ends;
mod lane;

use ron_kernel::Scope;
use tokio::{runtime::Handle, sync::mpsc};

use crate::{
    Failure,
    bench_topology::{AWAIT, CAPACITY, DROP_OLDEST, REJECT_NEW, with_scope},
    paired::{Pair, all_cpu_ns_per, cpu_ns_per},
    report::{Group, Report},
    runtimes,
};
use ends::{Receive, Send, Sending, Trying};
use lane::{Item, Lane, Pace};

const GROUP: Group = Group { name: "queue", unit: "ns/item", against: "tokio mpsc", goal: Some(1.3) };

/// How items flow, and over how many threads.
#[derive(Clone, Copy)]
struct Flow {
    name: &'static str,
    items: usize,
    pace: Pace,
    threads: usize,
}

/// The queue is mostly neither empty nor full.
const STREAM: Flow = Flow {
    name: "stream, one thread",
    items: 16_384,
    pace: Pace { window: CAPACITY, stride: 256 },
    threads: 1,
};
/// The consumer sleeps before each item.
const ONE_BY_ONE: Flow =
    Flow { name: "one by one, one thread", items: 4096, pace: Pace { window: 1, stride: 1 }, threads: 1 };
const ACROSS: Flow = Flow { name: "stream, two threads", items: 65_536, threads: 2, ..STREAM };

/// Measures every policy with small and large items.
pub(crate) fn run(rounds: usize, report: &mut Report) -> Result<(), Failure> {
    with_scope(|scope| {
        for flow in [STREAM, ONE_BY_ONE, ACROSS] {
            runtimes::with_far(|far| {
                policies::<u64>(scope, rounds, flow, far, report)?;
                policies::<[u64; 16]>(scope, rounds, flow, far, report)
            })??;
        }
        Ok(())
    })
}

fn policies<T: Item>(
    scope: &Scope,
    rounds: usize,
    flow: Flow,
    far: &Handle,
    report: &mut Report,
) -> Result<(), Failure> {
    let mut row = |what: &str, pair: Pair| {
        let bytes = size_of::<T>();
        report.add(GROUP, format!("{what}, {bytes} B, {}", flow.name), pair);
    };
    let (tx, rx) = scope.queue::<T>(&REJECT_NEW, "");
    let bare = mpsc::channel::<T>(CAPACITY);
    let pair = compare(rounds, flow, far, (Trying(tx), rx), (Trying(bare.0), bare.1))?;
    row("RejectNew try_send", pair);

    let (tx, rx) = scope.queue::<T>(&REJECT_NEW, "");
    let bare = mpsc::channel::<T>(CAPACITY);
    let pair = compare(rounds, flow, far, (Sending(tx), rx), (Trying(bare.0), bare.1))?;
    row("RejectNew send", pair);

    let (tx, rx) = scope.shedding_queue::<T>(&DROP_OLDEST, "", drop);
    let bare = mpsc::channel::<T>(CAPACITY);
    let pair = compare(rounds, flow, far, (Sending(tx), rx), (Trying(bare.0), bare.1))?;
    row("DropOldest send", pair);

    // Only this one is meant to meet a full queue.
    let flow = Flow { pace: if flow.pace.window == 1 { flow.pace } else { Pace::NONE }, ..flow };
    let (tx, rx) = scope.queue::<T>(&AWAIT, "");
    let bare = mpsc::channel::<T>(CAPACITY);
    let pair = compare(rounds, flow, far, (Sending(tx), rx), (Sending(bare.0), bare.1))?;
    row("Await send", pair);
    Ok(())
}

fn compare<T: Item>(
    rounds: usize,
    flow: Flow,
    far: &Handle,
    ours: (impl Send<T>, impl Receive<T>),
    bare: (impl Send<T>, impl Receive<T>),
) -> Result<Pair, Failure> {
    let near = runtimes::current_thread()?;
    let mut ours = Lane::new(ours, flow.items, flow.pace);
    let mut bare = Lane::new(bare, flow.items, flow.pace);
    let pair = if flow.threads == 1 {
        let here = near.handle();
        Pair::measure(
            rounds,
            || cpu_ns_per(flow.items, || ours.round(&near, here)),
            || cpu_ns_per(flow.items, || bare.round(&near, here)),
        )
    } else {
        Pair::measure(
            rounds,
            || all_cpu_ns_per(flow.items, || ours.round(&near, far)),
            || all_cpu_ns_per(flow.items, || bare.round(&near, far)),
        )
    };
    Ok(pair)
}
