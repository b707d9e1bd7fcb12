//! Live configuration: read, checked, prepared by every part, and only then put into force, whole or not at all.
//!
//! A part that needs something for the new configuration, such as a socket or certificates, gets it in
//! [`Reconfigure::prepare`], which may fail. When all parts are prepared, each commits, which cannot fail. If one part
//! refuses, what the others prepared is dropped and the old configuration stays in force untouched.

mod desk;
mod named_files;
mod watch;

use std::{path::PathBuf, pin::Pin, sync::Arc, time::Duration};

use crate::{
    Scope, audit,
    bus::KernelEvent,
    config::{Change, ConfigStore, Report, Snapshot},
    readiness::{Condition, Effect},
};

pub use desk::{NoReload, Outcome, ReloadDesk};
pub use named_files::{FilesOf, NamedFiles};
pub use watch::{Contents, LookAt, start};

/// Puts a prepared part of a configuration into force. Must not fail and must not block.
pub type Commit = Box<dyn FnOnce() + Send>;
/// A part's preparation in progress.
pub type Preparing<'a> = Pin<Box<dyn Future<Output = Result<Commit, String>> + Send + 'a>>;

/// A part of the node that follows the configuration.
pub trait Reconfigure: Send + Sync {
    /// Gets everything the new configuration needs, changing nothing yet; the error says what is wrong and what to
    /// do about it.
    fn prepare(&self, new: Arc<Snapshot>) -> Preparing<'_>;
}

/// Why a configuration was not put into force.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The file is wrong.
    #[error("{}", .0.render(false))]
    Invalid(#[from] Report),
    /// The file is right, but a part cannot follow it.
    #[error("{0}")]
    Refused(String),
}

/// What one reading of the sources gave.
#[derive(Debug)]
pub enum Reading {
    /// The configuration, from a source that is not being written.
    Settled(Snapshot),
    /// The source changed since the last reading, or may be half written: read it again a little later.
    Unsettled,
}

/// Reads the configuration again from all its sources. Blocking.
pub type Read = Arc<dyn Fn() -> Result<Reading, ReloadError> + Send + Sync>;

/// Who asks for the reload with which a node begins to watch its files: whoever changed them since they were read.
const AT_START: &str = "change of the file during start";
/// The time between two readings of a source that is being written.
pub const READ_AGAIN: Duration = Duration::from_millis(100);
/// How often one reload reads a source that does not settle.
const MAX_READINGS: u32 = 50;
/// After how long a reload that has not ended counts as failed, until it ends.
const SLOW: Duration = Duration::from_secs(30);

/// Applies new configurations. One task owns it, so reloads never overlap.
pub struct Reloader {
    scope: Scope,
    store: Arc<ConfigStore>,
    /// What the node started with, and still runs with where a change needs a restart.
    started_with: Arc<Snapshot>,
    read: Read,
    parts: Vec<Arc<dyn Reconfigure>>,
    /// `None` if nobody asks which files changed.
    named_files: Option<NamedFiles>,
    bad_reload: Condition,
    restart_needed: Condition,
}

impl Reloader {
    /// A reloader of `parts`, in the order in which they commit.
    #[must_use]
    pub fn new(scope: &Scope, store: Arc<ConfigStore>, read: Read, parts: Vec<Arc<dyn Reconfigure>>) -> Self {
        Self {
            bad_reload: scope.condition("bad_reload", Effect::Report, Duration::ZERO),
            restart_needed: scope.condition("restart_needed", Effect::Report, Duration::ZERO),
            scope: scope.clone(),
            started_with: store.current(),
            store,
            read,
            parts,
            named_files: None,
        }
    }

    /// The same, which also tells which of the files that the configuration names have changed.
    #[must_use]
    pub fn telling_of(mut self, named_files: NamedFiles) -> Self {
        self.named_files = Some(named_files);
        self
    }

    /// The generation of the configuration in force.
    fn generation(&self) -> u64 {
        self.store.current().generation()
    }

    /// Reads the configuration and puts it into force. `actor` says who or what asked for it, for the audit trail.
    ///
    /// Cancel safe: dropped before it commits, it changes nothing.
    ///
    /// # Errors
    /// [`ReloadError`]; the old configuration is then in force, and readiness and metrics tell.
    pub async fn reload(&self, actor: &str) -> Result<(), ReloadError> {
        let before = self.store.current().generation();
        let outcome = self.reload_telling_delay().await;
        self.note(actor, before, &outcome);
        match outcome {
            Ok(_) => {
                self.scope.all_metrics().families().config_reload_failed.set(0);
                self.bad_reload.clear();
                Ok(())
            }
            Err(error) => {
                let problem = error.to_string();
                tracing::error!(problem, "the configuration was refused; the old one stays in force");
                self.tell_failure(problem.clone());
                self.scope.bus().publish(KernelEvent::ConfigRefused { problem });
                Err(error)
            }
        }
    }

