//! The conductor: waits for a reason to stop, then walks the node through its stages and says how it went.

use std::{convert::Infallible, ops::Bound, time::Duration};

use ron_sync::phase::{Phase, Stage};
use types::Deadline;

use crate::{
    Exit, ExitCode, Kernel, Signals, audit,
    bus::{Bus, Subscription},
    heartbeat::{self, BEAT},
    lock::lock,
    readiness::Effect,
    shutdown::Drain,
};

/// How often a stage looks whether everything in it has ended.
const LOOK: Duration = Duration::from_millis(2);
/// How long stages that the drain did not reach get to stop by themselves.
const LAST_CALL: Duration = Duration::from_millis(200);
/// How long aborted tasks and runtimes get to go.
const GRACE: Duration = Duration::from_millis(400);
/// The same after a second signal: enough for what lets go at once, so that only what does not is named.
const FORCED_GRACE: Duration = Duration::from_millis(50);

/// The stages after readiness has flipped, in order.
const STAGES: [Stage; 4] = [Stage::Intake, Stage::Workers, Stage::Writers, Stage::Support];

/// Conducts a node to its end.
pub(crate) async fn conduct(kernel: &Kernel, mut signals: Option<Signals>) -> Exit {
    let Asked { cause, by_signal } = run_until_asked(kernel, &mut signals).await;
    let clock = kernel.shared.clock;
    let start = clock.now();
    let has_successor = kernel.shared.shutdown.has_successor();
    let drain_deadline = drain_deadline(kernel, has_successor);
    tracing::info!(target: audit::TARGET, action = "shutdown", actor = cause, outcome = "draining");
    tracing::info!(cause, deadline_ms = drain_deadline.as_millis(), "draining");
    let drain_idle = (*lock(&kernel.shared.drain_idle)).min(drain_deadline / 2);
    let deadline = Deadline::within(start, drain_deadline);
    let times = Drain { began: start, ends: deadline.moment(), idle_for: drain_idle };
    kernel.shared.shutdown.drain_begins(times);
    // A successor asks by a signal too; the first one after that is somebody else's, who asks for the first time.
    let force = forced(&mut signals, by_signal && !has_successor);
    let outcome = drain(kernel, force, deadline).await;
    let aborted = match outcome {
        Outcome::Drained => Vec::new(),
        Outcome::DeadlinePassed | Outcome::SecondSignal => abort(kernel, outcome).await,
    };
    let stuck = end(kernel, outcome, deadline).await;
    kernel.shared.shutdown.advance(Phase::Stopped);
    let code = exit_code(outcome, kernel.shared.failure().is_some(), &aborted, &stuck);
    Exit { code, cause, aborted, stuck, took: clock.now().since(start) }
}

/// How long the drain may take. Nobody waits for the end of a process whose successor serves newcomers but its own clients.
fn drain_deadline(kernel: &Kernel, has_successor: bool) -> Duration {
    let usual = *lock(&kernel.shared.drain_deadline);
    if has_successor { usual.max(*lock(&kernel.shared.upgrade_deadline)) } else { usual }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Drained,
    DeadlinePassed,
    SecondSignal,
}

/// Who asked the node to stop.
struct Asked {
    cause: String,
    by_signal: bool,
}

/// Beats, ticks and listens until somebody asks the node to stop.
async fn run_until_asked(kernel: &Kernel, signals: &mut Option<Signals>) -> Asked {
    let mut events = kernel.shared.bus.subscribe();
    tokio::select! {
        never = tick(kernel) => match never {},
        cause = asked_to_stop(&kernel.shared.bus, &mut events) => Asked { cause, by_signal: false },
        name = next_signal(signals) => Asked { cause: format!("received {name}"), by_signal: true },
    }
}

/// Resolves at the second signal. One that follows a request made otherwise is the first: orchestrators ask politely,
/// then signal what is already draining.
async fn forced(signals: &mut Option<Signals>, by_signal: bool) {
    if !by_signal {
        let signal = next_signal(signals).await;
        tracing::info!(signal, "already draining");
    }
    let signal = next_signal(signals).await;
    tracing::warn!(signal, "a second signal ends the node at once");
}

/// The machine's clock is said to have been set if it is off by more than this from one look to the next.
const CLOCK_STEP: Duration = Duration::from_secs(1);

/// Looks after the heartbeats and the machine's clock and has metrics sampled, as long as it is polled.
async fn tick(kernel: &Kernel) -> Infallible {
    let mut beat = tokio::time::interval(BEAT);
    // After a stall, one look and one sample are as good as many.
    beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        beat.tick().await;
        heartbeat::look(&kernel.own);
        let clock = kernel.own.clock();
        let step = clock.follow(clock.wall());
        if step > CLOCK_STEP {
            tracing::warn!(seconds = step.as_secs(), "the machine's clock was set");
        }
        let _ = kernel.tick.try_send(());
    }
}

