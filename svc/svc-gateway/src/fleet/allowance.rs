//! How far a limit is used up: at this gateway alone, or by all gateways that share it.

use std::{
    fmt,
    sync::{Arc, atomic::Ordering},
};

use quota::{Bucket, Exhausted, Forgettable, Lease, Passed, Rate};
use ron_kernel::lock::Ranked;
use types::Moment;

use super::Fleet;
use crate::locks;

/// How far a limit is used up.
#[derive(Debug, Default)]
pub(crate) struct Allowance {
    own: Bucket,
    /// What this gateway has of a shared limit; without it, `own` counts.
    shared: Option<Arc<Leased>>,
}

impl Allowance {
    pub(super) fn shared(leased: Leased) -> Self {
        Self { own: Bucket::default(), shared: Some(Arc::new(leased)) }
    }

    /// Judges one request.
    ///
    /// # Errors
    /// [`Exhausted`] when the allowance is used up.
    pub(crate) fn check(&self, rate: &Rate, now: Moment) -> Result<Passed, Exhausted> {
        match &self.shared {
            None => self.own.check(rate, now),
            Some(leased) => leased.check(rate, now),
        }
    }

    /// Gives back a request that passed and then was not used.
    pub(crate) fn refund(&self, rate: &Rate, now: Moment) {
        match &self.shared {
            None => self.own.refund(rate),
            Some(leased) => leased.refund(now),
        }
    }

    /// Whether the whole allowance is there, as far as this gateway knows.
    pub(crate) fn is_whole(&self, now: Moment) -> bool {
        match &self.shared {
            None => self.own.is_whole(now),
            Some(leased) => leased.is_settled(now),
        }
    }
}

impl Forgettable for Allowance {
    fn is_forgettable(&self, now: Moment) -> bool {
        self.is_whole(now)
    }
}

/// This gateway's part of a limit that others share.
pub(super) struct Leased {
    /// The name of the limit, which all gateways know.
    name: Box<str>,
    fleet: Arc<Fleet>,
    state: Ranked<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Absent until the limit is first used.
    lease: Option<Lease>,
    /// Whether it is in the queue to the keeper.
    is_queued: bool,
    /// The number of the keeper that has it among those it looks at; 0 for none.
    kept_by: u64,
}

impl Leased {
    pub(super) fn new(name: String, fleet: &Arc<Fleet>) -> Self {
        let state = Ranked::new(&locks::QUOTA_LEASE, State::default());
        Self { name: name.into(), fleet: Arc::clone(fleet), state }
    }

    fn check(self: &Arc<Self>, rate: &Rate, now: Moment) -> Result<Passed, Exhausted> {
        let (gateways, keeper) = (self.fleet.gateways(), self.fleet.keeper.load(Ordering::Relaxed));
        let mut state = self.state.lock();
        let lease = state.lease.get_or_insert_with(|| Lease::new(rate));
        let verdict = lease.check(rate, gateways, now);
        let is_cut_off = lease.is_cut_off(now);
        let is_urgent = lease.is_urgent(gateways, now);
        if is_urgent {
            lease.waits(now);
        }
        let tells = (is_urgent || state.kept_by != keeper) && !state.is_queued;
        state.is_queued |= tells;
        drop(state);
        if is_cut_off {
            self.fleet.cut_off.inc();
        }
        // If there is no room, the next request tries again; meanwhile the last share counts.
        if tells && self.fleet.wants.try_send(Arc::clone(self)).is_err() {
            self.state.lock().is_queued = false;
        }
        verdict
    }

    fn refund(&self, now: Moment) {
        if let Some(lease) = &mut self.state.lock().lease {
            lease.refund(self.fleet.gateways(), now);
        }
    }

    fn is_settled(&self, now: Moment) -> bool {
        let state = self.state.lock();
        state.lease.as_ref().is_none_or(|lease| lease.is_settled(now))
    }
}

#[cfg(feature = "redis")]
impl Leased {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Notes that it left the queue. Says whether the keeper of this number has it from now on and had not before.
    pub(super) fn is_taken_by(&self, keeper: u64) -> bool {
        let mut state = self.state.lock();
        state.is_queued = false;
        std::mem::replace(&mut state.kept_by, keeper) != keeper
    }

    /// Notes that no keeper has it any more.
    pub(super) fn let_go(&self) {
        self.state.lock().kept_by = 0;
    }

    /// What to ask the store for now, if something is needed.
    pub(super) fn ask(&self, now: Moment) -> Option<quota::Ask> {
        let mut state = self.state.lock();
        let lease = state.lease.as_mut()?;
        let is_needed =
            lease.is_waiting() || lease.is_overdue(now) || lease.is_urgent(self.fleet.gateways(), now);
        if is_needed { lease.ask(now) } else { None }
    }

    /// Takes the answer to a question that was asked at `asked`.
    pub(super) fn answer(&self, grant: &quota::Grant, asked: Moment, now: Moment) {
        if let Some(lease) = &mut self.state.lock().lease {
            lease.answer(grant, asked, now);
        }
    }

    /// Whether nothing is owed or wanted and it was not used lately.
    pub(super) fn is_idle(&self, now: Moment) -> bool {
        let state = self.state.lock();
        state.lease.as_ref().is_none_or(|lease| lease.is_settled(now) && lease.is_idle(now))
    }
}

impl fmt::Debug for Leased {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Leased({})", self.name)
    }
}
