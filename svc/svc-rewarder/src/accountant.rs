//! The accountant: what was used is written down every second, and sealed when its epoch is over.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use rewards::SnapshotSeal;
use ron_accounting::{Accounts, AccountsError, Corrected, Flushed, Sealed};
use ron_kernel::{
    lock::Ranked,
    supervisor::{TaskCtx, TaskResult},
};

use crate::{
    RewarderError, crash,
    epoch_clock::{Judged, Watch, shifted},
    policies,
    shared::Shared,
    store::{EpochStore, Listed},
};

/// Between two writes: what a crash can lose.
const PERIOD: Duration = Duration::from_secs(1);
/// How many of the last epochs others are told of again after a start.
const LAST: u32 = 8;

/// The task that records usage and seals epochs.
#[derive(Clone, Debug)]
pub(crate) struct Accountant {
    pub(crate) shared: Arc<Shared>,
    /// Nobody else locks it; it outlives an accountant that dies.
    pub(crate) accounts: Arc<Ranked<Accounts>>,
}

impl Accountant {
    /// Runs until the requests of the node are done, and then writes down what they used.
    ///
    /// Cancel safe: a write that is cut off is made up for by the next.
    pub(crate) async fn run(self, ctx: TaskCtx) -> TaskResult {
        let mut watch = Watch::default();
        self.compare_with_what_is_written().await;
        if let Err(error) = self.tell_again().await {
            tracing::warn!(%error, "the last snapshots could not be announced again");
        }
        loop {
            self.keep_time(&mut watch).await;
            self.turn().await;
            let wake = self.shared.clock.within(self.until_next());
            if self.shared.clock.by(wake, ctx.stopping()).await.is_some() {
                self.turn().await;
                return Ok(());
            }
        }
    }

    /// A second, or until the epoch ends, so that the line is drawn there.
    fn until_next(&self) -> Duration {
        let (windows, unix) = (&self.shared.windows, self.shared.unix());
        windows.end(windows.epoch_at(unix)).saturating_sub(unix).min(PERIOD)
    }

    /// Writes down what was used, and seals what is over.
    async fn turn(&self) {
        let condition = &self.shared.conditions.accounting;
        let due = match self.flush().await {
            Ok((flushed, due)) => {
                self.publish(&flushed);
                due
            }
            Err(error) => return condition.raise(error.to_string()),
        };
        for epoch in due {
            if let Err(error) = self.seal(epoch).await {
                tracing::error!(epoch, %error, "an epoch could not be sealed; it is tried again");
                return condition.raise(format!("epoch {epoch}: {error}"));
            }
        }
        match self.tell().await {
            Ok(()) => {}
            Err(error) => return condition.raise(error.to_string()),
        }
        if let Err(error) = self.list_again().await {
            return condition.raise(error.to_string());
        }
        match self.let_go().await {
            Ok(()) => condition.clear(),
            Err(error) => condition.raise(error.to_string()),
        }
    }

    /// Says so if an earlier process has written usage of an epoch that has not begun.
    async fn compare_with_what_is_written(&self) {
        let accounts = Arc::clone(&self.accounts);
        let look = move || accounts.lock().written_ahead();
        let (windows, present) = (&self.shared.windows, self.shared.windows.epoch_at(self.shared.unix()));
        if let Ok(Ok(Some(last))) =
            self.shared.scope.blocking().run("compare with what is written", look).await
        {
            let told = format!(
                "usage of epoch {last} is written down, and now is epoch {present}: the clock was ahead then, or is \
                 behind now"
            );
            tracing::warn!(last, present, "{told}");
            self.shared.clock_told(told, windows.end(last.saturating_sub(1)));
        }
    }

    /// Compares the time that epochs follow with the wall clock, and follows it.
    async fn keep_time(&self, watch: &mut Watch) {
        let (shared, epochs) = (&self.shared, &self.shared.epoch_clock);
        let ahead = epochs.wall_is_ahead();
        let seconds = Duration::from_nanos(ahead.unsigned_abs()).as_secs();
        let side = if ahead < 0 { "behind" } else { "ahead of" };
        match watch.judge(ahead, shared.clock.now()) {
            Judged::Agrees => {
                epochs.follow(ahead);
                shared.clock_agrees();
            }
            Judged::Doubtful => {
                let told = format!("the wall clock is {seconds} s {side} the time that epochs follow");
                shared.clock_told(told, Duration::ZERO);
            }
            Judged::Stepped => {
                let accounts = Arc::clone(&self.accounts);
                let (before, after) = (epochs.unix(), shifted(epochs.unix(), ahead));
                let correct = move || accounts.lock().correct(before, after);
                let corrected = shared.scope.blocking().run("correct the clock", correct).await;
                let corrected = corrected.map_err(RewarderError::from).and_then(|done| done.map_err(failed));
                match corrected {
                    Ok(corrected) => {
                        epochs.follow(ahead);
                        let told = step_told(seconds, ahead < 0, corrected);
                        tracing::warn!(seconds, "{told}");
                        shared.clock_told(told, shared.windows.end(shared.windows.epoch_at(shared.unix())));
                    }
                    Err(error) => shared.conditions.accounting.raise(error.to_string()),
                }
            }
        }
    }

