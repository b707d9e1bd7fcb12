//! The conductor: waits for a reason to stop, then walks the node through its stages and says how it went.

use std::{io, time::Duration};

use ron_sync::phase::{Phase, Stage};
use tokio::signal::unix::{Signal, SignalKind, signal};
use types::Deadline;

use crate::{
    Exit, ExitCode, Kernel,
    bus::{Heard, KernelEvent, Subscription},
    heartbeat::{self, BEAT},
    readiness::Effect,
};

/// How often a stage looks whether everything in it has ended.
const LOOK: Duration = Duration::from_millis(2);
/// How long aborted tasks and runtimes get to go.
const GRACE: Duration = Duration::from_millis(400);

/// The stages after readiness has flipped, in order.
const STAGES: [Stage; 4] = [Stage::Intake, Stage::Workers, Stage::Writers, Stage::Support];

/// Conducts a node to its end.
pub(crate) async fn conduct(kernel: &Kernel, own_signals: bool) -> io::Result<Exit> {
    let mut signals = if own_signals {
        Some(Signals::watch()?)
    } else {
        None
    };
    let cause = run_until_asked(kernel, &mut signals).await;
    let clock = kernel.shared.clock;
    let start = clock.now();
    let drain_deadline = *kernel
        .shared
        .drain_deadline
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    tracing::info!(cause, deadline_ms = drain_deadline.as_millis(), "draining");
    let outcome = drain(kernel, &mut signals, Deadline::within(start, drain_deadline)).await;
    let aborted = match outcome {
        Outcome::Drained => Vec::new(),
        Outcome::DeadlinePassed | Outcome::SecondSignal => abort(kernel),
    };
    let stuck = end(kernel, outcome);
    kernel.shared.shutdown.advance(Phase::Stopped);
    let code = exit_code(outcome, kernel.shared.failure().is_some(), &aborted, &stuck);
    Ok(Exit {
        code,
        cause,
        aborted,
        stuck,
        took: clock.now().since(start),
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Drained,
    DeadlinePassed,
    SecondSignal,
}

/// Beats, ticks and listens until somebody asks the node to stop; returns why.
async fn run_until_asked(kernel: &Kernel, signals: &mut Option<Signals>) -> String {
    let mut events = kernel.shared.bus.subscribe();
    // A request published before this subscription began.
    if let Some(failure) = kernel.shared.failure() {
        return failure.to_owned();
    }
    let mut beat = tokio::time::interval(BEAT);
    loop {
        tokio::select! {
            _ = beat.tick() => {
                heartbeat::look(&kernel.own);
                let _ = kernel.tick.try_send(());
            }
            cause = shutdown_event(&mut events) => return cause,
            name = next_signal(signals) => return format!("received {name}"),
        }
    }
}

/// The cause of the next shutdown request on the bus.
async fn shutdown_event(events: &mut Subscription) -> String {
    loop {
        match events.next().await {
            Some(Heard::Event(KernelEvent::Shutdown { cause })) => return cause,
            Some(_) => {}
            None => return "the event bus is gone".to_owned(),
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
async fn drain(kernel: &Kernel, signals: &mut Option<Signals>, deadline: Deadline) -> Outcome {
    let shared = &kernel.shared;
    for service in shared.readiness.services() {
        shared
            .readiness
            .condition(service, "draining", Effect::Down, Duration::ZERO)
            .raise("the node is stopping");
    }
    shared.shutdown.advance(Phase::Draining(Stage::Readiness));
    let walk = async {
        for stage in STAGES {
            shared.shutdown.advance(Phase::Draining(stage));
            while shared.supervisor.alive(stage) > 0 {
                tokio::time::sleep(LOOK).await;
            }
        }
        while !shared.blocking.running().is_empty() {
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::select! {
        biased;
        name = next_signal(signals) => {
            tracing::warn!(signal = name, "a second signal ends the node at once");
            Outcome::SecondSignal
        }
        () = walk => Outcome::Drained,
        () = shared.clock.sleep_until(deadline.moment()) => Outcome::DeadlinePassed,
    }
}

/// Names and ends what did not stop by itself.
fn abort(kernel: &Kernel) -> Vec<String> {
    kernel.shared.shutdown.advance(Phase::Aborting);
    let aborted = kernel.shared.supervisor.abort_all();
    tracing::error!(aborted = aborted.join(", "), "the drain deadline has passed");
    aborted
}

/// Ends the runtimes; names what does not let go.
fn end(kernel: &Kernel, outcome: Outcome) -> Vec<String> {
    let grace = if outcome == Outcome::SecondSignal {
        Duration::ZERO
    } else {
        GRACE
    };
    let mut stuck: Vec<String> = kernel.shared.planes.end(grace);
    stuck.extend(
        kernel
            .shared
            .blocking
            .running()
            .iter()
            .map(|job| format!("blocking: {job}")),
    );
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

/// The signals that end a node.
struct Signals {
    term: Signal,
    int: Signal,
}

impl Signals {
    fn watch() -> io::Result<Self> {
        Ok(Self {
            term: signal(SignalKind::terminate())?,
            int: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.term.recv() => "SIGTERM",
            _ = self.int.recv() => "SIGINT",
        }
    }
}
