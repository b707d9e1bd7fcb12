//! The locks of the node itself and of its admin listener. Nothing else is locked under any of them.

use ron_kernel::topology::LockSpec;

const fn lock(name: &'static str, rank: u8, doc: &'static str) -> LockSpec {
    LockSpec { name, rank, doc }
}

/// The snapshots that are announced to other nodes.
pub(crate) const SNAPSHOT_BOARD: LockSpec = lock(
    "snapshot_board",
    160,
    "the snapshots that this node announces, by epoch; held for one change or one copy",
);
/// The signals that ask for a successor.
pub(crate) const UPGRADE_SIGNALS: LockSpec =
    lock("upgrade_signals", 162, "the stream of SIGUSR2, until the upgrader takes it");
/// The texts of the configuration files.
pub(crate) const CONFIG_TEXTS: LockSpec = lock(
    "config_texts",
    164,
    "the texts of the configuration's files that were read last; held while they are compared",
);
/// The refusals in the audit trail.
pub(crate) const AUDIT_REFUSALS: LockSpec =
    lock("audit_refusals", 166, "how many refusals the audit trail has taken lately");

/// All of them.
pub(super) const OWN: [LockSpec; 4] = [SNAPSHOT_BOARD, UPGRADE_SIGNALS, CONFIG_TEXTS, AUDIT_REFUSALS];
