//! A ledger that is down, slow, full, forgetful about its answers, or that refuses: nothing is lost, nothing is paid twice.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use ron_ledger::{
    Account, AccountId, Amount, Batch, Checkpoint, Key, Ledger, LedgerError, Op, Posted, Refusal, Request,
    Snapshot, SqliteLedger,
};

use crate::support::{Running, Wish, fund};

/// What becomes of a batch before the ledger is itself again.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Trouble {
    /// Posted, and the answer is lost.
    AnswerLost,
    /// Not posted, and nobody knows.
    RequestLost,
    /// No room.
    Full,
    /// Somebody spent the pool.
    Spent,
    /// Refused for good.
    Refused,
}

#[derive(Debug)]
struct Troubled {
    inner: SqliteLedger,
    trouble: Trouble,
    left: AtomicU32,
    posts: AtomicU32,
}

impl Ledger for Troubled {
    fn post(&self, batch: &Batch) -> Result<Posted, LedgerError> {
        if !batch.key().as_str().starts_with("reward/") {
            return self.inner.post(batch);
        }
        self.posts.fetch_add(1, Ordering::SeqCst);
        let troubled =
            self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        if !troubled {
            return self.inner.post(batch);
        }
        let timeout = LedgerError::Timeout { op: Op::Post, after: std::time::Duration::from_secs(5) };
        match self.trouble {
            Trouble::AnswerLost => self.inner.post(batch).and(Err(timeout)),
            Trouble::RequestLost => Err(timeout),
            Trouble::Full => Err(LedgerError::Full("the disk is full".to_owned())),
            Trouble::Spent => Err(LedgerError::Refused(Refusal::Insufficient {
                account: AccountId::new("pool/rewards").unwrap(),
                asked: Amount::from(1000),
                available: 0,
            })),
            Trouble::Refused => Err(LedgerError::Refused(Refusal::BadTime)),
        }
    }

    fn account(&self, id: &AccountId) -> Result<Option<Account>, LedgerError> {
        self.inner.account(id)
    }

    fn request(&self, key: &Key) -> Result<Option<Request>, LedgerError> {
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

fn troubled(trouble: Trouble, times: u32) -> (Arc<Troubled>, Running) {
    let inner = SqliteLedger::in_memory().unwrap();
    let ledger = Arc::new(Troubled { inner, trouble, left: AtomicU32::new(times), posts: AtomicU32::new(0) });
    let running = Running::with(Wish { ledger: Arc::clone(&ledger) as _, ..Wish::default() }, |_| {});
    running.book("alice", 3);
    (ledger, running)
}

#[test]
fn a_batch_whose_outcome_is_unknown_is_sent_again_until_it_is_known() {
    for trouble in [Trouble::AnswerLost, Trouble::RequestLost, Trouble::Full] {
        let (ledger, running) = troubled(trouble, 4);
        running.wait_for(None, "settled");
        assert_eq!(running.balance("actor/alice"), 1000, "{trouble:?}: once, and not less");
        assert_eq!(running.balance("pool/rewards"), 999_000, "{trouble:?}");
        assert_eq!(ledger.posts.load(Ordering::SeqCst), 5, "{trouble:?}: four times in vain, then once");
        crate::support::eventually("the outage is over", || !running.standing().contains("ledger"));
    }
}

#[test]
fn an_outage_shows_in_readiness_and_epochs_wait_for_its_end() {
    let (ledger, running) = troubled(Trouble::RequestLost, u32::MAX);
    running.wait_for(None, "emitting");
    crate::support::eventually("readiness tells", || running.standing().contains("ledger: "));
    let effect = running.scope.readiness().worst(Some("rewarder"));
    assert_eq!(effect, Some(ron_kernel::readiness::Effect::Report), "requests are still taken");
    assert_eq!(running.balance("actor/alice"), 0);
    ledger.left.store(0, Ordering::SeqCst);
    running.wait_for(None, "settled");
    assert_eq!(running.balance("actor/alice"), 1000);
}

#[test]
fn a_pool_that_is_spent_in_between_is_waited_for() {
    let (_, running) = troubled(Trouble::Spent, 2);
    fund(&*running.ledger, "fund/2", 1);
    let epoch = running.wait_for(None, "settled");
    assert_eq!((running.balance("actor/alice"), epoch["reason"].is_null()), (1000, true));
}

#[test]
fn a_batch_that_the_ledger_refuses_for_good_quarantines_its_epoch() {
    let (_, running) = troubled(Trouble::Refused, 1);
    let epoch = running.wait_for(None, "quarantined");
    assert!(epoch["reason"].as_str().unwrap().starts_with("bad_time"), "{epoch}");
    assert_eq!(running.balance("actor/alice"), 0);
}

#[test]
fn a_key_that_means_another_run_is_a_conflict_and_quarantines_the_epoch() {
    let ledger: Arc<dyn Ledger> = Arc::new(SqliteLedger::in_memory().unwrap());
    let wish = Wish { ledger: Arc::clone(&ledger), pool: 0, ..Wish::default() };
    let running = Running::with(wish, |_| {});
    running.book("alice", 3);
    let epoch = running.wait_for(None, "computed")["epoch"].as_u64().unwrap();
    // Somebody has used the key of its first batch for something else, and funds the pool.
    fund(&*ledger, &format!("reward/{epoch}/0"), 5000);
    let epoch = running.wait_for(Some(epoch), "quarantined");
    assert!(epoch["reason"].as_str().unwrap().starts_with("conflict"), "{epoch}");
    let file = format!("/rewarder/epochs/{}/files/quarantine.json", epoch["epoch"]);
    crate::support::eventually("it is written down", || running.get(&file).status == 200);
    let notice = rewards::QuarantineNotice::read(&running.get(&file).body).unwrap();
    assert_eq!((notice.reason.as_str(), notice.intents.get()), ("conflict", 0));
    assert_eq!((running.balance("actor/alice"), running.balance("pool/rewards")), (0, 5000));
}
