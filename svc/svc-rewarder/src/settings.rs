//! What is in force: everything that a reload replaces, replaced as a whole.

use std::{collections::BTreeSet, time::Duration};

use captoken::{KeyRing, RevocationList};
use rewards::PublicKey;
use ron_accounting::NodeId;

use crate::RewarderConfig;

/// What capability tokens are checked with. Without a key, only this machine may ask.
#[derive(Debug)]
pub struct Authority {
    /// The root keys of capability tokens.
    pub ring: KeyRing,
    /// Tokens that are no longer good.
    pub revoked: RevocationList,
}

/// The settings in force.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) automatic: bool,
    /// How long after its end an epoch is closed automatically although a later one is.
    pub(crate) max_epoch_age: Duration,
    pub(crate) policy: String,
    pub(crate) policy_keys: Vec<PublicKey>,
    /// The nodes whose snapshots count.
    pub(crate) nodes: BTreeSet<NodeId>,
    pub(crate) pool_account: String,
    pub(crate) retain_epochs: u64,
    /// Where copies of retired epochs are kept, with `{epoch}` for the number; empty if nowhere.
    pub(crate) archive_url: String,
    /// Each call of the store or the ledger.
    pub(crate) call_timeout: Duration,
    pub(crate) max_body_bytes: u64,
    pub(crate) max_rows: u64,
    /// Requests that read or write what is stored, at once.
    pub(crate) io_inflight: usize,
    pub(crate) authority: Authority,
}

impl Settings {
    /// Where copies of a retired epoch are kept; `None` if nobody says so.
    pub(crate) fn archive_of(&self, epoch: u64) -> Option<String> {
        let url = &self.archive_url;
        (!url.is_empty()).then(|| url.replace("{epoch}", &epoch.to_string()))
    }

    /// From a table that was checked; `me` counts if nobody is listed.
    pub(crate) fn new(config: &RewarderConfig, me: NodeId, authority: Authority) -> Self {
        let listed: BTreeSet<NodeId> =
            config.accounting_nodes.iter().filter_map(|node| node.parse().ok()).collect();
        Self {
            automatic: config.automatic,
            max_epoch_age: config.max_epoch_age.as_duration(),
            policy: config.policy.clone(),
            policy_keys: config.policy_keys.iter().filter_map(|key| key.parse().ok()).collect(),
            nodes: if listed.is_empty() { BTreeSet::from([me]) } else { listed },
            pool_account: config.pool_account.clone(),
            retain_epochs: config.retain_epochs,
            archive_url: config.archive_url.clone(),
            call_timeout: config.read_timeout.as_duration(),
            max_body_bytes: config.limits.max_body_bytes.as_u64(),
            max_rows: config.limits.max_rows,
            io_inflight: config.concurrency.io_inflight,
            authority,
        }
    }
}
