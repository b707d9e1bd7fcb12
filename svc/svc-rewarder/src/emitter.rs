//! The intent emitter: computed epochs become batches in the ledger, one after the other, until each is settled.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use rewards::{Amount, Intent, Linked, Manifest, Residual, Run};
use ron_kernel::{
    queue::SharedReceiver,
    supervisor::{TaskCtx, TaskResult},
};

use crate::{
    RewarderError,
    calculus::Outcome,
    crash, files,
    ledger::{self, NotPaid},
    links,
    metrics::{RewarderMetrics, Status},
    payouts,
    registry::Progress,
    shared::Shared,
    store::{Changed, EpochStore, Record, State},
};

/// Between two looks at what is to be paid, unless the bell rings.
const PERIOD: Duration = Duration::from_secs(1);
/// Intents that are made at once: a thousand transfers each.
const GROUP: usize = 64;

/// What became of an epoch that was to be paid.
enum Paid {
    /// Everything is in the ledger.
    Settled,
    /// The pool is empty, as the text says.
    Unfunded(String),
    /// It is set aside, or comes again.
    NotNow,
}

/// Epochs that the pool could not pay, each with its commitment and what it needs, so that they are not computed again before
/// there is enough.
type Needs = BTreeMap<u64, (String, u128)>;

/// Epochs whose needs are remembered; others are computed again to know theirs.
const MAX_NEEDS: usize = 1024;

/// The task that posts payouts to the ledger.
#[derive(Clone, Debug)]
pub(crate) struct Emitter {
    pub(crate) shared: Arc<Shared>,
    pub(crate) bell: SharedReceiver<u64>,
}

impl Emitter {
    /// Runs until the node stops. A batch that is on its way is waited for; the rest is found by the next process.
    ///
    /// Cancel safe: what was sent and is not noted is sent again, under the same key.
    pub(crate) async fn run(self, ctx: TaskCtx) -> TaskResult {
        let mut needs = Needs::new();
        loop {
            self.pay_all(&ctx, &mut needs).await;
            let wake = self.shared.clock.within(PERIOD);
            tokio::select! {
                biased;
                () = ctx.stopping() => return Ok(()),
                _ = self.shared.clock.by(wake, self.bell.recv()) => {}
            }
        }
    }

    async fn pay_all(&self, ctx: &TaskCtx, needs: &mut Needs) {
        let (mut unfunded, mut settled, mut first) = (None, false, 0);
        loop {
            let find = move |store: &EpochStore| store.to_pay(first);
            let records = match self.shared.with_store("find epochs to pay", find).await {
                Ok(records) => records,
                Err(error) => return tracing::warn!(%error, "epochs to pay could not be found"),
            };
            let Some(last) = records.last() else { break };
            // Without the ledger nothing can be paid, and nothing has to be computed for it.
            if let Err(NotPaid::Outage(why)) = ledger::available(&self.shared).await {
                return tracing::warn!(why, "the ledger does not answer; epochs wait");
            }
            first = last.epoch.saturating_add(1);
            for record in records {
                if ctx.scope.shutdown().is_draining() {
                    return;
                }
                let epoch = record.epoch;
                match self.pay(&record, needs).await {
                    Ok(Paid::Settled) => settled = true,
                    Ok(Paid::Unfunded(why)) => unfunded = Some(format!("epoch {epoch}: {why}")),
                    Ok(Paid::NotNow) => {}
                    Err(error) => {
                        tracing::warn!(epoch, %error, "an epoch could not be paid; it is retried");
                    }
                }
            }
        }
        match unfunded {
            Some(why) => self.shared.conditions.unfunded.raise(why),
            None => self.shared.conditions.unfunded.clear(),
        }
        // Once for all of them, however many an outage has kept waiting.
        if settled {
            ledger::sign(&self.shared).await;
        }
    }

