//! What the clients of one connection were promised when they were refused, so that they are recognised when they return.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use fairq::Promise;
use ron_kernel::lock::Ranked;
use types::Moment;

use super::Door;
use crate::{caller::Caller, locks, tenant::TenantKey};

/// The most promises that a connection holds. The clients of more are not recognised by it: whoever of their tenant comes on
/// time has their places.
const MOST_HELD: usize = 64;

/// The promises of one connection. When it ends, the next requests of their tenants that arrive on time take their
/// places.
#[derive(Debug)]
pub(crate) struct HeldPromises {
    /// How many are held, so that most requests need no lock.
    count: AtomicUsize,
    held: Ranked<Vec<Held>>,
}

impl Default for HeldPromises {
    fn default() -> Self {
        Self { count: AtomicUsize::new(0), held: Ranked::new(&locks::CONN_PROMISES, Vec::new()) }
    }
}

/// A promise and whose it is.
#[derive(Debug)]
struct Held {
    promise: Promise,
    caller: Arc<Caller>,
    door: Arc<Door>,
}

impl HeldPromises {
    /// The promise that this tenant's client returns for now, if it holds one; it is no longer held.
    pub(super) fn take(&self, tenant: &TenantKey, now: Moment) -> Option<Promise> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut held = self.held.lock();
        held.retain(|held| !held.promise.is_over(now));
        let due = |held: &Held| held.promise.is_due(now) && held.caller.tenant.key == *tenant;
        let taken = held.iter().position(due).map(|at| held.swap_remove(at).promise);
        self.count.store(held.len(), Ordering::Relaxed);
        taken
    }

    /// Holds what a client of this connection was promised.
    pub(super) fn hold(&self, promise: Promise, caller: &Arc<Caller>, door: &Arc<Door>, now: Moment) {
        let more = Held { promise, caller: Arc::clone(caller), door: Arc::clone(door) };
        let mut held = self.held.lock();
        held.retain(|held| !held.promise.is_over(now));
        let too_many = if held.len() < MOST_HELD {
            held.push(more);
            None
        } else {
            Some(more)
        };
        self.count.store(held.len(), Ordering::Relaxed);
        drop(held);
        too_many.iter().for_each(Held::release);
    }
}

impl Held {
    fn release(&self) {
        self.door.0.release(&self.caller.tenant, self.promise);
    }
}

impl Drop for HeldPromises {
    fn drop(&mut self) {
        self.held.get_mut().iter().for_each(Held::release);
    }
}
