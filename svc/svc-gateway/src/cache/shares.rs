//! How much of the store each tenant has: what is stored for its requests counts for it, and its oldest makes room.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use ron_kernel::lock::Ranked;

use crate::{locks, tenant::TenantKey};

/// Above this many known tenants, those without stored responses are forgotten.
const FORGET_ABOVE: usize = 1024;

/// So many responses of a tenant are not looked through for those that are gone.
const SMALL_LIST: usize = 64;

/// The shares of all tenants. As many as have stored responses, and `FORGET_ABOVE`.
#[derive(Debug)]
pub(super) struct Shares {
    /// What one tenant may have of the store, in bytes.
    limit: u64,
    /// What one tenant may have of the index, in bytes.
    index_limit: u64,
    tenants: Ranked<HashMap<TenantKey, Arc<Share>>>,
}

/// How much of the cache one tenant uses.
#[derive(Debug)]
struct Share {
    bytes: AtomicU64,
    index_bytes: AtomicU64,
    stored: Ranked<Stored>,
}

impl Default for Share {
    fn default() -> Self {
        let stored = Ranked::new(&locks::CACHE_SHARE, Stored::default());
        Self { bytes: AtomicU64::new(0), index_bytes: AtomicU64::new(0), stored }
    }
}

/// What was stored for a tenant, the oldest first. Those that are gone are taken out when they are in front, and all of them
/// when there may be as many as others.
#[derive(Debug, Default)]
struct Stored {
    list: VecDeque<(Arc<str>, Weak<Charge>)>,
    /// How long the list may be until it is looked through.
    room: usize,
}

impl Stored {
    fn push(&mut self, key: &Arc<str>, charge: &Arc<Charge>) {
        if self.list.len() >= self.room {
            self.list.retain(|(_, charge)| charge.strong_count() > 0);
            self.room = 2 * self.list.len() + SMALL_LIST;
        }
        self.list.push_back((Arc::clone(key), Arc::downgrade(charge)));
    }
}

/// What a stored response takes of its tenant's share, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Charge {
    pub(super) tenant: TenantKey,
    share: Arc<Share>,
    bytes: u64,
    index_bytes: u64,
}

/// A stored response that has to make room.
#[derive(Debug)]
pub(super) struct Victim {
    pub(super) key: Arc<str>,
    pub(super) charge: Arc<Charge>,
}

impl Shares {
    pub(super) fn new(limit: u64, index_limit: u64) -> Self {
        Self { limit, index_limit, tenants: Ranked::new(&locks::CACHE_TENANTS, HashMap::new()) }
    }

    /// Charges a tenant for a response that is stored under `key` and takes so many bytes of the store and of the index, and
    /// says which of its others have to make room; `None` if it is too large for the share.
    pub(super) fn charge(
        &self,
        tenant: &TenantKey,
        key: &Arc<str>,
        (bytes, index_bytes): (u64, u64),
    ) -> Option<(Arc<Charge>, Vec<Victim>)> {
        if bytes > self.limit || index_bytes > self.index_limit {
            return None;
        }
        let share = self.share(tenant);
        let after = share.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let index_after = share.index_bytes.fetch_add(index_bytes, Ordering::Relaxed) + index_bytes;
        let charge =
            Arc::new(Charge { tenant: tenant.clone(), share: Arc::clone(&share), bytes, index_bytes });
        let mut stored = share.stored.lock();
        let mut excess = after.saturating_sub(self.limit);
        let mut index_excess = index_after.saturating_sub(self.index_limit);
        let mut victims = Vec::new();
        while let Some((_, oldest)) = stored.list.front() {
            let Some(charge) = oldest.upgrade() else {
                stored.list.pop_front();
                continue;
            };
            if excess == 0 && index_excess == 0 {
                break;
            }
            excess = excess.saturating_sub(charge.bytes);
            index_excess = index_excess.saturating_sub(charge.index_bytes);
            if let Some((key, _)) = stored.list.pop_front() {
                victims.push(Victim { key, charge });
            }
        }
        stored.push(key, &charge);
        drop(stored);
        Some((charge, victims))
    }

    fn share(&self, tenant: &TenantKey) -> Arc<Share> {
        let mut tenants = self.tenants.lock();
        if let Some(share) = tenants.get(tenant) {
            return Arc::clone(share);
        }
        if tenants.len() >= FORGET_ABOVE {
            let has_some =
                |share: &Share| [&share.bytes, &share.index_bytes].map(|bytes| bytes.load(Ordering::Relaxed));
            tenants.retain(|_, share| has_some(share) != [0, 0]);
        }
        Arc::clone(tenants.entry(tenant.clone()).or_default())
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.share.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.share.index_bytes.fetch_sub(self.index_bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::tenant::{Class, TenantName};

    fn tenant(name: &str) -> TenantKey {
        TenantKey { class: Class::Authed, name: TenantName::Named(name.into()) }
    }

    #[test]
    fn the_oldest_of_a_tenant_makes_room_for_its_own_and_nobody_elses() {
        let shares = Shares::new(100, 10);
        let store =
            |name: &str, key: &str, bytes| shares.charge(&tenant(name), &Arc::from(key), (bytes, 1)).unwrap();
        let (_first, victims) = store("a", "1", 60);
        assert!(victims.is_empty());
        let (_other, victims) = store("b", "2", 90);
        assert!(victims.is_empty());
        let (_second, victims) = store("a", "3", 60);
        assert_eq!(victims.iter().map(|victim| &*victim.key).collect::<Vec<_>>(), ["1"]);
        assert!(shares.charge(&tenant("a"), &Arc::from("4"), (101, 1)).is_none());
        assert!(shares.charge(&tenant("a"), &Arc::from("4"), (1, 11)).is_none());
    }

    #[test]
    fn many_small_ones_make_room_for_each_other() {
        let shares = Shares::new(100, 10);
        let store = |key: &str| shares.charge(&tenant("a"), &Arc::from(key), (0, 4)).unwrap();
        let (_first, _second) = (store("1"), store("2"));
        let (_third, victims) = store("3");
        assert_eq!(victims.iter().map(|victim| &*victim.key).collect::<Vec<_>>(), ["1"]);
    }

    #[test]
    fn what_is_gone_is_forgotten_though_the_oldest_stays() {
        let shares = Shares::new(1_000_000, 1_000_000);
        let store = || shares.charge(&tenant("a"), &Arc::from("1"), (1, 1)).unwrap();
        let _oldest = store();
        for _ in 0..10_000 {
            drop(store());
        }
        assert!(shares.share(&tenant("a")).stored.lock().list.len() <= 2 * SMALL_LIST);
    }

    #[test]
    fn what_is_dropped_is_given_back() {
        let shares = Shares::new(100, 10);
        for round in 0..10 {
            let (charge, victims) = shares.charge(&tenant("a"), &Arc::from("1"), (80, 8)).unwrap();
            assert!(victims.is_empty(), "{round}");
            drop(charge);
        }
    }
}