    /// Pays an epoch as far as possible.
    async fn pay(&self, listed: &Record, needs: &mut Needs) -> Result<Paid, RewarderError> {
        let epoch = listed.epoch;
        let known = needs.get(&epoch).filter(|(run, _)| Some(run) == listed.commitment.as_ref());
        if let Some((_, needed)) = known.filter(|_| listed.state == State::Computed) {
            match self.check_funds(*needed).await {
                Err(NotPaid::Unfunded(why)) => {
                    return self.wait_for_funds(listed, why).await.map(Paid::Unfunded);
                }
                Err(_) => return Ok(Paid::NotNow),
                Ok(()) => {}
            }
        }
        needs.remove(&epoch);
        let Some((record, run)) = self.run_of(epoch).await? else { return Ok(Paid::NotNow) };
        let outcome = match self.post_all(&record, &run).await? {
            Ok(is_alone) => match self.settle(&run, is_alone).await? {
                Changed::Now => Paid::Settled,
                Changed::Before => Paid::NotNow,
            },
            Err(NotPaid::Unfunded(why)) => {
                if needs.len() < MAX_NEEDS {
                    needs.insert(epoch, (run.commitment().to_string(), to_transfer(&run)));
                }
                Paid::Unfunded(self.wait_for_funds(&record, why).await?)
            }
            Err(NotPaid::Never(code, why) | NotPaid::Receiver { code, why, .. }) => {
                files::quarantine(&self.shared, epoch, code, &why).await?;
                return Ok(Paid::NotNow);
            }
            Err(NotPaid::Outage(why)) => {
                tracing::warn!(epoch, why, "the ledger does not answer; the epoch waits");
                Paid::NotNow
            }
        };
        if !matches!(outcome, Paid::Settled) {
            self.shared.registry.keep(epoch, run);
        }
        Ok(outcome)
    }

    /// What the store says of an epoch that is to be paid; `None` if it is not to be paid any more.
    async fn to_pay(&self, epoch: u64) -> Result<Option<Record>, RewarderError> {
        let record = self.shared.with_store("find epoch", move |store| store.record(epoch)).await?;
        Ok(record.filter(|record| matches!(record.state, State::Computed | State::Emitting)))
    }

    /// The run of an epoch: as it was just computed, or computed again, which comes to the same. With what the store says of
    /// the epoch after that, because orders may have come meanwhile.
    async fn run_of(&self, epoch: u64) -> Result<Option<(Record, Arc<Run>)>, RewarderError> {
        let shared = &self.shared;
        let Some(before) = self.to_pay(epoch).await? else { return Ok(None) };
        // A run that is kept here may be one that was taken back elsewhere: then it says nothing.
        if let Some(run) = shared.registry.take(epoch)
            && is_of(&before, &run)
        {
            return Ok(Some((before, run)));
        }
        let calculus = shared.calculus();
        let again = move || calculus.run(epoch, &Progress::default());
        let outcome = shared.scope.blocking().run("compute epoch again", again).await??;
        let Some(record) = self.to_pay(epoch).await? else { return Ok(None) };
        if record.commitment != before.commitment {
            return Ok(None);
        }
        match outcome {
            Outcome::Run(run) if is_of(&record, &run) => Ok(Some((record, Arc::new(*run)))),
            Outcome::Run(run) => {
                let (now, before) = (run.commitment(), record.commitment);
                let why = format!("it comes to {now} now, and came to {before:?} before");
                files::quarantine(shared, epoch, "other_run", &why).await?;
                Ok(None)
            }
            Outcome::Quarantine(wrong) => {
                files::quarantine(shared, epoch, wrong.code(), &wrong.to_string()).await?;
                Ok(None)
            }
        }
    }

