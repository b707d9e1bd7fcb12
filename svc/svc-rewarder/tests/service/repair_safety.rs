//! Orders and crashes at the worst moment: nobody is paid twice, and nothing is paid that was taken back.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use rewards::Action;
use ron_ledger::{
    Account, AccountId, Batch, Checkpoint, Key, Ledger, LedgerError, Op, Posted, Request, Snapshot,
    SqliteLedger,
};

use crate::{
    stage::{Stage, actor},
    support::{Wish, eventually},
};

/// A ledger that can be made to hesitate, or to lose answers.
#[derive(Debug)]
pub(crate) struct Moody {
    inner: SqliteLedger,
    /// Whether a question about the pool waits.
    pub(crate) hesitates: AtomicBool,
    /// Whether batches are on their way for long.
    is_slow: AtomicBool,
    /// Whether batches are posted and their answers are lost.
    loses_answers: AtomicBool,
    /// Whether questions about batches are not answered.
    is_silent: AtomicBool,
    /// Whether it is a ledger of a program that does not tell it which run follows which.
    pub(crate) is_old: AtomicBool,
}

impl Moody {
    fn new() -> Arc<Self> {
        let inner = SqliteLedger::in_memory().unwrap();
        let [hesitates, is_slow, loses_answers, is_silent, is_old] = [false; 5].map(AtomicBool::new);
        Arc::new(Self { inner, hesitates, is_slow, loses_answers, is_silent, is_old })
    }

    pub(crate) fn paid(&self) -> [i128; 2] {
        ["actor/alice", "actor/bob"].map(|name| {
            let account = self.inner.account(&AccountId::new(name).unwrap()).unwrap();
            account.map_or(0, |account| account.balance)
        })
    }
}

fn timeout() -> LedgerError {
    LedgerError::Timeout { op: Op::Post, after: std::time::Duration::from_secs(5) }
}

impl Ledger for Moody {
    fn post(&self, batch: &Batch) -> Result<Posted, LedgerError> {
        if self.is_old.load(Ordering::SeqCst) && batch.key().as_str().starts_with("reward/chain/") {
            let elsewhere = Key::new(&format!("untold/{}", batch.key())).unwrap();
            let steps = batch.steps().to_vec();
            return self.inner.post(&Batch::new(elsewhere, batch.reference().clone(), 1, steps).unwrap());
        }
        eventually("the batch arrives", || !self.is_slow.load(Ordering::SeqCst));
        let posted = self.inner.post(batch);
        if self.loses_answers.load(Ordering::SeqCst) && batch.key().as_str().starts_with("reward/") {
            return posted.and(Err(timeout()));
        }
        posted
    }

    fn account(&self, id: &AccountId) -> Result<Option<Account>, LedgerError> {
        eventually("the ledger answers", || !self.hesitates.load(Ordering::SeqCst));
        self.inner.account(id)
    }

    fn request(&self, key: &Key) -> Result<Option<Request>, LedgerError> {
        if self.is_silent.load(Ordering::SeqCst) { Err(timeout()) } else { self.inner.request(key) }
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

pub(crate) fn moody_stage(minimum: u64) -> (Arc<Moody>, Stage) {
    let ledger = Moody::new();
    let stage = Stage::with(Wish { ledger: Arc::clone(&ledger) as _, ..Wish::default() }, minimum);
    (ledger, stage)
}

#[test]
fn a_run_that_was_taken_back_while_it_was_about_to_be_paid_is_not_paid() {
    let (ledger, stage) = moody_stage(0);
    stage.give(5, 0, &[("alice", 1)]);
    stage.give(5, 1, &[("bob", 3)]);
    ledger.hesitates.store(true, Ordering::SeqCst);
    let before = stage.compute(5, "computed");
    let node = actor(&stage.nodes[1].node().to_string());
    assert_eq!(stage.submit_order(5, &stage.order(5, Action::Hold)), 202);
    assert_eq!(stage.submit_order(5, &stage.order(5, Action::Exclude(node))), 202);
    eventually("another run stands", || {
        let epoch = stage.running.get("/rewarder/epochs/5").json();
        epoch["state"] == "computed" && epoch["commitment"] != before.commitment().to_string()
    });
    ledger.hesitates.store(false, Ordering::SeqCst);
    stage.running.wait_for(Some(5), "settled");
    assert_eq!(ledger.paid(), [1000, 0]);
}

#[test]
fn an_epoch_whose_first_batch_is_on_its_way_is_not_computed_anew() {
    let (ledger, stage) = moody_stage(0);
    stage.give(5, 0, &[("alice", 1)]);
    stage.give(5, 1, &[("bob", 3)]);
    ledger.is_slow.store(true, Ordering::SeqCst);
    stage.compute(5, "emitting");
    assert_eq!(stage.submit_order(5, &stage.order(5, Action::Hold)), 202);
    let node = actor(&stage.nodes[1].node().to_string());
    assert_eq!(stage.submit_order(5, &stage.order(5, Action::Exclude(node))), 409);
    ledger.is_slow.store(false, Ordering::SeqCst);
    eventually("the batch has arrived", || ledger.paid() == [250, 750]);
    assert_eq!(stage.submit_order(5, &stage.order(5, Action::Release)), 202);
    stage.running.wait_for(Some(5), "settled");
    stage.give(6, 0, &[("alice", 1)]);
    stage.compute(6, "settled");
    assert_eq!(ledger.paid(), [1250, 750], "the chain goes on");
}

#[test]
fn an_epoch_of_which_the_ledger_has_batches_is_not_computed_anew_whatever_the_store_notes() {
    let (ledger, stage) = moody_stage(0);
    stage.give(5, 0, &[("alice", 1)]);
    stage.give(5, 1, &[("bob", 3)]);
    ledger.loses_answers.store(true, Ordering::SeqCst);
    stage.compute(5, "emitting");
    eventually("it is paid and not noted", || ledger.paid() == [250, 750]);
    assert_eq!(stage.submit_order(5, &stage.order(5, Action::Hold)), 202);
    ledger.loses_answers.store(false, Ordering::SeqCst);
    let node = actor(&stage.nodes[1].node().to_string());
    let exclude = stage.order(5, Action::Exclude(node));
    ledger.is_silent.store(true, Ordering::SeqCst);
    assert_eq!(stage.submit_order(5, &exclude), 503, "nobody knows what was paid");
    ledger.is_silent.store(false, Ordering::SeqCst);
    eventually("the ledger is asked again", || {
        let status = stage.submit_order(5, &exclude);
        assert_ne!(status, 202);
        status == 409
    });
    assert_eq!(stage.submit_order(5, &stage.order(5, Action::Release)), 202);
    stage.running.wait_for(Some(5), "settled");
    assert_eq!(ledger.paid(), [250, 750], "once");
}
