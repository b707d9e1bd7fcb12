//! What decoders may hold in memory: all of them together, and those of one tenant.
//!
//! A decoder keeps the window of its stream for as long as the client takes to send it, so many slow clients hold many
//! windows. What is held is taken out of one budget as it grows, and given back with the body.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ron_kernel::metrics::Counter;
use tokio::sync::Semaphore;
use types::{Reason, Refusal};

use crate::{
    buffers::{share, take},
    tenant::Tenant,
};

/// What is taken at a time, so that the budget is asked seldom.
const PORTION: u64 = 64 * 1024;
/// `Retry-After` of a refusal, a constant: the end of a slow upload cannot be predicted.
const RETRY: Duration = Duration::from_secs(1);

/// What the decoders of a node may hold.
#[derive(Debug)]
pub struct DecodeBudget {
    limit: AtomicU64,
    held: AtomicU64,
    refused: Counter,
}

impl DecodeBudget {
    /// A budget of so many bytes, which counts whom it refuses.
    #[must_use]
    pub fn new(limit: u64, refused: Counter) -> Self {
        Self { limit: AtomicU64::new(limit), held: AtomicU64::new(0), refused }
    }

    /// Changes the limit; what is held beyond a lower one is given back as bodies end.
    pub fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Returns the number of bytes that decoders hold now.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }
}

/// The tenant that a decoder's memory is charged to.
#[derive(Clone, Copy, Debug)]
pub struct Payer<'a> {
    budget: &'a Arc<DecodeBudget>,
    tenant: Option<&'a Arc<Tenant>>,
}

impl<'a> Payer<'a> {
    /// Charges only the common budget, and no tenant.
    #[must_use]
    pub const fn nobody(budget: &'a Arc<DecodeBudget>) -> Self {
        Self { budget, tenant: None }
    }

    /// A tenant, of its part of the budget.
    pub(crate) const fn tenant(budget: &'a Arc<DecodeBudget>, tenant: &'a Arc<Tenant>) -> Self {
        Self { budget, tenant: Some(tenant) }
    }

    /// An account with nothing taken yet.
    pub(super) fn open(self) -> Account {
        Account { budget: Arc::clone(self.budget), tenant: self.tenant.map(Arc::clone), held: 0 }
    }
}

/// What one decoder holds; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Account {
    budget: Arc<DecodeBudget>,
    tenant: Option<Arc<Tenant>>,
    held: u64,
}

impl Account {
    /// By what the decoders of the same tenant take turns; `None` for nobody's.
    pub(super) fn turns(&self) -> Option<&Arc<Semaphore>> {
        self.tenant.as_deref().map(Tenant::decoder_turns)
    }

    /// Makes sure of `bytes` in all.
    ///
    /// # Errors
    /// `busy` if the tenant has its part already, which is half of what the others leave free, `degraded` if there is no more for anybody.
    pub(super) fn reach(&mut self, bytes: u64) -> Result<(), Refusal> {
        if bytes <= self.held {
            return Ok(());
        }
        let more = bytes.next_multiple_of(PORTION) - self.held;
        let limit = self.budget.limit.load(Ordering::Relaxed);
        let tenant = self.tenant.as_deref();
        let own = tenant.map_or(0, |tenant| tenant.decoding.load(Ordering::Relaxed));
        let is_within = |tenant: &Tenant| take(&tenant.decoding, more, share(limit, self.budget.held(), own));
        if tenant.is_some_and(|tenant| !is_within(tenant)) {
            self.budget.refused.inc();
            return Err(if own == 0 { used_up() } else { has_its_part() });
        }
        if !take(&self.budget.held, more, limit) {
            tenant.iter().for_each(|tenant| give_back(&tenant.decoding, more));
            self.budget.refused.inc();
            return Err(used_up());
        }
        self.held += more;
        Ok(())
    }
}

fn has_its_part() -> Refusal {
    Refusal::new(Reason::Busy, "this tenant has used up its memory for decoding").retry_after(RETRY)
}

fn used_up() -> Refusal {
    let what = "too much is being decoded; an uncompressed body would be taken";
    Refusal::new(Reason::Degraded, what).retry_after(RETRY)
}

impl Drop for Account {
    fn drop(&mut self) {
        give_back(&self.budget.held, self.held);
        self.tenant.iter().for_each(|tenant| give_back(&tenant.decoding, self.held));
    }
}

fn give_back(held: &AtomicU64, bytes: u64) {
    held.fetch_sub(bytes, Ordering::Relaxed);
}
