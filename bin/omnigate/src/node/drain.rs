//! The drain deadline, which follows the configuration.

use std::sync::Arc;

use ron_kernel::{
    Scope,
    config::Snapshot,
    reload::{Commit, Preparing, Reconfigure},
};

use crate::settings::NodeConfig;

/// Hands a changed deadline to the kernel.
pub(super) struct Drain(pub(super) Scope);

impl Reconfigure for Drain {
    fn prepare(&self, new: Arc<Snapshot>) -> Preparing<'_> {
        let scope = self.0.clone();
        let deadline = new.get::<NodeConfig>().drain_deadline.as_duration();
        Box::pin(async move { Ok(Box::new(move || scope.set_drain_deadline(deadline)) as Commit) })
    }
}
