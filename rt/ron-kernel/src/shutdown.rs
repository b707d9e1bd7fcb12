//! The node's shutdown as every task sees it: a phase to watch, and a way to ask for the end.

use ron_sync::phase::{Phase, PhaseCell, Stage};

use crate::bus::{Bus, KernelEvent};

/// A handle on the phase of the node. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Shutdown {
    phase: PhaseCell,
    bus: Bus,
}

impl Shutdown {
    pub(crate) fn new(bus: Bus) -> Self {
        Self { phase: PhaseCell::new(), bus }
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
        self.phase.reached(Phase::Draining(stage)).await;
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
