//! The proof that a flooding tenant does not move another: sleeping server, gateway and clients on one machine.

mod attack;
mod attackers;
mod judge;
mod load;
mod obedient;
mod outcome;
mod report;
mod scenario;
mod stalls;
mod subject;

use std::{io, net::SocketAddr, num::NonZeroUsize, path::Path, time::Duration};

use ron_kernel::{
    Clock, Kernel, Scope, Signals,
    topology::{self, ChildSpec, Plane, Topology},
};
use ron_transport::serve::{CONNECTION, H2_STREAM, LISTENER};
use rustix::process::setpriority_process;
use types::Deadline;

use crate::{
    failure::Failure,
    rig::{ScratchDir, Sleeper, start_sleeper},
};
use attackers::Attackers;
use judge::{Baseline, Outcomes};
use load::{Flow, Running};
use outcome::Outcome;
pub(crate) use report::Report;
use report::Row;
pub(crate) use scenario::TESTS;
use scenario::{Bench, Case, Mode};
use stalls::Witness;
use subject::Subject;

/// How long a flow runs before it counts: what is slow has to be found out first.
const WARM_UP: Duration = Duration::from_millis(1500);
/// How long answers may still come after the last request was due.
const LATE: Duration = Duration::from_millis(1500);

/// The highest priority of a thread (`nice`).
const FIRST: i32 = -20;

/// Threads that send: one for who is measured, two for the crowd.
const CLIENT_CORES: NonZeroUsize = NonZeroUsize::new(3).expect("three is not zero");

const LOAD: ChildSpec = ChildSpec {
    kind: "load",
    plane: Plane::Data,
    stop: topology::Stage::Workers,
    bound: "the connections of the case that runs",
    doc: "one client connection that sends its part of a flow",
};

/// The declaration of what the measurement itself runs.
static TOPOLOGY: Topology = Topology {
    service: "fairness",
    purpose: "A sleeping server and the clients of a gateway under test.",
    last_reviewed: "2026-11-16",
    invariants: &["Clients send when they are due, not when the last answer came."],
    tasks: &[LISTENER],
    children: &[CONNECTION, H2_STREAM, LOAD],
    queues: &[],
    locks: &[],
    timeouts: &[],
    metrics: &[],
    trade_offs: &[],
};

/// What to prove, and how thoroughly.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Only these [`TESTS`]; those about neighbours if empty.
    pub(crate) only: Vec<String>,
    /// Only the cases whose names contain this, and those that they are measured against.
    pub(crate) case: Option<String>,
    /// How long each case is measured.
    pub(crate) length: Duration,
    /// How often everything is run that is held to something; the rest is there to compare with, and run once.
    pub(crate) repeat: u32,
    /// Slots of the sleeping server.
    pub(crate) slots: usize,
    /// How long each request takes one.
    pub(crate) service_time: Duration,
    /// Only attack this gateway, as the hostile clients of the case do: another process measures it.
    pub(crate) attack: Option<SocketAddr>,
}

impl Plan {
    fn bench(&self) -> Bench {
        Bench {
            slots: self.slots,
            service_time: self.service_time,
            length: self.length,
            weights: vec![("two", 2), ("four", 4)],
        }
    }
}

/// Runs only the hostile clients of the case that the plan names, towards a gateway that another process measures. Blocking.
pub(crate) fn attack(plan: &Plan, to: SocketAddr) -> Result<(), Failure> {
    attackers::attack(&plan.bench(), &plan.only, plan.case.as_deref().unwrap_or_default(), to)
}

/// Runs the plan; `tell` hears what is being run. Blocking.
pub(crate) fn prove(plan: &Plan, mut tell: impl FnMut(&str, u64, u64)) -> Result<Report, Failure> {
    let dir = ScratchDir::make("fairness")
        .map_err(|error| Failure::failed(format!("no scratch folder: {error}")))?;
    // The server has a kernel of its own, and who is measured a thread: neither is to wait for the crowd's turn.
    let server =
        Kernel::builder("fairness-server").cores(NonZeroUsize::MIN).build().map_err(Failure::failed)?;
    let kernel = Kernel::builder("fairness").cores(CLIENT_CORES).build().map_err(Failure::failed)?;
    let (server_scope, scope) = (server.scope(&TOPOLOGY), kernel.scope(&TOPOLOGY));
    run_first(&server_scope);
    run_first(&scope);
    let bench = plan.bench();
    let sleeper = Sleeper::new(bench.slots, bench.service_time, server_scope.clock());
    let upstream = start_sleeper(&server, &server_scope, &sleeper).map_err(Failure::failed)?;
    let cases = scenario::cases(&bench, &plan.only, plan.case.as_deref());
    let runs: Vec<_> = (1..=plan.repeat).flat_map(|round| runs_of(&cases, round)).collect();
    let stage =
        Stage { kernel: &kernel, scope: &scope, bench: &bench, sleeper: &sleeper, upstream, dir: dir.path() };
    // The gateway under test is a process of its own, which must not outlive this one.
    let mut signals = kernel.watch_signals().map_err(Failure::failed)?;
    let (mut report, mut baseline, mut done) = (Report::default(), Baseline::default(), 0);
    for (round, case, mode) in &runs {
        tell(&format!("{} {}, {}", case.test, case.name, mode.name()), done, runs.len() as u64);
        let outcomes = stage
            .run(case, *mode, &mut signals)
            .map_err(|error| Failure::failed(format!("the gateway under test: {error}")))?
            .ok_or_else(|| Failure::failed("ended by a signal"))?;
        let (shown, holds) = case.judge.look(&bench, &outcomes, &mut baseline);
        report.add(Row::new(*round, case, *mode, shown, holds));
        done += 1;
    }
    tell("done", done, done);
    Ok(report)
}