    /// Reloads. While that takes too long, because a file system does not answer, readiness, metrics and the log tell: nobody
    /// else would notice that the revocations of today are not in force.
    async fn reload_telling_delay(&self) -> Result<Vec<PathBuf>, ReloadError> {
        let mut reload = std::pin::pin!(self.try_reload());
        if let Ok(outcome) = tokio::time::timeout(SLOW, &mut reload).await {
            return outcome;
        }
        let problem = format!(
            "a reload has not ended after {} s, and nothing newer is read until it does: a file or a server that the \
             configuration names does not answer",
            SLOW.as_secs()
        );
        tracing::error!(problem, "the old configuration stays in force");
        self.tell_failure(problem);
        reload.await
    }

    fn tell_failure(&self, problem: String) {
        self.scope.all_metrics().families().config_reload_failed.set(1);
        self.bad_reload.raise(problem);
    }

    /// Adds the reload to the audit trail, unless nobody asked for it and it changed nothing.
    fn note(&self, actor: &str, before: u64, outcome: &Result<Vec<PathBuf>, ReloadError>) {
        let generation = self.store.current().generation();
        match outcome {
            Ok(files) if generation == before && files.is_empty() => {
                if actor != AT_START {
                    tracing::info!(target: audit::TARGET, action = "reload", actor, outcome = "unchanged", generation);
                }
            }
            Ok(files) => {
                let detail = changed_files(files);
                let detail = detail.as_deref();
                tracing::info!(
                    target: audit::TARGET, action = "reload", actor, outcome = "applied", generation, detail
                );
            }
            Err(error) => {
                let detail = error.to_string();
                tracing::info!(target: audit::TARGET, action = "reload", actor, outcome = "refused", detail);
            }
        }
    }

    /// Returns the named files that changed.
    async fn try_reload(&self) -> Result<Vec<PathBuf>, ReloadError> {
        let new = self.read_settled().await.inspect_err(|error| {
            if let ReloadError::Invalid(report) = error {
                self.store.reject(report.clone());
            }
        })?;
        let named = match &self.named_files {
            Some(named) => Some((named, named.look(&self.scope, &new).await)),
            None => None,
        };
        let mut commits = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            commits.push(part.prepare(Arc::clone(&new)).await.map_err(ReloadError::Refused)?);
        }
        commits.into_iter().for_each(|commit| commit());
        self.put_into_force(&new);
        let changed = named.map(|(named, seen)| named.put_into_force(seen)).unwrap_or_default();
        if let Some(changed) = changed_files(&changed) {
            tracing::info!(changed, "files were read again");
        }
        Ok(changed)
    }

    /// Reads the sources until they have settled. Waits between two readings without holding a thread.
    async fn read_settled(&self) -> Result<Arc<Snapshot>, ReloadError> {
        for _ in 0..MAX_READINGS {
            let read = Arc::clone(&self.read);
            let reading = self.scope.blocking().run("read the configuration", move || read()).await;
            match reading.map_err(|error| ReloadError::Refused(error.to_string()))?? {
                Reading::Settled(snapshot) => return Ok(Arc::new(snapshot)),
                Reading::Unsettled => tokio::time::sleep(READ_AGAIN).await,
            }
        }
        Err(ReloadError::Refused(
            "the configuration file keeps changing: write it whole, best under another name and then rename it"
                .to_owned(),
        ))
    }

    fn put_into_force(&self, new: &Snapshot) {
        let changes = new.diff(&self.store.current());
        // The parts may have read other files again, but this is no other configuration.
        if changes.is_empty() && self.store.last_error().is_none() {
            return;
        }
        self.store.replace(new);
        if !changes.is_empty() {
            self.announce(changes);
        }
    }

    fn announce(&self, changes: Vec<Change>) {
        let new = self.store.current();
        self.tell_restart(&new);
        self.scope.all_metrics().families().config_update.inc();
        let changed: Vec<String> = changes.into_iter().map(|c| c.path).collect();
        tracing::info!(generation = new.generation(), changed = changed.join(", "), "configuration applied");
        self.scope.bus().publish(KernelEvent::ConfigApplied { generation: new.generation(), changed });
    }

    /// Readiness tells for as long as the node does not run with what is configured; a change taken back clears it.
    fn tell_restart(&self, new: &Snapshot) {
        let changes = new.diff(&self.started_with);
        let restart: Vec<&str> = changes.iter().filter(|c| c.restart).map(|c| c.path.as_str()).collect();
        if restart.is_empty() {
            self.restart_needed.clear();
            return;
        }
        let keys = restart.join(", ");
        tracing::warn!(keys, "these settings take effect after a restart");
        self.restart_needed.raise(format!("restart to apply {keys}"));
    }
}

/// The files that changed, for a person to read; `None` if there are none.
fn changed_files(files: &[PathBuf]) -> Option<String> {
    let shown: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
    (!shown.is_empty()).then(|| format!("changed files: {}", shown.join(", ")))
}

impl std::fmt::Debug for Reloader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Reloader(generation {})", self.store.current().generation())
    }
}