    /// Posts every batch that is not noted as posted. Says whether these are all there are.
    async fn post_all(
        &self,
        record: &Record,
        run: &Arc<Run>,
    ) -> Result<Result<bool, NotPaid>, RewarderError> {
        let (shared, epoch) = (&self.shared, record.epoch);
        // Only before the first: from then on the pool has been spent from.
        if record.state == State::Computed
            && let Err(missing) = self.check_funds(to_transfer(run)).await
        {
            return Ok(Err(missing));
        }
        if record.state == State::Computed
            && let Err(never) = self.check_sums(run).await?
        {
            return Ok(Err(never));
        }
        if let Err(not_paid) = links::post_before(shared, epoch).await? {
            return Ok(Err(not_paid));
        }
        crash::point("emit.before_update");
        let commitment = run.commitment().to_string();
        let named = commitment.clone();
        let begin = move |store: &EpochStore| store.emitting(epoch, &named);
        if shared.with_store("begin to pay", begin).await? == Changed::Before {
            return Ok(Ok(false));
        }
        crash::point("emit.after_update");
        // Not before the epoch is emitting: an order may take the run back until then, and another may follow instead.
        if let Err(not_paid) = links::post(shared, run).await {
            return Ok(Err(not_paid));
        }
        let mut posted = record.posted;
        while posted < record.batches {
            let (from, run) = (posted, Arc::clone(run));
            let group = shared.scope.blocking().run("make intents", move || intents(&run, from)).await?;
            if group.is_empty() {
                let why = format!("it has {} batches, and {posted} of them can be made", record.batches);
                return Ok(Err(NotPaid::Never("batches_missing", why)));
            }
            for intent in group {
                if let Err(not_paid) = payouts::post(shared, &intent).await? {
                    return Ok(Err(not_paid));
                }
                posted += 1;
                let named = commitment.clone();
                let note = move |store: &EpochStore| store.posted(epoch, &named, posted);
                let noted = shared.with_store("note a batch", note).await?;
                crash::point("batch.after_update");
                // It was set aside meanwhile, has another run, or another process is ahead: the store says what is left to
                // do. So no batch is sent of a run that was taken back before the batch ahead of it was noted.
                if noted == Changed::Before {
                    return Ok(Ok(false));
                }
            }
        }
        Ok(Ok(record.posted == 0))
    }

    /// Whether what is about to be paid, kept and carried over is what there is to divide, to the last unit; published before it
    /// is judged.
    async fn check_sums(&self, run: &Arc<Run>) -> Result<Result<(), NotPaid>, RewarderError> {
        let checked = Arc::clone(run);
        let add_up = move || {
            let sums = checked.batches().map(|intent| intent.sum());
            conservation_delta(divided(checked.manifest()), unpaid(&checked), sums)
        };
        let delta = self.shared.scope.blocking().run("add an epoch up", add_up).await?;
        Ok(judge_sums(&self.shared.metrics, delta))
    }

    /// Whether the pool's account can pay so much. Somebody may spend it meanwhile; then the ledger refuses.
    async fn check_funds(&self, needed: u128) -> Result<(), NotPaid> {
        if needed == 0 {
            return Ok(());
        }
        let there = ledger::available(&self.shared).await?;
        match there {
            Some(available) if u128::try_from(available).is_ok_and(|available| available >= needed) => Ok(()),
            Some(available) => {
                Err(NotPaid::Unfunded(format!("{needed} are needed, and {available} are there")))
            }
            None => Err(NotPaid::Unfunded("the pool has no account in the ledger".to_owned())),
        }
    }

    async fn wait_for_funds(&self, record: &Record, why: String) -> Result<String, RewarderError> {
        let (epoch, said) = (record.epoch, format!("unfunded: {why}"));
        if record.reason.as_deref() != Some(&said) {
            self.shared.metrics.ended(Status::Unfunded);
            let noted = said.clone();
            self.shared
                .with_store("note what it waits for", move |store| store.waits_for(epoch, &noted))
                .await?;
        }
        Ok(why)
    }

    /// Settles an epoch if every batch is posted. Unless this process has posted all of them, what others have parked is
    /// looked for in the ledger.
    async fn settle(&self, run: &Run, is_alone: bool) -> Result<Changed, RewarderError> {
        crash::point("settle.before_update");
        let (epoch, commitment) = (run.epoch().number(), run.commitment().to_string());
        if !is_alone {
            match self.to_pay(epoch).await? {
                Some(record) if record.posted == record.batches => payouts::recall(&self.shared, run).await?,
                _ => return Ok(Changed::Before),
            }
        }
        let unix = self.shared.unix().as_secs();
        let parked = payouts::parked(&self.shared, epoch).await?.map(|parked| payouts::noted(&parked));
        let settle = move |store: &EpochStore| store.settled(epoch, &commitment, unix, parked.as_deref());
        let settled = self.shared.with_store("settle epoch", settle).await?;
        if settled == Changed::Now {
            crash::point("settle.after_update");
            self.shared.metrics.ended(Status::Settled);
            tracing::info!(epoch, "an epoch is settled");
        }
        Ok(settled)
    }
}