    /// Forgets the usage of retired epochs.
    async fn let_go(&self) -> Result<(), RewarderError> {
        if self.shared.settings.load().retain_epochs == 0 {
            return Ok(());
        }
        let (accounts, store) = (Arc::clone(&self.accounts), self.shared.store.clone());
        let first = self.shared.windows.epoch_at(self.shared.unix());
        let forget = move || -> Result<(), RewarderError> {
            let old = accounts.lock().prunable(first).map_err(failed)?;
            for epoch in old {
                // In their order: what waits to be paid may have to be computed again.
                if store.record(epoch)?.is_none_or(|record| record.retired_at.is_none()) {
                    break;
                }
                accounts.lock().prune(epoch).map_err(failed)?;
            }
            Ok(())
        };
        self.shared.call_in_time("forget old usage", forget).await
    }

    async fn flush(&self) -> Result<(Flushed, Vec<u64>), RewarderError> {
        let (accounts, unix) = (Arc::clone(&self.accounts), self.shared.unix());
        let readings = self.shared.scope.meters().totals();
        let flush = move || -> Result<_, AccountsError> {
            let mut accounts = accounts.lock();
            let flushed = accounts.flush(readings, unix)?;
            Ok((flushed, accounts.due(unix)?, accounts.quarantined_rows()?))
        };
        let flushed = self.shared.scope.blocking().run("write usage down", flush).await?;
        let (flushed, due, quarantined) = flushed.map_err(failed)?;
        let condition = &self.shared.conditions.late_usage;
        if quarantined == 0 {
            condition.clear();
        } else {
            condition.raise(format!(
                "{quarantined} rows of usage are quarantined, because no epoch can take them: `omnigate epoch usage \
                 --quarantined` shows them"
            ));
        }
        Ok((flushed, due))
    }

    fn publish(&self, flushed: &Flushed) {
        let metrics = &self.shared.metrics;
        metrics.epoch.set(i64::try_from(flushed.epoch).unwrap_or(i64::MAX));
        metrics.rows.inc_by(flushed.rows);
        metrics.late_rows.inc_by(flushed.late);
    }

    async fn seal(&self, epoch: u64) -> Result<(), RewarderError> {
        let accounts = Arc::clone(&self.accounts);
        let seal = move || accounts.lock().seal(epoch, crash::point).map(drop);
        self.shared.scope.blocking().run("seal epoch", seal).await?.map_err(failed)?;
        tracing::info!(epoch, "this node's usage is sealed");
        self.shared.store_may_lack.store(true, Ordering::Release);
        Ok(())
    }

    /// Lists snapshots of this node again that the store has lost: it may be restored from an older backup, or be a standby
    /// that lacked the last of what its primary had. Only those of epochs that are closed automatically.
    async fn list_again(&self) -> Result<(), RewarderError> {
        let (accounts, shared) = (Arc::clone(&self.accounts), Arc::clone(&self.shared));
        let (node, recent) = (shared.key.node(), shared.first_recent());
        if !shared.store_may_lack.swap(false, Ordering::AcqRel)
            || !shared.settings.load().nodes.contains(&node)
        {
            return Ok(());
        }
        let list_again = move || -> Result<u64, RewarderError> {
            let (name, first) = (node.to_string(), shared.store.first_to_close(recent)?);
            let told = accounts.lock().told_from(first, &name).map_err(failed)?;
            let (listed, mut again) = (shared.store.listed_by(&name, first)?, 0);
            for epoch in told.into_iter().filter(|epoch| !listed.contains(epoch)) {
                let sealed = accounts.lock().sealed(epoch);
                match sealed {
                    Ok(Some((sealed, rows))) => {
                        list(&shared.store, &sealed.seal, sealed.object.to_string(), Some(&rows))?;
                        again += 1;
                    }
                    Ok(None) => {}
                    Err(error) => tracing::warn!(epoch, %error, "a snapshot cannot be listed again"),
                }
            }
            Ok(again)
        };
        match self.shared.call_in_time("list snapshots again", list_again).await {
            Ok(0) => Ok(()),
            Ok(again) => {
                tracing::warn!(
                    "the epoch store had lost {again} snapshots of this node; they are listed again"
                );
                self.shared.may_be_late.store(true, Ordering::Release);
                self.shared.due.notify_one();
                Ok(())
            }
            Err(error) => {
                self.shared.store_may_lack.store(true, Ordering::Release);
                Err(error)
            }
        }
    }

