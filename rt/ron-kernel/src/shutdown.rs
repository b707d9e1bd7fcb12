//! The node's shutdown as every task sees it: a phase to watch, and a way to ask for the end.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ron_sync::phase::{Phase, PhaseCell, Reached, Stage};
use types::Moment;

use crate::bus::{Bus, KernelEvent};

/// A handle on the phase of the node. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Shutdown {
    phase: PhaseCell,
    bus: Bus,
    succeeded: Arc<AtomicBool>,
    /// Unset until the node drains.
    drain: Arc<OnceLock<Drain>>,
}

/// The times of a drain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drain {
    /// Time at which the shutdown began.
    pub(crate) began: Moment,
    /// When what still runs is aborted.
    pub(crate) ends: Moment,
    /// How long connections that have no request are kept open.
    pub(crate) idle_for: Duration,
}

impl Shutdown {
    pub(crate) fn new(bus: Bus) -> Self {
        Self { phase: PhaseCell::new(), bus, succeeded: Arc::default(), drain: Arc::default() }
    }

    /// The present phase: one atomic load.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase.get()
    }

    /// Whether the node is on its way out.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.phase.get() != Phase::Running
    }

    /// Resolves once the drain has reached `stage`.
    ///
    /// Cancel safe.
    pub async fn reached(&self, stage: Stage) {
        self.stage(stage).await;
    }

    /// [`Shutdown::reached`] as a future of its own type.
    pub(crate) fn stage(&self, stage: Stage) -> Reached {
        self.phase.reached(Phase::Draining(stage))
    }

    /// Notes whether another process serves newcomers from now on.
    pub fn set_successor(&self, there_is_one: bool) {
        self.succeeded.store(there_is_one, Ordering::Relaxed);
    }

    /// Whether another process serves newcomers. A drain then answers everybody who is here already, those who wait
    /// included: nobody needs their place, and they have nowhere better to go.
    #[must_use]
    pub fn has_successor(&self) -> bool {
        self.succeeded.load(Ordering::Relaxed)
    }

    /// Until when a drain keeps a connection open that has had no request since `last_use`: its client may be about to send
    /// the next one, and could not tell whether a connection that closes under it has swallowed that. `last_use` itself
    /// while the node does not drain.
    #[must_use]
    pub fn idle_until(&self, last_use: Moment) -> Moment {
        self.drain.get().map_or(last_use, |drain| last_use.max(drain.began).after(drain.idle_for))
    }

    /// When what still runs is aborted; `None` while the node does not drain.
    #[must_use]
    pub fn ends_at(&self) -> Option<Moment> {
        self.drain.get().map(|drain| drain.ends)
    }

    /// Notes the times of the drain that begins.
    pub(crate) fn drain_begins(&self, drain: Drain) {
        let _ = self.drain.set(drain);
    }

    /// Asks the node to drain and stop. Asking again changes nothing.
    pub fn request(&self, cause: impl Into<String>) {
        self.bus.publish(KernelEvent::Shutdown { cause: cause.into() });
    }

    /// Moves on; returns whether that changed anything.
    pub(crate) fn advance(&self, phase: Phase) -> bool {
        let changed = self.phase.advance(phase);
        if changed {
            self.bus.publish(KernelEvent::PhaseChanged(phase));
        }
        changed
    }
}
