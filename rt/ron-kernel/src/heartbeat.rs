//! Heartbeats: each runtime beats; the conductor names one that has been silent for a second.
//!
//! A runtime that is silent is running code that does not yield, and everything placed on it waits. It cannot be
//! aborted from outside, only named, which is why the beat exists.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use types::Moment;

use crate::{
    Clock, Scope, Shutdown,
    bus::KernelEvent,
    own,
    planes::Core,
    readiness::{Condition, Effect},
};

/// How often a runtime beats.
pub(crate) const BEAT: Duration = Duration::from_millis(250);
/// How long a runtime may be silent before it is named.
pub(crate) const SILENCE: Duration = Duration::from_secs(1);

/// The last sign of life of one runtime.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    last: AtomicU64,
    silent: AtomicBool,
}

/// What changed since the last look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PulseChange {
    /// It fell silent.
    Silent,
    /// It beats again.
    Back,
}

impl Pulse {
    /// A sign of life.
    pub(crate) fn beat(&self, now: Moment) {
        self.last.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// Looks whether it has fallen silent or come back.
    pub(crate) fn look(&self, now: Moment) -> Option<PulseChange> {
        let silent = now.since(Moment::from_nanos(self.last.load(Ordering::Relaxed))) > SILENCE;
        let was = self.silent.swap(silent, Ordering::Relaxed);
        match (was, silent) {
            (false, true) => Some(PulseChange::Silent),
            (true, false) => Some(PulseChange::Back),
            _ => None,
        }
    }

    /// Whether it was silent at the last look.
    pub(crate) fn is_silent(&self) -> bool {
        self.silent.load(Ordering::Relaxed)
    }
}

/// Beats on the runtime that polls it, until the node stops and nobody looks any more.
async fn beat(clock: Clock, shutdown: Shutdown, core: Arc<Core>) {
    let mut tick = tokio::time::interval(BEAT);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = tick.tick() => core.pulse.beat(clock.now()),
            () = shutdown.reached(own::HEARTBEAT.stop) => return,
        }
    }
}

/// Starts a heartbeat on every runtime of the data plane.
pub(crate) fn start(scope: &Scope) {
    let beats = scope.children(&own::HEARTBEAT);
    let condition = silent_condition(scope);
    condition.clear();
    for core in scope.planes().cores() {
        core.pulse.beat(scope.clock().now());
        let shutdown = scope.shutdown().clone();
        beats.spawn_on(core, beat(scope.clock(), shutdown, Arc::clone(core)));
    }
}

/// Looks at every core; names one that fell silent, and one that came back.
pub(crate) fn look(scope: &Scope) {
    let now = scope.clock().now();
    let mut silent = Vec::new();
    for core in scope.planes().cores() {
        let name = format!("core-{}", core.index());
        let gauge = scope.metrics().core_silent(core.index());
        match core.pulse.look(now) {
            Some(PulseChange::Silent) => {
                gauge.set(1);
                tracing::error!(core = name, "a core has not answered for a second: something on it blocks");
                let core = name.clone();
                scope.bus().publish(KernelEvent::CoreSilent { core });
            }
            Some(PulseChange::Back) => {
                gauge.set(0);
                tracing::warn!(core = name, "a silent core answers again");
                let core = name.clone();
                scope.bus().publish(KernelEvent::CoreBack { core });
            }
            None => {}
        }
        if core.pulse.is_silent() {
            silent.push(name);
        }
    }
    let condition = silent_condition(scope);
    if silent.is_empty() {
        condition.clear();
    } else {
        condition.raise(format!("no answer from {}", silent.join(", ")));
    }
}

fn silent_condition(scope: &Scope) -> Condition {
    scope.condition("core_silent", Effect::Down, BEAT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_is_named_after_a_second_of_silence_and_only_once() {
        let pulse = Pulse::default();
        let start = Moment::from_nanos(5_000_000_000);
        pulse.beat(start);
        assert_eq!(pulse.look(start.after(SILENCE)), None);
        assert_eq!(pulse.look(start.after(SILENCE + Duration::from_nanos(1))), Some(PulseChange::Silent));
        assert_eq!(pulse.look(start.after(2 * SILENCE)), None);
        assert!(pulse.is_silent());
        pulse.beat(start.after(2 * SILENCE));
        assert_eq!(pulse.look(start.after(2 * SILENCE)), Some(PulseChange::Back));
    }
}
