//! Orders, crashes and restored backups at the worst moment: nobody is paid twice, and nothing is paid that was taken back.

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
struct Moody {
    inner: SqliteLedger,
    /// Whether a question about the pool waits.
    hesitates: AtomicBool,
    /// Whether batches are posted and their answers are lost.
    loses_answers: AtomicBool,
    /// Whether questions about batches are not answered.
    is_silent: AtomicBool,
}

impl Moody {
    fn new() -> Arc<Self> {
        let inner = SqliteLedger::in_memory().unwrap();
        let [hesitates, loses_answers, is_silent] = [false; 3].map(AtomicBool::new);
        Arc::new(Self { inner, hesitates, loses_answers, is_silent })
    }

    fn paid(&self) -> [i128; 2] {
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

fn moody_stage(minimum: u64) -> (Arc<Moody>, Stage) {
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

fn copy_folder(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let place = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &place);
        } else {
            std::fs::copy(entry.path(), place).unwrap();
        }
    }
}

/// A rewarder whose store is from before epoch 6 and whose ledger is not: bob was paid there what epoch 5 carried over.
fn restored() -> (Arc<Moody>, Stage) {
    let (ledger, stage) = moody_stage(300);
    stage.give(5, 0, &[("alice", 800), ("bob", 200)]);
    stage.compute(5, "settled");
    let (dir, nodes) = stage.stop();
    let backup = tempfile::tempdir().unwrap();
    copy_folder(dir.path(), backup.path());
    let wish = || Wish { ledger: Arc::clone(&ledger) as _, pool: 0, ..Wish::default() };
    let stage = Stage::within(dir, nodes, wish(), 300, Vec::new());
    stage.give(6, 0, &[("alice", 900), ("bob", 100)]);
    stage.compute(6, "settled");
    assert_eq!(ledger.paid(), [1700, 300]);
    let (_, nodes) = stage.stop();
    let stage = Stage::within(backup, nodes, wish(), 300, Vec::new());
    (ledger, stage)
}

#[test]
fn no_run_follows_one_that_the_ledger_contradicts() {
    let (ledger, stage) = restored();
    stage.give(6, 0, &[("alice", 1)]);
    stage.ask_for(6);
    let epoch = stage.running.wait_for(Some(6), "quarantined");
    assert!(epoch["reason"].as_str().unwrap().starts_with("conflict"), "{epoch}");
    stage.give(7, 0, &[("bob", 1)]);
    stage.ask_for(7);
    assert_eq!(stage.submit_order(6, &stage.order(6, Action::Release)), 202);
    let epoch = stage.running.wait_for(Some(6), "quarantined");
    assert!(epoch["reason"].as_str().unwrap().starts_with("conflict"), "{epoch}");
    stage.running.wait_for(Some(7), "computing");
    assert_eq!(ledger.paid(), [1700, 300], "what was carried over is not paid again");
}

#[test]
fn a_run_does_not_skip_an_epoch_that_the_ledger_has_paid() {
    let (ledger, stage) = restored();
    stage.give(8, 0, &[("bob", 1)]);
    stage.ask_for(8);
    let epoch = stage.running.wait_for(Some(8), "quarantined");
    assert!(
        epoch["reason"].as_str().unwrap().starts_with("conflict: the ledger has paid epoch 6"),
        "{epoch}"
    );
    assert_eq!(ledger.paid(), [1700, 300]);
}
