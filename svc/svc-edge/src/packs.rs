//! Tile packs: mounted in the background, swapped when another file takes their place, set aside when they are changed.

mod judge;
mod slot;
mod verifier;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use ron_kernel::{Scope, lock::Ranked, topology::LockSpec};
use types::{Reason, Refusal};

use crate::{PackConfig, RefusedPacks, assets::Damages};

pub(crate) use slot::{Mounted, Slot, State};
pub(crate) use verifier::{PACK_VERIFIER, Verifier};

/// The packs in force; requests have copies of their own.
pub(crate) const ROUTING_TABLE: LockSpec = LockSpec {
    name: "routing_table",
    rank: 20,
    doc: "the packs in force; held to copy or replace the reference",
};

/// Packs by name, as requests see them.
pub(crate) type Packs = Arc<BTreeMap<String, Arc<Slot>>>;

/// Every pack that is configured now.
#[derive(Debug)]
pub(crate) struct Registry {
    packs: Ranked<Packs>,
    damages: Arc<Damages>,
    /// Whether one refused pack is enough for the edge not to be ready.
    one_is_enough: AtomicBool,
}

impl Registry {
    pub(crate) fn new(scope: &Scope, configs: &[PackConfig], damages: Arc<Damages>) -> Arc<Self> {
        let packs = scope.lock(&ROUTING_TABLE, Packs::default());
        let registry = Self { packs, damages, one_is_enough: AtomicBool::new(false) };
        let packs = registry.prepare(configs);
        registry.commit(packs);
        Arc::new(registry)
    }

    /// The packs of a new configuration; those that are in the present one too stay mounted, and one whose file is now
    /// another is served from the old one until the new one is mounted.
    pub(crate) fn prepare(&self, configs: &[PackConfig]) -> Packs {
        let present = self.all();
        let slot = |config: &PackConfig| match present.get(&config.name()) {
            Some(slot) if slot.config() == config => Arc::clone(slot),
            before => {
                // The same file under other conditions has to meet them first.
                let elsewhere = before.filter(|slot| slot.config().path != config.path);
                let served = elsewhere.and_then(|slot| slot.mounted().ok());
                Arc::new(Slot::new(config.clone(), served, Arc::clone(&self.damages)))
            }
        };
        Arc::new(configs.iter().map(|config| (config.name(), slot(config))).collect())
    }

    /// Puts packs into force; those that are gone are served no more.
    pub(crate) fn commit(&self, packs: Packs) {
        let before = std::mem::replace(&mut *self.packs.lock(), Arc::clone(&packs));
        for (name, slot) in before.iter() {
            if !packs.get(name).is_some_and(|kept| kept.serves_what(slot)) {
                slot.retire();
            }
        }
    }

    /// What refused packs do from now on.
    pub(crate) fn set_refused(&self, refused: RefusedPacks) {
        self.one_is_enough.store(refused == RefusedPacks::Down, Ordering::Relaxed);
    }

    /// Why the edge is not ready, if packs that are refused are the reason.
    pub(crate) fn not_ready(&self) -> Option<String> {
        let [served, mounting, refused] = self.count();
        let all = served + mounting + refused;
        let is_down = refused == all || self.one_is_enough.load(Ordering::Relaxed);
        (refused > 0 && is_down).then(|| format!("{refused} of {all} packs are refused"))
    }

    /// The packs in force.
    pub(crate) fn all(&self) -> Packs {
        Arc::clone(&self.packs.lock())
    }

    /// How many packs are in which state, in the order of [`PACK_STATES`](crate::metrics::PACK_STATES).
    pub(crate) fn count(&self) -> [i64; 3] {
        let mut counts = [0; 3];
        for slot in self.all().values() {
            let at = match &**slot.state() {
                State::Served { .. } => 0,
                State::Mounting(_) => 1,
                State::Refused(_) => 2,
            };
            counts[at] += 1;
        }
        counts
    }
}

/// The pack of a name.
///
/// # Errors
/// There is none, or it cannot be served now.
pub(crate) fn find(packs: &Packs, name: &str) -> Result<Arc<Mounted>, Refusal> {
    let slot = packs.get(name).ok_or_else(|| {
        let shown: String = name.chars().take(64).collect();
        Refusal::new(Reason::NotFound, format!("there is no pack `{shown}`"))
    })?;
    slot.mounted()
}
