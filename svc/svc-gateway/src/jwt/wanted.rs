//! The issuers of which a token named an unknown key, from the requests to the task that fetches keys.

use std::{collections::BTreeSet, sync::Arc};

use arc_swap::ArcSwap;
use tokio::sync::{Notify, futures::Notified};

/// The names of the issuers whose keys are to be fetched before their time. Only issuers of the policy are added.
#[derive(Debug, Default)]
pub(super) struct KeysWanted {
    issuers: ArcSwap<BTreeSet<String>>,
    notify: Notify,
}

impl KeysWanted {
    /// Has the keys of an issuer fetched as soon as its settings allow.
    pub(super) fn add(&self, issuer: &str) {
        if !self.issuers.load().contains(issuer) {
            self.issuers.rcu(|known| {
                let mut issuers = BTreeSet::clone(known);
                issuers.insert(issuer.to_owned());
                issuers
            });
        }
        self.notify();
    }

    /// Wakes the task that fetches keys, which looks at its settings and at these names.
    pub(super) fn notify(&self) {
        self.notify.notify_one();
    }

    /// Waits for the next call of [`KeysWanted::notify`]; one that came before is not lost. Cancel safe.
    pub(super) fn notified(&self) -> Notified<'_> {
        self.notify.notified()
    }

    /// The issuers that were added since the last call.
    pub(super) fn take(&self) -> Arc<BTreeSet<String>> {
        self.issuers.swap(Arc::default())
    }
}
