//! How the node drains, which follows the configuration.

use std::sync::Arc;

use ron_kernel::{
    Scope,
    config::Snapshot,
    reload::{Commit, Preparing, Reconfigure},
};

use crate::settings::NodeConfig;

/// Hands changed times to the kernel.
pub(super) struct Drain(pub(super) Scope);

impl Reconfigure for Drain {
    fn prepare(&self, new: Arc<Snapshot>) -> Preparing<'_> {
        let scope = self.0.clone();
        let node = new.get::<NodeConfig>();
        let (deadline, idle) = (node.drain_deadline.as_duration(), node.drain_idle.as_duration());
        let upgrade = node.upgrade_deadline.as_duration();
        let commit: Commit = Box::new(move || {
            scope.set_drain_deadline(deadline);
            scope.set_upgrade_deadline(upgrade);
            scope.set_drain_idle(idle);
        });
        Box::pin(async move { Ok(commit) })
    }
}