/// Has the system run the first core of a kernel before all other threads: the server's only one, and the one that sends what is
/// measured. Both would have machines of their own. The crowd and the gateway under test, which the main thread starts, keep the
/// usual priority. Where this is not allowed, a busy machine spoils more samples.
fn run_first(scope: &Scope) {
    if let Some(core) = scope.planes().cores().first() {
        scope.children(&LOAD).spawn_on(core, async {
            let _ = setpriority_process(None, FIRST);
        });
    }
}

/// What is run in a round: everything in the first, later only what is held to something.
fn runs_of(cases: &[Case], round: u32) -> impl Iterator<Item = (u32, &Case, Mode)> {
    let all = cases.iter().flat_map(|case| case.modes.iter().map(move |mode| (case, *mode)));
    all.filter(move |(_, mode)| round == 1 || mode.is_judged()).map(move |(case, mode)| (round, case, mode))
}

/// The environment that the cases run in.
struct Stage<'a> {
    kernel: &'a Kernel,
    scope: &'a Scope,
    bench: &'a Bench,
    sleeper: &'a Sleeper,
    upstream: SocketAddr,
    dir: &'a Path,
}

impl Stage<'_> {
    /// One case in one mode; `None` if a signal ends it. Blocking.
    fn run(&self, case: &Case, mode: Mode, signals: &mut Signals) -> io::Result<Option<Outcomes>> {
        let subject = Subject::start(self.bench, (mode, case.per_ip_rps), self.upstream, self.dir)?;
        let before = subject.configurations()?;
        let played = signals.unless_told_to_stop(self.play(case, &subject));
        let Some(played) = self.kernel.block_on(played) else { return Ok(None) };
        let (flows, busy) = played?;
        Ok(Some(Outcomes { flows, busy, reloads: subject.configurations()? - before }))
    }

    /// Lets the flows of a case run to their end, and reloads the subject meanwhile if the case says so. Gives what became
    /// of them, and how busy the server was while they counted.
    async fn play(&self, case: &Case, subject: &Subject) -> io::Result<(Vec<(String, Outcome)>, f64)> {
        let (clock, length) = (self.scope.clock(), self.bench.length);
        let lasts = case.flows.iter().map(|flow| flow.lasts(length)).max().unwrap_or_default();
        let warm_up = case.flows.iter().map(Flow::warm_up).max().unwrap_or_default();
        let (counted_from, end) = (clock.within(warm_up), clock.within(lasts));
        let start = |flow: &Flow| Running::start(self.scope, flow.clone(), subject.addr(), length);
        let witness = Witness::start(self.scope, lasts + LATE);
        // All of them run while this waits.
        let _attackers = Attackers::start(self.bench, case, subject.addr())?;
        let own = case.flows.iter().filter(|flow| !attackers::is_hostile(flow));
        let mut running = Vec::with_capacity(case.flows.len());
        running.extend(own.map(start));
        pause(clock, counted_from).await;
        let busy_before = self.sleeper.busy();
        for count in 1.. {
            let Some(every) = case.reload_every.filter(|_| !end.has_passed(clock.now())) else { break };
            subject.reload(count)?;
            pause(clock, clock.within(every)).await;
        }
        pause(clock, end).await;
        let busy = self.sleeper.busy().saturating_sub(busy_before);
        let all = (lasts - warm_up).mul_f64(self.bench.slots as f64);
        pause(clock, clock.within(LATE)).await;
        let stalls = witness.stalls();
        let flows = running.into_iter().map(|flow| flow.finish(&stalls)).collect();
        Ok((flows, busy.as_secs_f64() / all.as_secs_f64()))
    }
}

async fn pause(clock: Clock, until: Deadline) {
    let _ = clock.by(until, std::future::pending::<()>()).await;
}
