//! More than there is room for, and a drain that does not wait: what is refused or lost is told, and counted once.

use std::{
    sync::{Arc, Condvar, Mutex},
    thread,
    time::Duration,
};

use ron_kernel::blocking::BLOCKING_THREADS;
use ron_ledger::{
    Account, AccountId, Batch, Checkpoint, Key, Ledger, LedgerError, Posted, Request, Snapshot, SqliteLedger,
};

use crate::{
    stage::Stage,
    support::{Running, Wish, eventually, metric_of},
};

/// Whatever goes through it waits until it is opened, which it is at the latest when the test ends.
#[derive(Clone, Debug, Default)]
struct Door(Arc<(Mutex<DoorState>, Condvar)>);

#[derive(Debug, Default)]
struct DoorState {
    open: bool,
    waiting: usize,
}

impl Door {
    fn pass(&self) {
        let (state, opened) = &*self.0;
        let mut state = state.lock().unwrap();
        state.waiting += 1;
        let mut state = opened.wait_while(state, |state| !state.open).unwrap();
        state.waiting -= 1;
    }

    fn waiting(&self) -> usize {
        self.0.0.lock().unwrap().waiting
    }

    fn open(&self) {
        self.0.0.lock().unwrap().open = true;
        self.0.1.notify_all();
    }
}

struct OpensAtTheEnd(Door);

impl Drop for OpensAtTheEnd {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// Takes every thread that the store could be asked on.
fn hold_all_threads(running: &Running) -> OpensAtTheEnd {
    let door = Door::default();
    for _ in 0..BLOCKING_THREADS {
        let (pool, door) = (running.scope.blocking().clone(), door.clone());
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            // It ends with the node if that is sooner.
            let _ = runtime.block_on(pool.run("hold a thread", move || door.pass()));
        });
    }
    eventually("all threads are held", || door.waiting() == BLOCKING_THREADS);
    OpensAtTheEnd(door)
}

#[test]
fn when_the_queue_of_requests_is_full_the_next_is_told_to_come_back_and_counted() {
    const CAPACITY: usize = 512;
    let running = Running::with(Wish::default(), |config| config.automatic = false);
    let held = hold_all_threads(&running);
    // Each leaves a request in the queue and is not waited for.
    let compute = || running.ask("POST", "/rewarder/epochs/7/compute", &[("x-request-timeout-ms", "1")], b"");
    let mut late = 0;
    let mut refused = loop {
        let answer = compute();
        if answer.status != 504 {
            break answer;
        }
        late += 1;
        assert!(late <= CAPACITY + 1, "the queue holds {CAPACITY}, and the scheduler one");
    };
    assert!(late >= CAPACITY, "{late}");
    let timeouts = running.metric("io_timeouts_total{node=\"test\",service=\"rewarder\",op=\"rpc\"}");
    assert_eq!(timeouts, late as f64, "each of those was told, and counted");
    for times in 1..=3 {
        assert_eq!((refused.status, refused.reason().as_str()), (429, "busy"), "{refused:?}");
        assert_eq!(refused.header("retry-after"), "1");
        let labels = "node=\"test\",service=\"rewarder\"";
        let busy = format!("busy_rejections_total{{{labels},endpoint=\"compute\",queue=\"work_req\"}}");
        let dropped = format!("queue_dropped_total{{{labels},queue=\"work_req\"}}");
        assert_eq!([&busy, &dropped].map(|name| running.metric(name)), [f64::from(times); 2]);
        refused = compute();
    }
    drop(held);
    eventually("there is room again", || {
        running.ask("POST", "/rewarder/epochs/7/compute", &[], b"").status == 404
    });
}

/// A ledger that does not say which run follows which until its door is opened.
#[derive(Debug)]
struct Hesitant {
    inner: SqliteLedger,
    door: Door,
}

impl Ledger for Hesitant {
    fn post(&self, batch: &Batch) -> Result<Posted, LedgerError> {
        self.inner.post(batch)
    }

    fn account(&self, id: &AccountId) -> Result<Option<Account>, LedgerError> {
        self.inner.account(id)
    }

    fn request(&self, key: &Key) -> Result<Option<Request>, LedgerError> {
        if key.as_str().starts_with("reward/") {
            self.door.pass();
        }
        self.inner.request(key)
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>, LedgerError> {
        self.inner.snapshot()
    }

    fn keep_checkpoint(&self, checkpoint: &Checkpoint) -> Result<(), LedgerError> {
        self.inner.keep_checkpoint(checkpoint)
    }

    fn fill(&self, from: &mut dyn Snapshot) -> Result<(), LedgerError> {
        self.inner.fill(from)
    }
}

#[test]
fn a_result_in_the_hands_of_a_writer_that_is_aborted_is_counted_as_dropped() {
    let door = Door::default();
    let _end = OpensAtTheEnd(door.clone());
    let ledger = Arc::new(Hesitant { inner: SqliteLedger::in_memory().unwrap(), door: door.clone() });
    let wish = Wish { ledger, drain_deadline: Duration::from_millis(500), ..Wish::default() };
    let stage = Stage::with(wish, 0);
    let scope = stage.running.scope.clone();
    let dropped = || metric_of(&scope, "dropped_results_total{node=\"test\",service=\"rewarder\"}");
    stage.give(5, 0, &[("alice", 1)]);
    stage.ask_for(5);
    eventually("the writer waits for the ledger", || door.waiting() > 0);
    assert_eq!(dropped(), 0.0);
    let (dir, nodes) = stage.stop();
    assert_eq!(dropped(), 1.0);
    door.open();
    // The next process finds it, and pays it.
    let stage = Stage::within(dir, nodes, Wish::default(), 0, Vec::new());
    stage.running.wait_for(Some(5), "settled");
    assert_eq!(
        metric_of(&stage.running.scope, "dropped_results_total{"),
        0.0,
        "counted by each process on its own"
    );
}
