//! The health reporter: asks what the others depend on whether it answers, and lets old files go.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use ron_kernel::supervisor::{TaskCtx, TaskResult};

use crate::{
    RewarderError,
    build::keep_all,
    ledger, payouts,
    reconcile::Reconciler,
    repair,
    shared::Shared,
    store::{EpochStore, Record},
};

/// Interval between two checks.
const PERIOD: Duration = Duration::from_secs(2);

/// The task that checks the ledger and the store.
#[derive(Clone, Debug)]
pub(crate) struct Health {
    pub(crate) shared: Arc<Shared>,
}

impl Health {
    /// Runs until everything else has stopped.
    ///
    /// Cancel safe.
    pub(crate) async fn run(self, ctx: TaskCtx) -> TaskResult {
        let mut reconciler = Reconciler::default();
        let mut is_tidy = false;
        loop {
            // Each raises its condition when it does not answer, and clears it when it does.
            let _ = self.shared.with_store("ping", |store| store.ping()).await;
            self.keep_policies().await;
            self.tell_of_quarantine().await;
            self.tell_of_parked().await;
            self.tell_of_late().await;
            self.tell_of_failing();
            let _ = ledger::available(&self.shared).await;
            let is_complete = reconciler.step(&self.shared).await;
            if !is_tidy {
                is_tidy = self.tidy().await;
            }
            // An epoch that is retired cannot be posted again.
            if is_complete && let Err(error) = self.retire().await {
                tracing::warn!(%error, "epochs could not be retired");
            }
            if let Err(error) = self.let_go().await {
                tracing::warn!(%error, "old files could not be removed");
            }
            let wake = self.shared.clock.within(PERIOD);
            if self.shared.clock.by(wake, ctx.stopping()).await.is_some() {
                return Ok(());
            }
        }
    }

    /// Tidies the files of epochs up that a process before this one has left. Says whether all were looked at.
    async fn tidy(&self) -> bool {
        let (store, artifacts) = (self.shared.store.clone(), self.shared.artifacts.clone());
        let registry = Arc::clone(&self.shared.registry);
        let tidy = move || -> Result<(), RewarderError> {
            let epochs = artifacts.epochs().map_err(|error| RewarderError::Files(error.to_string()))?;
            for epoch in epochs {
                // Whoever has the epoch in work writes its files.
                let Some(_claim) = registry.claim(epoch) else { continue };
                match repair::tidy(&store, &artifacts, epoch) {
                    Err(RewarderError::Files(error)) => tracing::warn!(error, "files could not be tidied up"),
                    other => other?,
                }
            }
            Ok(())
        };
        matches!(self.shared.call("tidy files up", tidy).await, Ok(Ok(())))
    }

    /// Keeps policies that could not be kept when they were read, because the store did not answer.
    async fn keep_policies(&self) {
        let documents = self.shared.unkept_policies.lock().clone();
        if documents.is_empty() {
            return;
        }
        let (store, settings) = (self.shared.store.clone(), self.shared.settings.load_full());
        let keep = move || keep_all(&store, &settings, documents);
        match self.shared.call("keep policies", keep).await {
            Ok(Ok(unkept)) => {
                *self.shared.unkept_policies.lock() = unkept;
                self.shared.due.notify_one();
            }
            Ok(Err(error)) => self.shared.conditions.policy.raise(error.to_string()),
            Err(error) => tracing::warn!(%error, "policies could not be stored"),
        }
    }

    /// Tells of epochs that are set aside, until they are taken up again; also of those that another process or node has
    /// set aside: it is the store that knows.
    async fn tell_of_quarantine(&self) {
        let found = self.shared.with_store("find quarantined epochs", |store| store.quarantined()).await;
        let Ok(found) = found else { return };
        match told_of(&found) {
            Some(told) => self.shared.conditions.quarantine.raise(told),
            None => self.shared.conditions.quarantine.clear(),
        }
    }

