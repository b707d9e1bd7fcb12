//! The health reporter: asks what the others depend on whether it answers, and lets old files go.

use std::{sync::Arc, time::Duration};

use ron_kernel::supervisor::{TaskCtx, TaskResult};

use crate::{
    RewarderError, ledger,
    reconcile::Reconciler,
    shared::Shared,
    store::{Record, State},
};

/// Between two questions.
const PERIOD: Duration = Duration::from_secs(2);

/// The reporter.
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
        loop {
            // Each raises its condition when it does not answer, and clears it when it does.
            let _ = self.shared.with_store("ping", |store| store.ping()).await;
            self.tell_of_quarantine().await;
            let _ = ledger::available(&self.shared).await;
            reconciler.step(&self.shared).await;
            if let Err(error) = self.let_go().await {
                tracing::warn!(%error, "old files could not be removed");
            }
            let wake = self.shared.clock.within(PERIOD);
            if self.shared.clock.by(wake, ctx.stopping()).await.is_some() {
                return Ok(());
            }
        }
    }

    /// Tells of epochs that are set aside, also of those that another process or node has: it is the store that knows. It
    /// is never taken back, because no epoch comes back by itself.
    async fn tell_of_quarantine(&self) {
        let found = self.shared.with_store("find quarantined epochs", |store| store.quarantined()).await;
        if let Some(told) = told_of(&found.unwrap_or_default()) {
            self.shared.conditions.quarantine.raise(told);
        }
    }

    /// Removes the files of epochs that are final and older than those to keep.
    async fn let_go(&self) -> Result<(), RewarderError> {
        let keep = self.shared.settings.load().retain_epochs;
        if keep == 0 {
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        let first = shared.windows.epoch_at(shared.unix()).saturating_sub(keep);
        let remove = move || {
            let failed = |error: std::io::Error| RewarderError::Files(error.to_string());
            let old = shared.artifacts.epochs().map_err(failed)?.into_iter().filter(|epoch| *epoch < first);
            for epoch in old {
                let record = shared.store.record(epoch)?;
                // A quarantined epoch is kept until a person has looked.
                if record.is_some_and(|record| record.state == State::Settled) {
                    shared.artifacts.remove(epoch).map_err(failed)?;
                }
            }
            shared.store.prune(first)?;
            Ok(())
        };
        self.shared.scope.blocking().run("remove old files", remove).await?
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
