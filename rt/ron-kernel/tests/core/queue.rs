//! Backpressure, to the item: what each policy takes, refuses, drops and tells.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use ron_kernel::{
    Kernel, Scope,
    queue::{Receiver, SendError, Sender},
    topology::{Policy, QueueSpec, Topology},
};
use tokio::time::Instant;

use crate::support::{conduct, kernel_here, queue, stop, topology, until};

const MIN: Duration = Duration::from_millis(50);
const MAX: Duration = Duration::from_millis(150);
const DEADLINE: Duration = Duration::from_millis(100);

const REJECT: QueueSpec = queue("reject", 4, Policy::RejectNew);
const DROP: QueueSpec = queue("drop", 4, Policy::DropOldest);
const RETRY: QueueSpec = queue("retry", 4, Policy::RetryOnce { min: MIN, max: MAX });
const AWAIT: QueueSpec = queue("await", 4, Policy::Await { deadline: DEADLINE });
const UNDECLARED: QueueSpec = queue("undeclared", 4, Policy::RejectNew);

static TOPOLOGY: Topology = topology(&[], &[], &[REJECT, DROP, RETRY, AWAIT]);

fn scope() -> (Kernel, Scope) {
    let kernel = kernel_here();
    let scope = kernel.scope(&TOPOLOGY);
    (kernel, scope)
}

/// What the metrics say was dropped, and how many callers were told that the queue is full.
fn counted(scope: &Scope, spec: &QueueSpec) -> (u64, u64) {
    let metrics = scope.metrics().queue(spec.name, "door");
    (metrics.dropped.get(), metrics.busy.get())
}

async fn full(scope: &Scope, spec: &'static QueueSpec) -> (Sender<u32>, Receiver<u32>) {
    let (tx, rx) = scope.queue(spec, "door");
    for n in 0..4 {
        assert_eq!(tx.send(n).await, Ok(()), "there is room for {n}");
    }
    assert_eq!(counted(scope, spec), (0, 0), "a queue that is exactly full lost nothing");
    (tx, rx)
}