    /// Tells of snapshots of epochs that are too old to be closed automatically.
    async fn tell_of_late(&self) {
        let shared = &self.shared;
        let settings = shared.settings.load_full();
        if !settings.automatic || !shared.may_be_late.swap(false, Ordering::AcqRel) {
            return;
        }
        let recent = shared.first_recent();
        let find = move |store: &EpochStore| store.unclosed_before(store.first_to_close(recent)?);
        let Ok(found) = shared.with_store("find late snapshots", find).await else {
            return shared.may_be_late.store(true, Ordering::Release);
        };
        let counts = |node: &str| node.parse().is_ok_and(|node| settings.nodes.contains(&node));
        let late: BTreeSet<u64> =
            found.into_iter().filter(|(_, node)| counts(node)).map(|(epoch, _)| epoch).collect();
        match late.last() {
            Some(epoch) => shared.conditions.late_snapshots.raise(format!(
                "{} epochs have snapshots that came too late to be closed automatically, the latest is {epoch}: \
                 `omnigate epoch compute` closes one",
                late.len()
            )),
            None => shared.conditions.late_snapshots.clear(),
        }
    }

    /// Tells of epochs that could not be computed, and are tried again.
    fn tell_of_failing(&self) {
        match self.shared.registry.failing(self.shared.clock.now()) {
            Some(told) => self.shared.conditions.compute.raise(told),
            None => self.shared.conditions.compute.clear(),
        }
    }

    /// Tells of payouts that are kept for receivers that cannot be paid, until they were moved on.
    async fn tell_of_parked(&self) {
        let found = self.shared.with_store("find parked payouts", |store| store.parked()).await;
        let Ok(found) = found else { return };
        let mut told = Vec::new();
        for record in found {
            let epoch = record.epoch;
            if self.is_released(epoch).await {
                let _ = self.shared.with_store("note a release", move |store| store.released(epoch)).await;
            } else {
                told.push(record);
            }
        }
        match told_of(&told) {
            Some(said) => self.shared.conditions.parked.raise(said),
            None => self.shared.conditions.parked.clear(),
        }
    }

    /// Whether an epoch's parked payouts are known to have been moved on.
    async fn is_released(&self, epoch: u64) -> bool {
        match payouts::parked(&self.shared, epoch).await {
            Ok(Some(parked)) => payouts::is_released(&self.shared, &parked).await.unwrap_or(false),
            _ => false,
        }
    }

    /// Retires epochs that are settled and older than those to keep, and removes the rows of retired ones.
    async fn retire(&self) -> Result<(), RewarderError> {
        let keep = self.shared.settings.load().retain_epochs;
        let (shared, unix) = (Arc::clone(&self.shared), self.shared.unix().as_secs());
        let window = shared.windows.duration().as_secs().saturating_mul(keep);
        let retire = move || {
            if keep > 0 && shared.store.retire(keep, unix.saturating_sub(window), unix)? > 0 {
                shared.store.prune()?;
            }
            Ok(())
        };
        self.shared.call("retire epochs", retire).await?
    }

    /// Removes the files of retired epochs, which another node may have retired.
    async fn let_go(&self) -> Result<(), RewarderError> {
        let shared = Arc::clone(&self.shared);
        let remove = move || {
            let failed = |error: std::io::Error| RewarderError::Files(error.to_string());
            let mut here = shared.artifacts.epochs().map_err(failed)?;
            here.sort_unstable();
            // One question, however many epochs are kept.
            let (Some(first), Some(last)) = (here.first(), here.last()) else { return Ok(()) };
            for epoch in shared.store.retired(*first, *last)? {
                if here.binary_search(&epoch).is_ok() {
                    shared.artifacts.remove(epoch).map_err(failed)?;
                }
            }
            Ok(())
        };
        self.shared.call("remove old files", remove).await?
    }
}

/// What readiness says of epochs that are set aside, the latest first: its reason, and the numbers of the others.
fn told_of(epochs: &[Record]) -> Option<String> {
    let (last, others) = epochs.split_first()?;
    let reason = last.reason.as_deref().unwrap_or("no reason is noted");
    let told = format!("epoch {}: {reason}", last.epoch);
    if others.is_empty() {
        return Some(told);
    }
    let numbers: Vec<String> = others.iter().map(|record| record.epoch.to_string()).collect();
    Some(format!("{told}; also {}", numbers.join(", ")))
}