/// The cause of the first shutdown request. The events only wake it: one that was missed still counts.
async fn asked_to_stop(bus: &Bus, events: &mut Subscription) -> String {
    loop {
        if let Some(cause) = bus.asked_to_stop() {
            return cause.to_owned();
        }
        if events.next().await.is_none() {
            return "the event bus is gone".to_owned();
        }
    }
}

async fn next_signal(signals: &mut Option<Signals>) -> &'static str {
    match signals {
        Some(signals) => signals.next().await,
        None => std::future::pending().await,
    }
}

/// Readiness flips, then each stage in turn: told to stop, waited for.
async fn drain(kernel: &Kernel, forced: impl Future<Output = ()>, deadline: Deadline) -> Outcome {
    let shared = &kernel.shared;
    // The phase first: whoever finds the service down must be able to tell that it is for this.
    shared.shutdown.advance(Phase::Draining(Stage::Readiness));
    for service in shared.readiness.services() {
        shared
            .readiness
            .condition(service, "draining", Effect::Down, Duration::ZERO)
            .raise("the node is stopping");
    }
    let walk = async {
        tokio::select! {
            () = walk_the_stages(kernel) => {}
            never = tick(kernel) => match never {},
        }
        // Last, because a drain can take long enough for a core to fall silent, and a blocked core's heartbeat must
        // not keep the others from being told.
        kernel.hearts.stop();
        while shared.supervisor.alive(Stage::Readiness..=Stage::Support) > 0 {
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::select! {
        biased;
        () = forced => Outcome::SecondSignal,
        () = walk => Outcome::Drained,
        () = shared.clock.sleep_until(deadline.moment()) => Outcome::DeadlinePassed,
    }
}

/// Tells each stage to stop and waits for it, and for blocking work after the last.
async fn walk_the_stages(kernel: &Kernel) {
    let shared = &kernel.shared;
    for stage in STAGES {
        shared.shutdown.advance(Phase::Draining(stage));
        // Also what appeared in an earlier stage after that stage was found empty.
        while shared.supervisor.alive(Stage::Intake..=stage) > 0 {
            tokio::time::sleep(LOOK).await;
        }
    }
    while !shared.blocking.running().is_empty() {
        tokio::time::sleep(LOOK).await;
    }
}

/// Names and ends what did not stop by itself.
async fn abort(kernel: &Kernel, outcome: Outcome) -> Vec<String> {
    let shared = &kernel.shared;
    let reached = shared.shutdown.phase();
    shared.shutdown.advance(Phase::Aborting);
    kernel.hearts.stop();
    // The later stages are not to blame: they hear only now that they are to stop.
    let (later, patience) = match (outcome, reached) {
        (Outcome::DeadlinePassed, Phase::Draining(stage)) => (Some(Bound::Excluded(stage)), LAST_CALL),
        _ => (None, FORCED_GRACE),
    };
    let unheard = || {
        let later = later.map_or(0, |from| shared.supervisor.alive((from, Bound::Unbounded)));
        later + shared.supervisor.alive(Stage::Readiness..=Stage::Readiness)
    };
    let stop = async {
        while unheard() > 0 {
            tokio::time::sleep(LOOK).await;
        }
    };
    let _ = tokio::time::timeout(patience, stop).await;
    let aborted = shared.supervisor.abort_all();
    let why = match outcome {
        Outcome::SecondSignal => "told twice to stop",
        _ => "the drain deadline has passed",
    };
    tracing::error!(aborted = aborted.join(", "), "{why}");
    aborted
}

/// Ends the runtimes; names what does not let go.
async fn end(kernel: &Kernel, outcome: Outcome, deadline: Deadline) -> Vec<String> {
    let grace = match outcome {
        // Nothing is known to hold on, so it is no sign of trouble if a busy machine takes its time: it may have what
        // the drain has left over.
        Outcome::Drained => deadline.remaining(kernel.shared.clock.now()).max(GRACE),
        Outcome::DeadlinePassed => GRACE,
        Outcome::SecondSignal => FORCED_GRACE,
    };
    let ended = kernel.shared.planes.end(grace, &kernel.shared.blocking).await;
    let jobs = kernel.shared.blocking.abandon();
    let mut stuck = ended.stuck;
    stuck.extend((ended.control_threads > jobs.len()).then(|| "control".to_owned()));
    stuck.extend(jobs.iter().map(|job| format!("blocking: {job}")));
    stuck
}

fn exit_code(outcome: Outcome, failed: bool, aborted: &[String], stuck: &[String]) -> ExitCode {
    match outcome {
        Outcome::SecondSignal => ExitCode::Forced,
        _ if !stuck.is_empty() => ExitCode::Stuck,
        Outcome::DeadlinePassed if !aborted.is_empty() => ExitCode::Aborted,
        _ if failed => ExitCode::Failed,
        _ => ExitCode::Clean,
    }
}