fn taken(rx: &mut Receiver<u32>) -> Vec<u32> {
    std::iter::from_fn(|| rx.try_recv()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_the_newcomer_and_hands_it_back() {
    let (_kernel, scope) = scope();
    let (tx, mut rx) = full(&scope, &REJECT).await;
    let start = Instant::now();
    for n in 4..11 {
        assert_eq!(tx.send(n).await, Err(SendError::Busy(n)));
    }
    assert_eq!(start.elapsed(), Duration::ZERO, "nobody waited");
    assert_eq!(counted(&scope, &REJECT), (7, 7));
    assert_eq!(taken(&mut rx), [0, 1, 2, 3]);
    assert_eq!(tx.send(11).await, Ok(()), "there is room again");
}

#[tokio::test(start_paused = true)]
async fn a_dropping_queue_takes_everything_and_tells_the_owners_of_the_oldest() {
    let (_kernel, scope) = scope();
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let (tx, mut rx) = scope.shedding_queue(&DROP, "door", move |item| tell.lock().unwrap().push(item));
    for n in 0..4 {
        assert_eq!(tx.send(n).await, Ok(()));
    }
    assert!(told.lock().unwrap().is_empty(), "there was room for all of them");
    for n in 4..10 {
        assert_eq!(tx.try_send(n), Ok(()));
    }
    assert_eq!(*told.lock().unwrap(), [0, 1, 2, 3, 4, 5]);
    assert_eq!(taken(&mut rx), [6, 7, 8, 9]);
    assert_eq!(counted(&scope, &DROP), (6, 0), "displaced, but no caller was refused");
}

#[tokio::test(start_paused = true)]
async fn a_retrying_queue_waits_once_within_its_bounds_and_then_refuses() {
    let (_kernel, scope) = scope();
    let (tx, _rx) = full(&scope, &RETRY).await;
    for n in 1..=50 {
        let start = Instant::now();
        assert_eq!(tx.send(9).await, Err(SendError::Busy(9)));
        let waited = start.elapsed();
        // Timers have a resolution of a millisecond.
        assert!(waited >= MIN && waited <= MAX + Duration::from_millis(1), "{waited:?}");
        assert_eq!(counted(&scope, &RETRY), (n, n));
    }
}

#[tokio::test(start_paused = true)]
async fn a_retrying_queue_takes_the_item_if_there_is_room_at_the_second_try_only() {
    let (_kernel, scope) = scope();
    let (tx, mut rx) = full(&scope, &RETRY).await;
    let start = Instant::now();
    let makes_room = async {
        tokio::time::sleep(MIN / 2).await;
        rx.try_recv()
    };
    let (sent, room) = tokio::join!(tx.send(9), makes_room);
    assert_eq!((sent, room), (Ok(()), Some(0)));
    assert!(start.elapsed() >= MIN, "room does not cut the wait short");

    let late = async {
        tokio::time::sleep(MAX + Duration::from_millis(2)).await;
        rx.try_recv()
    };
    let (sent, room) = tokio::join!(tx.send(10), late);
    assert_eq!((sent, room), (Err(SendError::Busy(10)), Some(1)));
    assert_eq!(counted(&scope, &RETRY), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn an_awaiting_queue_takes_the_item_the_moment_there_is_room() {
    let (_kernel, scope) = scope();
    let (tx, mut rx) = full(&scope, &AWAIT).await;
    let last_chance = DEADLINE - Duration::from_millis(1);
    let start = Instant::now();
    let makes_room = async {
        tokio::time::sleep(last_chance).await;
        rx.try_recv()
    };
    let (sent, _) = tokio::join!(tx.send(9), makes_room);
    assert_eq!((sent, start.elapsed()), (Ok(()), last_chance));
    assert_eq!(counted(&scope, &AWAIT), (0, 0));
    assert_eq!(taken(&mut rx), [1, 2, 3, 9]);
}

#[tokio::test(start_paused = true)]
async fn an_awaiting_queue_refuses_at_its_deadline() {
    let (_kernel, scope) = scope();
    let (tx, _rx) = full(&scope, &AWAIT).await;
    let start = Instant::now();
    assert_eq!(tx.send(9).await, Err(SendError::Busy(9)));
    assert_eq!(start.elapsed(), DEADLINE);
    assert_eq!(counted(&scope, &AWAIT), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_waiting_for_room_leaves_no_trace() {
    let (_kernel, scope) = scope();
    let (tx, mut rx) = full(&scope, &AWAIT).await;
    assert!(tokio::time::timeout(DEADLINE / 2, tx.send(9)).await.is_err());
    assert_eq!(taken(&mut rx), [0, 1, 2, 3]);
    assert_eq!(tx.try_send(10), Ok(()), "its place is free again");
    assert_eq!(counted(&scope, &AWAIT), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_closed_queue_hands_the_item_back_and_counts_nothing() {
    let (_kernel, scope) = scope();
    for spec in [&REJECT, &RETRY, &AWAIT] {
        let (tx, mut rx) = scope.queue(spec, "door");
        assert_eq!(tx.send(1).await, Ok(()));
        rx.close();
        assert_eq!(tx.send(2).await, Err(SendError::Closed(2)), "{}", spec.name);
        assert_eq!((rx.recv().await, rx.recv().await), (Some(1), None));
        assert_eq!(counted(&scope, spec), (0, 0), "{}", spec.name);
    }
    let (tx, rx) = scope.shedding_queue(&DROP, "door", |_: u32| ());
    drop(rx);
    assert_eq!(tx.send(2).await, Err(SendError::Closed(2)));
    assert_eq!(counted(&scope, &DROP), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_closes_under_a_waiting_sender_tells_it_at_once() {
    let (_kernel, scope) = scope();
    let (tx, mut rx) = full(&scope, &AWAIT).await;
    let start = Instant::now();
    let closes = async {
        tokio::time::sleep(DEADLINE / 4).await;
        rx.close();
    };
    let (sent, ()) = tokio::join!(tx.send(9), closes);
    assert_eq!((sent, start.elapsed()), (Err(SendError::Closed(9)), DEADLINE / 4));
}

#[tokio::test(start_paused = true)]
async fn the_depth_gauge_sums_the_queues_of_one_declaration_that_exist() {
    let (kernel, scope) = scope();
    let conductor = conduct(kernel);
    let depth = || scope.metrics().queue(REJECT.name, "door").depth.get();
    let (tx, _rx) = full(&scope, &REJECT).await;
    until(|| depth() == 4).await;
    let (second, mut second_rx) = scope.queue(&REJECT, "door");
    second.try_send(1).unwrap();
    until(|| depth() == 5).await;
    let _ = second_rx.try_recv();
    until(|| depth() == 4).await;
    for _ in 0..1000 {
        drop(scope.queue::<u32>(&REJECT, "door"));
    }
    tx.try_send(9).unwrap_err();
    drop(tx);
    until(|| depth() == 0).await;
    stop(&scope, conductor).await;
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_shares_a_queue_gets_each_item_once_and_hears_it_close() {
    let (_kernel, scope) = scope();
    let (tx, rx) = scope.queue::<u32>(&AWAIT, "door");
    let rx = rx.share();
    let pool: Vec<_> = (0..3)
        .map(|_| {
            let rx = rx.clone();
            tokio::spawn(async move {
                let mut got = Vec::new();
                while let Some(item) = rx.recv().await {
                    got.push(item);
                    tokio::task::yield_now().await;
                }
                got
            })
        })
        .collect();
    for n in 0..100 {
        tx.send(n).await.unwrap();
    }
    until(|| tx.is_empty()).await;
    // All of them wait for an item now, and none will come.
    rx.close();
    let mut all = Vec::new();
    for worker in pool {
        all.extend(worker.await.unwrap());
    }
    all.sort_unstable();
    assert_eq!(all, (0..100).collect::<Vec<_>>());
    assert_eq!(tx.send(100).await, Err(SendError::Closed(100)));
}

#[tokio::test]
#[should_panic(expected = "declares no queue `undeclared`")]
async fn a_queue_that_is_not_declared_cannot_be_made() {
    let (_kernel, scope) = scope();
    let _ = scope.queue::<u32>(&UNDECLARED, "door");
}
