//! Reading the configuration anew while the node runs.

use std::sync::{Arc, Mutex, PoisonError};

use ron_kernel::{
    config::Snapshot,
    reload::{Commit, Preparing, Read, Reconfigure},
};

use crate::config_file::ConfigSource;

/// The configuration's sources, as a part of the node that refuses a reload while the file cannot be read.
///
/// A reader can only report what is wrong *in* a file. So for a file that is gone it gives the configuration the node
/// started with and leaves a note, because of which [`Reconfigure::prepare`] then refuses.
pub(super) struct Reread {
    source: ConfigSource,
    started_with: Snapshot,
    unreadable: Mutex<Option<String>>,
}

impl Reread {
    pub(super) fn new(source: ConfigSource, started_with: &Snapshot) -> Arc<Self> {
        Arc::new(Self { source, started_with: started_with.clone(), unreadable: Mutex::default() })
    }

    /// The reader for the reloader, which must have this as its first part.
    pub(super) fn reader(self: &Arc<Self>) -> Read {
        let this = Arc::clone(self);
        Arc::new(move || {
            this.source.reload().unwrap_or_else(|problem| {
                this.note(Some(problem));
                Ok(this.started_with.clone())
            })
        })
    }

    /// Replaces the note and returns the one before.
    fn note(&self, problem: Option<String>) -> Option<String> {
        std::mem::replace(&mut *self.unreadable.lock().unwrap_or_else(PoisonError::into_inner), problem)
    }
}

impl Reconfigure for Reread {
    fn prepare(&self, _new: Arc<Snapshot>) -> Preparing<'_> {
        let noted = self.note(None);
        Box::pin(async move {
            match noted {
                Some(problem) => Err(format!("{problem}: put it back, or restart with another")),
                None => {
                    let commit: Commit = Box::new(|| ());
                    Ok(commit)
                }
            }
        })
    }
}
