//! Reading the configuration again while the node runs.

use std::sync::Arc;

use ron_kernel::{
    config::Snapshot,
    lock::Ranked,
    reload::{Commit, Contents, LookAt, Preparing, Read, Reading, Reconfigure, ReloadError},
};
use zeroize::Zeroizing;

use super::settle::{Look, Settling, Texts};
use crate::{
    admin::locks::CONFIG_TEXTS,
    config_file::{ConfigSource, StartConfig},
};

/// The configuration's sources, as a part of the node: it remembers the texts of the files that are in force.
pub(super) struct Reread {
    source: ConfigSource,
    settling: Arc<Ranked<Settling>>,
}

impl Reread {
    pub(super) fn new(source: ConfigSource, started_with: &StartConfig) -> Arc<Self> {
        for (file, text) in started_with.texts.files() {
            if let Some(doubt) = super::settle::doubt(text) {
                tracing::warn!("the configuration file {} may not be whole: {doubt}", file.display());
            }
        }
        let settling = Settling::new(Texts::of(&started_with.texts));
        Arc::new(Self { source, settling: Arc::new(Ranked::new(&CONFIG_TEXTS, settling)) })
    }

    /// The reader for the reloader, which must have this as one of its parts.
    pub(super) fn reader(self: &Arc<Self>) -> Read {
        let this = Arc::clone(self);
        Arc::new(move || this.read())
    }

    fn read(&self) -> Result<Reading, ReloadError> {
        let gone = |problem| ReloadError::Refused(format!("{problem}: put it back, or restart with another"));
        let texts = self.source.read_files().map_err(gone)?;
        let look = self.settling.lock().look(Texts::of(&texts));
        match look {
            Look::Again => Ok(Reading::Unsettled),
            Look::Doubtful { file, doubt } => {
                Err(ReloadError::Refused(format!("the configuration file {}: {doubt}", file.display())))
            }
            Look::Settled => Ok(Reading::Settled(self.source.load_from(&texts)?)),
        }
    }

    /// What looks at the files for the config watcher; `None` without a file.
    pub(super) fn look_at(self: &Arc<Self>) -> Option<LookAt> {
        let main = self.source.file()?.to_owned();
        let this = Arc::clone(self);
        Some(Arc::new(move || {
            let mut contents = Contents::of_file(&main);
            if let Ok(texts) = this.source.read_files() {
                let held = |text: &str| Some(Zeroizing::new(text.as_bytes().to_vec()));
                contents.files = texts.files().map(|(path, text)| (path.to_owned(), held(text))).collect();
                let parents = texts.files().filter_map(|(path, _)| Some(path.parent()?.to_owned()));
                // A folder of included files is replaced, or made again, in the folder around it.
                let around = texts.folders().iter().filter_map(|folder| Some(folder.parent()?.to_owned()));
                contents.folders = parents.chain(texts.folders().iter().cloned()).chain(around).collect();
            }
            contents
        }))
    }
}

impl Reconfigure for Reread {
    fn prepare(&self, _new: Arc<Snapshot>) -> Preparing<'_> {
        let settling = Arc::clone(&self.settling);
        Box::pin(async move {
            let commit: Commit = Box::new(move || settling.lock().put_into_force());
            Ok(commit)
        })
    }
}