    /// Tells others of the last epochs again: who announces for us may have forgotten with the process before.
    async fn tell_again(&self) -> Result<(), RewarderError> {
        let (accounts, shared) = (Arc::clone(&self.accounts), Arc::clone(&self.shared));
        let tell = move || -> Result<(), RewarderError> {
            // However long ago they were: who counts may still wait for them.
            let last = accounts.lock().latest(LAST).map_err(failed)?;
            for epoch in last.into_iter().rev() {
                let sealed = accounts.lock().sealed(epoch);
                match sealed {
                    Ok(Some((sealed, rows))) => shared.list(&sealed, &rows)?,
                    Ok(None) => {}
                    Err(error) => tracing::warn!(epoch, %error, "a snapshot cannot be announced again"),
                }
            }
            Ok(())
        };
        self.shared.call_in_time("tell of snapshots", tell).await
    }

    /// Lists what is sealed and tells others of it, as often as it takes.
    async fn tell(&self) -> Result<(), RewarderError> {
        let (accounts, shared) = (Arc::clone(&self.accounts), Arc::clone(&self.shared));
        let tell = move || -> Result<(usize, Option<AccountsError>), RewarderError> {
            let untold = accounts.lock().untold().map_err(failed)?;
            let mut lost = None;
            for epoch in &untold {
                let sealed = accounts.lock().sealed(*epoch);
                match sealed {
                    Ok(Some((sealed, rows))) => {
                        shared.list(&sealed, &rows)?;
                        accounts.lock().told(*epoch).map_err(failed)?;
                    }
                    Ok(None) => {}
                    // One epoch must not keep the others from being told of.
                    Err(error) => drop(lost.get_or_insert(error)),
                }
            }
            Ok((untold.len(), lost))
        };
        // In time: what is used meanwhile has to be written down, whether or not the store answers.
        let (told, lost) = self.shared.call_in_time("list snapshots", tell).await?;
        if told > 0 {
            self.shared.may_be_late.store(true, Ordering::Release);
            self.shared.due.notify_one();
        }
        lost.map_or(Ok(()), |error| Err(failed(error)))
    }
}

/// What is said of a wall clock that was set.
fn step_told(seconds: u64, back: bool, corrected: Option<Corrected>) -> String {
    let side = if back { "ahead" } else { "behind" };
    let done = match corrected {
        None => "no usage is affected".to_owned(),
        Some(Corrected::Moved(rows)) => format!("{rows} rows of usage are booked in the present epoch now"),
        Some(Corrected::Quarantined(rows)) => format!("{rows} rows of usage are quarantined"),
        Some(Corrected::Sealed) => "the usage since is sealed, and stays in its epoch".to_owned(),
    };
    format!("the clock was {seconds} s {side}, and is followed now: {done}")
}

fn failed(error: AccountsError) -> RewarderError {
    RewarderError::Files(error.to_string())
}

impl Shared {
    /// Says something of the clock, until a time.
    fn clock_told(&self, told: String, until: Duration) {
        *self.clock_told_until.lock() = until;
        self.conditions.clock.raise(told);
    }

    /// The clock agrees; what was said of it stands until its time.
    fn clock_agrees(&self) {
        if self.unix() >= *self.clock_told_until.lock() {
            self.conditions.clock.clear();
        }
    }

    /// Lists this node's snapshot, if it counts, and tells others of it. Blocking.
    fn list(&self, sealed: &Sealed, rows: &[u8]) -> Result<(), RewarderError> {
        if self.settings.load().nodes.contains(&self.key.node()) {
            list(&self.store, &sealed.seal, sealed.object.to_string(), Some(rows))?;
        }
        if let Some(announce) = &self.announce {
            announce.announce(sealed, rows);
        }
        crash::point("seal.after_announce");
        Ok(())
    }
}

/// Lists a snapshot that was checked, with its rows if its epoch may be computed from them. Blocking. Says whether it, and no
/// other of its node, is listed.
pub(crate) fn list(
    store: &EpochStore,
    seal: &SnapshotSeal,
    object: String,
    rows: Option<&[u8]>,
) -> Result<bool, RewarderError> {
    let (node, document) = (seal.snapshot.node.to_string(), policies::text(&seal.to_bytes()));
    let listed = Listed { node, document, object };
    Ok(store.list_snapshot(seal.snapshot.epoch.number(), &listed, rows)? == listed.document)
}
