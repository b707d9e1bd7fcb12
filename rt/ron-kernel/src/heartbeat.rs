//! Heartbeats: each runtime, every core's and the control plane's, beats; the conductor names one that has been
//! silent for a second.
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

use tokio::sync::watch;
use types::Moment;

use crate::{
    Clock, Scope,
    bus::KernelEvent,
    own,
    readiness::{Condition, Effect},
};

/// Interval between two heartbeats of a runtime.
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
    /// The runtime stopped sending heartbeats.
    Silent,
    /// The runtime sends heartbeats again.
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

/// Keeps the heartbeats going until it is told to stop or dropped.
#[derive(Debug)]
pub(crate) struct Hearts(watch::Sender<bool>);

impl Hearts {
    /// Nobody looks any more.
    pub(crate) fn stop(&self) {
        self.0.send_replace(true);
    }
}

/// Beats on the runtime that polls it, until nobody looks any more.
async fn beat(clock: Clock, pulse: Arc<Pulse>, mut stopped: watch::Receiver<bool>) {
    let mut tick = tokio::time::interval(BEAT);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = tick.tick() => pulse.beat(clock.now()),
            _ = stopped.changed() => return,
        }
    }
}

/// Starts a heartbeat on every runtime.
pub(crate) fn start(scope: &Scope) -> Hearts {
    let beats = scope.children(&own::HEARTBEAT);
    let condition = silent_condition(scope);
    condition.clear();
    let (hearts, stopped) = watch::channel(false);
    for (_, runtime, pulse) in scope.planes().pulses() {
        pulse.beat(scope.clock().now());
        let _there = runtime.enter();
        beats.spawn(beat(scope.clock(), Arc::clone(pulse), stopped.clone()));
    }
    Hearts(hearts)
}

/// Looks at every runtime; names one that fell silent, and one that came back.
pub(crate) fn look(scope: &Scope) {
    let now = scope.clock().now();
    let mut silent = Vec::new();
    for (name, _, pulse) in scope.planes().pulses() {
        let gauge = scope.metrics().core_silent(name.trim_start_matches("core-").to_owned());
        match pulse.look(now) {
            Some(PulseChange::Silent) => {
                gauge.set(1);
                tracing::error!(
                    core = name,
                    "a runtime has not answered for a second: something on it blocks"
                );
                let core = name.clone();
                scope.bus().publish(KernelEvent::CoreSilent { core });
            }
            Some(PulseChange::Back) => {
                gauge.set(0);
                tracing::warn!(core = name, "a silent runtime answers again");
                let core = name.clone();
                scope.bus().publish(KernelEvent::CoreBack { core });
            }
            None => {}
        }
        if pulse.is_silent() {
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
