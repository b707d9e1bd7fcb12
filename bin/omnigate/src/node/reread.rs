//! Reading the configuration again while the node runs.

use std::sync::{Arc, Mutex, PoisonError};

use ron_kernel::{
    config::Snapshot,
    reload::{Commit, Preparing, Read, Reading, Reconfigure, ReloadError},
};

use super::settle::{Look, Settling};
use crate::config_file::{ConfigSource, StartConfig};

/// The configuration's sources, as a part of the node: it remembers the text of the file that is in force.
pub(super) struct Reread {
    source: ConfigSource,
    settling: Arc<Mutex<Settling>>,
}

impl Reread {
    pub(super) fn new(source: ConfigSource, started_with: &StartConfig) -> Arc<Self> {
        if let Some(doubt) = started_with.file_text.as_ref().and_then(|text| super::settle::doubt(text)) {
            tracing::warn!("the configuration file {} may not be whole: {doubt}", source.name());
        }
        let settling = Settling::new(started_with.file_text.clone());
        Arc::new(Self { source, settling: Arc::new(Mutex::new(settling)) })
    }

    /// The reader for the reloader, which must have this as one of its parts.
    pub(super) fn reader(self: &Arc<Self>) -> Read {
        let this = Arc::clone(self);
        Arc::new(move || this.read())
    }

    fn read(&self) -> Result<Reading, ReloadError> {
        let gone = |problem| ReloadError::Refused(format!("{problem}: put it back, or restart with another"));
        let text = self.source.read_file().map_err(gone)?;
        let Some(text) = text else {
            return Ok(Reading::Settled(self.source.load_from(None)?));
        };
        match lock(&self.settling).look(&text) {
            Look::Again => Ok(Reading::Unsettled),
            Look::Doubtful(doubt) => {
                Err(ReloadError::Refused(format!("the configuration file {}: {doubt}", self.source.name())))
            }
            Look::Settled => Ok(Reading::Settled(self.source.load_from(Some(&text))?)),
        }
    }
}

impl Reconfigure for Reread {
    fn prepare(&self, _new: Arc<Snapshot>) -> Preparing<'_> {
        let settling = Arc::clone(&self.settling);
        Box::pin(async move {
            let commit: Commit = Box::new(move || lock(&settling).put_into_force());
            Ok(commit)
        })
    }
}

fn lock(settling: &Mutex<Settling>) -> std::sync::MutexGuard<'_, Settling> {
    settling.lock().unwrap_or_else(PoisonError::into_inner)
}
