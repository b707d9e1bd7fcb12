//! The proof that a flooding tenant does not move another: sleeping server, gateway and clients on one machine.

mod client;
mod load;
mod report;
mod scenario;
mod sleeper;
mod subject;

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use ron_kernel::{
    Kernel, Scope,
    topology::{ChildSpec, Plane, Stage, Topology},
};
use ron_transport::{
    addr::ListenAddr,
    listen::{BindOptions, Listener},
    proxy_protocol::TrustedSources,
    serve::{CONNECTION, H2_STREAM, HttpLimits, HttpServer, LISTENER, ListenPlan, Roles},
};

use crate::failure::Failure;
use load::Running;
pub(crate) use report::Report;
use report::Row;
use scenario::{Bench, Case, Judge, Mode, Outcomes};
use sleeper::Sleeper;
use subject::Subject;

/// How long a flow runs before it counts: what is slow has to be found out first.
const WARM_UP: Duration = Duration::from_millis(1500);
/// How long answers may still come after the last request was due.
const LATE: Duration = Duration::from_millis(1500);

const LOAD: ChildSpec = ChildSpec {
    kind: "load",
    plane: Plane::Data,
    stop: Stage::Workers,
    bound: "the connections of the case that runs",
    doc: "one client connection that sends its part of a flow",
};

/// What the proof itself runs.
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
    /// Only these tests; all if empty.
    pub(crate) only: Vec<String>,
    /// How long each case is measured.
    pub(crate) length: Duration,
    /// How often everything is run.
    pub(crate) repeat: u32,
    /// Slots of the sleeping server.
    pub(crate) slots: usize,
    /// How long each request takes one.
    pub(crate) service_time: Duration,
}

/// Runs the plan; `tell` hears what is being run. Blocking.
pub(crate) fn prove(plan: &Plan, mut tell: impl FnMut(&str, u64, u64)) -> Result<Report, Failure> {
    let dir = ScratchDir::make().map_err(|error| Failure::failed(format!("no scratch folder: {error}")))?;
    let kernel = Kernel::builder("fairness").build().map_err(Failure::failed)?;
    let scope = kernel.scope(&TOPOLOGY);
    let bench = Bench {
        slots: plan.slots,
        service_time: plan.service_time,
        length: plan.length,
        weights: vec![("two", 2), ("four", 4)],
    };
    let upstream = start_sleeper(&kernel, &scope, &bench).map_err(Failure::failed)?;
    let cases = scenario::cases(&bench, &plan.only);
    let runs = cases.iter().map(|case| case.modes.len() as u64).sum::<u64>() * u64::from(plan.repeat);
    let mut report = Report::default();
    let mut solo = Duration::ZERO;
    let mut done = 0;
    for round in 1..=plan.repeat {
        for case in &cases {
            for mode in case.modes {
                tell(&format!("{} {}, {}", case.test, case.name, mode.name()), done, runs);
                let outcomes = run(&kernel, &scope, &bench, case, *mode, upstream, &dir.0)
                    .map_err(|error| Failure::failed(format!("the gateway under test: {error}")))?;
                if matches!(case.judge, Judge::Solo) {
                    solo = scenario::victim(&outcomes).map(|v| v.percentile(99)).unwrap_or_default();
                }
                report.add(Row::new(round, &bench, case, *mode, &outcomes, solo));
                done += 1;
            }
        }
    }
    tell("done", done, runs);
    Ok(report)
}

/// One case in one mode.
fn run(
    kernel: &Kernel,
    scope: &Scope,
    bench: &Bench,
    case: &Case,
    mode: Mode,
    upstream: SocketAddr,
    dir: &Path,
) -> io::Result<Outcomes> {
    let subject = Subject::start(bench, mode, upstream, dir)?;
    let clock = scope.clock();
    Ok(kernel.block_on(async {
        let start = |flow: &load::Flow| Running::start(scope, flow.clone(), subject.addr(), bench.length);
        // All of them run while this waits.
        let mut running = Vec::with_capacity(case.flows.len());
        running.extend(case.flows.iter().map(start));
        let _ = clock.by(clock.within(WARM_UP + bench.length + LATE), std::future::pending::<()>()).await;
        running.into_iter().map(Running::finish).collect()
    }))
}

/// Starts the sleeping server on a port of its own.
fn start_sleeper(kernel: &Kernel, scope: &Scope, bench: &Bench) -> Result<SocketAddr, String> {
    let sleeper = Sleeper::new(bench.slots, bench.service_time);
    let addr = ListenAddr::Tcp(([127, 0, 0, 1], 0).into());
    let limits = HttpLimits {
        max_conns: 16_384,
        max_conns_per_client: 16_384,
        write_timeout: Duration::from_secs(60),
        ..HttpLimits::default()
    };
    kernel.block_on(async {
        let listener = Listener::bind(&addr, BindOptions::default()).map_err(|error| error.to_string())?;
        let plan = ListenPlan {
            listener: Some(listener),
            tls: None,
            proxy_protocol: TrustedSources::default(),
            limits,
        };
        let server = HttpServer::start(scope, Roles::default(), plan, |_| sleeper.clone());
        match server.local_addr() {
            ListenAddr::Tcp(addr) => Ok(addr),
            other => Err(format!("the server listens on {other}")),
        }
    })
}

/// A folder that goes with its last use.
struct ScratchDir(PathBuf);

#[expect(clippy::disallowed_methods, reason = "the command has nothing else to do meanwhile")]
impl ScratchDir {
    fn make() -> io::Result<Self> {
        let dir = std::env::temp_dir().join(format!("omnigate-fairness-{}", std::process::id()));
        std::fs::create_dir(&dir)?;
        Ok(Self(dir))
    }
}

#[expect(clippy::disallowed_methods, reason = "the command has nothing else to do meanwhile")]
impl Drop for ScratchDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