/// Whether a run is the one that the store says an epoch came to.
fn is_of(record: &Record, run: &Run) -> bool {
    record.commitment.as_deref() == Some(run.commitment().to_string().as_str())
}

/// The next intents from a batch on.
fn intents(run: &Run, from: u64) -> Vec<Intent> {
    run.batches().skip(usize::try_from(from).unwrap_or(usize::MAX)).take(GROUP).collect()
}

/// What a run divides: the pool, and what it takes over from before.
fn divided(manifest: &Manifest) -> i128 {
    let taken =
        |linked: &Linked| signed(linked.brought.carried.amount).saturating_add(signed(linked.credited));
    signed(manifest.pool).saturating_add(manifest.linked.as_ref().map_or(0, taken))
}

/// What of that stays in the pool's account, or is carried over to the next run.
fn unpaid(run: &Run) -> i128 {
    let manifest = run.manifest();
    let kept = match &run.policy().terms().residual {
        Residual::Pay(_) => Amount::ZERO,
        Residual::Keep => manifest.residual,
    };
    let carried = manifest.linked.as_ref().map_or(Amount::ZERO, |linked| linked.carried_out.amount);
    signed(kept).saturating_add(signed(carried))
}

fn signed(amount: Amount) -> i128 {
    i128::try_from(amount.minor()).unwrap_or(i128::MAX)
}

/// What there is to divide more than batches with these sums pay and than stays.
fn conservation_delta(divided: i128, unpaid: i128, batches: impl Iterator<Item = Amount>) -> i128 {
    let paid = batches.fold(0_i128, |sum, batch| sum.saturating_add(signed(batch)));
    divided.saturating_sub(unpaid).saturating_sub(paid)
}

/// Publishes what there is to divide more than is about to be paid, kept and carried over, and refuses to pay unless that is
/// nothing.
fn judge_sums(metrics: &RewarderMetrics, delta: i128) -> Result<(), NotPaid> {
    metrics.conservation(delta);
    if delta == 0 {
        return Ok(());
    }
    let why = format!("there is {delta} more to divide than is to be paid, kept and carried over");
    Err(NotPaid::Never("conservation", why))
}

/// What leaves the pool's account for a run.
fn to_transfer(run: &Run) -> u128 {
    let manifest = run.manifest();
    let residual = match &run.policy().terms().residual {
        Residual::Pay(_) => manifest.residual,
        Residual::Keep => Amount::ZERO,
    };
    manifest.paid.minor().saturating_add(residual.minor())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use ron_kernel::Kernel;

    #[test]
    fn sums_that_do_not_close_are_published_and_nothing_is_paid() {
        let kernel = Kernel::builder("test").build().unwrap();
        let scope = kernel.scope(&crate::TOPOLOGY);
        let metrics = RewarderMetrics::new(&scope);
        let far = i128::from(i64::MAX) + 1;
        for (delta, told) in [(3, 3), (0, 0), (-1, -1), (far, i64::MAX), (-far - 1, i64::MIN), (0, 0)] {
            match judge_sums(&metrics, delta) {
                Ok(()) => assert_eq!(delta, 0),
                Err(NotPaid::Never("conservation", why)) => {
                    assert!(delta != 0 && why.contains(&format!("there is {delta} more")), "{why}");
                }
                Err(other) => panic!("{other:?}"),
            }
            let text = scope.all_metrics().prometheus_text();
            let line =
                format!("reward_conservation_delta_minor{{node=\"test\",service=\"rewarder\"}} {told}\n");
            assert!(text.contains(&line), "{line} in\n{text}");
        }
    }

    #[test]
    fn batches_that_do_not_add_up_to_the_pool_show_by_how_much() {
        let delta = |divided: i128, unpaid: i128, batches: &[u64]| {
            conservation_delta(divided, unpaid, batches.iter().map(|batch| Amount::from(*batch)))
        };
        assert_eq!(delta(10, 1, &[4, 5]), 0);
        assert_eq!(delta(10, 0, &[4, 5]), 1, "one is left over");
        assert_eq!(delta(10, 1, &[4, 6]), -1, "one is paid twice");
        assert_eq!(delta(0, 0, &[]), 0);
        assert_eq!(delta(10, 0, &[]), 10, "nobody is paid");
    }
}
