//! The writer: follows the index on the disk, in batches, and is the only one to do so.

use std::{
    path::PathBuf,
    sync::{Arc, Weak},
    time::Duration,
};

use cas::Limits;
use ron_kernel::{
    lock::Ranked,
    queue::SharedReceiver,
    readiness::{Condition, Effect},
    supervisor::{TaskCtx, TaskResult},
    topology::{Escalation, Plane, Restart, Stage, TaskSpec},
};
use types::Moment;

use super::{
    ResponseCache,
    disk::{CacheStoreError, Disk, Found},
    journal::{Journal, Unwritten},
};

/// Responses that are written at once.
const BATCH: usize = 64;
/// For how long no response is written after one could not be.
const PAUSE: Duration = Duration::from_secs(10);
/// How often the disk is tried that cannot be used yet.
const TRY_EVERY: Duration = Duration::from_secs(1);

/// The task that writes stored responses to disk.
pub(crate) const CACHE_WRITER: TaskSpec = TaskSpec {
    name: "cache_writer",
    plane: Plane::Control,
    restart: Restart::usual(Escalation::Degrade(Effect::Report)),
    stop: Stage::Writers,
    doc: "writes stored responses and their removals to disk, from which a restart reads them",
};

/// What the writer needs, and keeps if it has to be started again.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) cache: Weak<ResponseCache>,
    pub(super) journal: Arc<Journal>,
    pub(super) inbox: SharedReceiver<Unwritten>,
    pub(super) condition: Condition,
    pub(super) data_dir: PathBuf,
    pub(super) limits: Limits,
    /// `None` as long as it cannot be used, and once it is closed.
    pub(super) disk: Arc<Ranked<Option<Disk>>>,
}

/// Writes until the node stops.
pub(super) async fn run(ctx: TaskCtx, work: Arc<Work>) -> TaskResult {
    let mut writer = Writer { ctx, work, paused_until: Moment::ORIGIN };
    if !writer.has_disk() && !writer.wait_for_disk().await {
        return Ok(());
    }
    // What a writer before this one has begun with.
    writer.round(None).await;
    loop {
        let first = tokio::select! {
            biased;
            () = writer.ctx.stopping() => break,
            () = writer.work.journal.changed() => None,
            first = writer.work.inbox.recv() => Some(first),
        };
        match first {
            Some(None) => return Ok(()),
            Some(first) => writer.round(first).await,
            None => writer.round(None).await,
        };
    }
    writer.finish().await;
    Ok(())
}

struct Writer {
    ctx: TaskCtx,
    work: Arc<Work>,
    /// Until when no response is written.
    paused_until: Moment,
}

impl Writer {
    fn has_disk(&self) -> bool {
        self.work.disk.lock().is_some()
    }

    /// Tries the disk until it can be used; false if the node stops before. What it has then is validated before it is
    /// reused, because others may have changed meanwhile what it says.
    async fn wait_for_disk(&self) -> bool {
        loop {
            tokio::select! {
                biased;
                () = self.ctx.stopping() => return false,
                () = tokio::time::sleep(TRY_EVERY) => {}
            }
            let (data_dir, limits) = (self.work.data_dir.clone(), self.work.limits);
            let open = move || Disk::open(&data_dir, limits);
            match self.ctx.scope.blocking().run("open the cache", open).await {
                Ok(Ok((disk, found))) => {
                    let Some(cache) = self.work.cache.upgrade() else { return false };
                    let found = Found { is_unsure: true, ..found };
                    let begun = cache.begin_on_disk(&self.work, self.ctx.scope.blocking(), disk, found).await;
                    match begun {
                        Ok(()) => return true,
                        Err(why) => self.work.condition.raise(why),
                    }
                }
                Ok(Err(error)) => self.work.condition.raise(reason(&error)),
                Err(error) => self.work.condition.raise(error.to_string()),
            }
        }
    }

    /// Writes a response and whatever else there is by now; whether that was tried.
    async fn round(&mut self, first: Option<Unwritten>) -> bool {
        let mut batch: Vec<Unwritten> = first.into_iter().collect();
        while batch.len() < BATCH
            && let Some(more) = self.work.inbox.try_recv()
        {
            batch.push(more);
        }
        let now = self.ctx.scope.clock().now();
        if now < self.paused_until {
            batch.clear();
        }
        let removals = Arc::new(self.work.journal.begin_removals());
        let (disk, removed, has_written) =
            (Arc::clone(&self.work.disk), Arc::clone(&removals), !batch.is_empty());
        let follow = move || disk.lock().as_mut().map_or(Ok(()), |disk| disk.follow(&removed, &batch));
        let outcome = match self.ctx.scope.blocking().run("write the cache", follow).await {
            Ok(outcome) => outcome,
            Err(error) => {
                // Nothing was done, or not all of it: the removals are begun again.
                self.work.condition.raise(format!("responses are stored in memory only: {error}"));
                tokio::time::sleep(TRY_EVERY).await;
                self.work.journal.try_again();
                return false;
            }
        };
        match outcome {
            Ok(()) if has_written => self.work.condition.clear(),
            Ok(()) => {}
            Err(why) => {
                self.paused_until = now.after(PAUSE);
                self.work.condition.raise(format!("responses are stored in memory only: {why}"));
            }
        }
        self.work.journal.settle(&removals);
        true
    }

    /// Writes what is left, and closes the log.
    async fn finish(&mut self) {
        self.work.inbox.close();
        while let Some(unwritten) = self.work.inbox.recv().await {
            self.round(Some(unwritten)).await;
        }
        self.work.journal.close();
        if !self.round(None).await {
            // Removals are missing: the log does not say that it is complete, and nobody is told that they are done.
            return;
        }
        let disk = Arc::clone(&self.work.disk);
        let close = move || disk.lock().take().map_or(Ok(()), Disk::close);
        if let Ok(Err(error)) = self.ctx.scope.blocking().run("close the cache", close).await {
            tracing::warn!(%error, "the index of the cache could not be closed");
        }
        self.work.journal.end();
    }
}

/// Why responses are stored in memory alone.
pub(super) fn reason(error: &CacheStoreError) -> String {
    format!("responses are stored in memory only: {error}")
}
