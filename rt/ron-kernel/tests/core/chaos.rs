//! Chaos: half of the workers are killed at once under load; nothing is lost without being told, and the service
//! is whole again. How soon is asserted on a clock that a test sets, in `supervisor.rs`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ron_kernel::{
    ExitCode, Scope,
    bus::KernelEvent,
    planes::RuntimeMode,
    queue::{SendError, Sender},
    readiness::Effect,
    supervisor::TaskState,
    topology::{Escalation, Policy, QueueSpec, Restart, Stage, TaskSpec, Topology},
};
use tokio::{sync::oneshot, task::JoinSet};

use crate::support::{
    PATIENCE, SERVICE, conduct, kernel, queue, state, stop, task, topology, until, wait_for,
};

const WORKERS: usize = 8;
const WORKER: TaskSpec =
    task("worker", Restart::usual(Escalation::Degrade(Effect::ShedWrites)), Stage::Workers);
const WORK: QueueSpec = queue("work", 64, Policy::RejectNew);

static TOPOLOGY: Topology = topology(&[WORKER], &[], &[WORK]);

/// An item of work: where to answer.
type Item = oneshot::Sender<()>;

#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    sent: usize,
    answered: usize,
    /// Refused by the full queue.
    refused: usize,
    /// Accepted, but the worker died with it: the dropped reply tells.
    lost: usize,
}

/// Sends an item every half millisecond until told to stop, and accounts for each.
async fn load(work: Sender<Item>, mut enough: oneshot::Receiver<()>) -> Tally {
    let mut tally = Tally::default();
    let mut replies = JoinSet::new();
    let mut pace = tokio::time::interval(Duration::from_micros(500));
    while enough.try_recv().is_err_and(|e| e == oneshot::error::TryRecvError::Empty) {
        pace.tick().await;
        let (item, reply) = oneshot::channel();
        tally.sent += 1;
        match work.send(item).await {
            Ok(()) => drop(replies.spawn(reply)),
            Err(SendError::Busy(_)) => tally.refused += 1,
            Err(SendError::Closed(_)) => panic!("the queue outlives its workers"),
        }
    }
    while let Some(reply) = replies.join_next().await {
        match reply.unwrap() {
            Ok(()) => tally.answered += 1,
            Err(_) => tally.lost += 1,
        }
    }
    tally
}

/// Starts the workers; their queue, and how many items they have answered.
fn start_workers(scope: &Scope) -> (Sender<Item>, Arc<AtomicUsize>) {
    let (work, items) = scope.queue::<Item>(&WORK, "door");
    let (items, answered) = (items.share(), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&answered);
    scope.pool(&WORKER, WORKERS, move |ctx| {
        let (items, count) = (items.clone(), Arc::clone(&count));
        async move {
            loop {
                tokio::select! {
                    () = ctx.stopping() => return Ok(()),
                    item = items.recv() => {
                        let Some(reply) = item else { return Ok(()) };
                        tokio::time::sleep(Duration::from_millis(1)).await;
                        let _ = reply.send(());
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        }
    });
    (work, answered)
}

fn running(scope: &Scope) -> usize {
    (0..WORKERS).filter(|n| state(scope, &format!("worker#{n}")).0 == TaskState::Running).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_of_the_workers_killed_under_load_come_back_and_every_item_is_accounted_for() {
    let kernel = kernel(RuntimeMode::PerCore, PATIENCE);
    let scope = kernel.scope(&TOPOLOGY);
    let (work, answered) = start_workers(&scope);
    let conductor = conduct(kernel);
    let mut events = scope.bus().subscribe();
    let (enough, told) = oneshot::channel();
    let load = tokio::spawn(load(work, told));
    until(|| scope.metrics().tasks("worker").spawned.get() == WORKERS as u64).await;
    until(|| answered.load(Ordering::Relaxed) > 50).await;

    for n in 0..WORKERS / 2 {
        assert!(scope.supervisor().kill(SERVICE, &format!("worker#{n}")));
    }
    let about = |e: &KernelEvent, standing: bool| {
        matches!(e, KernelEvent::Condition { service: SERVICE, name: "lost_workers", effect, .. }
            if (*effect == Some(Effect::ShedWrites)) == standing)
    };
    wait_for(&mut events, |e| about(e, true)).await;
    wait_for(&mut events, |e| about(e, false)).await;
    assert_eq!(scope.readiness().worst(Some(SERVICE)), None);
    assert_eq!(running(&scope), WORKERS);

    until(|| answered.load(Ordering::Relaxed) > 100).await;
    enough.send(()).unwrap();
    let tally = load.await.unwrap();
    assert_eq!(tally.sent, tally.answered + tally.refused + tally.lost, "{tally:?}");
    assert!(tally.lost <= WORKERS / 2, "a worker holds one item: {tally:?}");
    assert!(tally.answered > 100, "{tally:?}");
    let dropped = scope.metrics().queue("work", "door").dropped.get();
    assert_eq!(dropped, tally.refused as u64);
    let exit = stop(&scope, conductor).await;
    assert_eq!((exit.code, running(&scope)), (ExitCode::Clean, 0), "{exit}");
}
