//! A ledger that hangs: it takes few threads, so that the rest of the node goes on, and the rewarder does when it answers again.

use std::{
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ron_ledger::{
    Account, AccountId, Batch, Checkpoint, Key, Ledger, LedgerError, Posted, Request, Snapshot, SqliteLedger,
};

use crate::support::{Running, Wish, eventually};

/// A ledger that answers nothing while it hangs.
#[derive(Debug)]
struct Hanging {
    inner: SqliteLedger,
    hangs: Mutex<bool>,
    goes_on: Condvar,
    waiting: AtomicUsize,
}

impl Hanging {
    fn set(&self, hangs: bool) {
        *self.hangs.lock().unwrap() = hangs;
        self.goes_on.notify_all();
    }

    /// The ledger, once it does not hang.
    fn there(&self) -> &SqliteLedger {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        drop(self.goes_on.wait_while(self.hangs.lock().unwrap(), |hangs| *hangs).unwrap());
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        &self.inner
    }
}

impl Ledger for Hanging {
    fn post(&self, batch: &Batch) -> Result<Posted, LedgerError> {
        self.there().post(batch)
    }

    fn account(&self, id: &AccountId) -> Result<Option<Account>, LedgerError> {
        self.there().account(id)
    }

    fn request(&self, key: &Key) -> Result<Option<Request>, LedgerError> {
        self.there().request(key)
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>, LedgerError> {
        self.there().snapshot()
    }

    fn keep_checkpoint(&self, checkpoint: &Checkpoint) -> Result<(), LedgerError> {
        self.there().keep_checkpoint(checkpoint)
    }

    fn fill(&self, from: &mut dyn Snapshot) -> Result<(), LedgerError> {
        self.there().fill(from)
    }
}

#[test]
fn a_ledger_that_hangs_leaves_threads_for_the_rest_of_the_node() {
    let inner = SqliteLedger::in_memory().unwrap();
    let (hangs, goes_on, waiting) = (Mutex::new(false), Condvar::new(), AtomicUsize::new(0));
    let ledger = Arc::new(Hanging { inner, hangs, goes_on, waiting });
    let running = Running::with(Wish { ledger: Arc::clone(&ledger) as _, ..Wish::default() }, |config| {
        config.read_timeout = Duration::from_millis(300).into();
    });
    running.book("alice", 3);
    let epoch = running.wait_for(None, "settled")["epoch"].as_u64().unwrap();
    ledger.set(true);
    for _ in 0..20 {
        assert_eq!(running.get(&format!("/rewarder/epochs/{epoch}/reconcile")).status, 503);
    }
    let stuck = ledger.waiting.load(Ordering::SeqCst);
    assert!((1..=3).contains(&stuck), "{stuck} calls wait for it");
    let free = running.scope.blocking().run("something else", || 7);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert_eq!(runtime.block_on(free).unwrap(), 7);
    ledger.set(false);
    eventually("the rewarder goes on", || {
        running.get(&format!("/rewarder/epochs/{epoch}/reconcile")).status == 200
    });
}
