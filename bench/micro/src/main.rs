//! What the kernel's primitives cost beside the bare ones they are built on. See README.md.

#![expect(
    clippy::disallowed_methods,
    reason = "measures the kernel against what it bans, and blocks while it waits"
)]

mod accept;
mod bench_topology;
mod cells;
mod gate;
mod paired;
mod queue;
mod report;
mod runtimes;
mod spawn;

use std::{error::Error, process::ExitCode};

use report::Report;

/// The product's allocator: spawning is mostly allocating.
#[global_allocator]
static ALLOC: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What went wrong, in words.
type Failure = Box<dyn Error>;

const USAGE: &str =
    "usage: micro queue|spawn|gate|phase|meter|readiness|accept|all [--rounds N] [--secs N] [--json]

  --rounds N  pairs per case (201; 7 for accept)
  --secs N    seconds per run of accept (3)
  --json      JSON instead of a table";

/// The arguments, as used.
struct Plan {
    what: String,
    rounds: Option<usize>,
    secs: u64,
    json: bool,
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let outcome = match args.next() {
        // Re-executed by `accept`, which needs a server that is a process of its own.
        Some(what) if what == accept::SERVE => accept::serve(&args.next().unwrap_or_default()),
        Some(what) => plan(what, args).and_then(|plan| run(&plan)),
        None => Err(USAGE.into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn plan(what: String, mut args: impl Iterator<Item = String>) -> Result<Plan, Failure> {
    let mut plan = Plan { what, rounds: None, secs: 3, json: false };
    while let Some(arg) = args.next() {
        let mut number = || args.next().ok_or_else(|| format!("{arg} needs a number"));
        match arg.as_str() {
            "--json" => plan.json = true,
            "--rounds" => plan.rounds = Some(number()?.parse::<usize>()?.max(1)),
            "--secs" => plan.secs = number()?.parse::<u64>()?.max(1),
            _ => return Err(USAGE.into()),
        }
    }
    Ok(plan)
}

fn run(plan: &Plan) -> Result<(), Failure> {
    let rounds = plan.rounds.unwrap_or(201);
    let mut report = Report::default();
    let all = plan.what == "all";
    let mut known = all;
    let mut chosen = |name: &str| {
        let chosen = all || plan.what == name;
        known |= chosen;
        chosen
    };
    if chosen("queue") {
        queue::run(rounds, &mut report)?;
    }
    if chosen("spawn") {
        spawn::run(rounds, &mut report)?;
    }
    if chosen("gate") {
        gate::run(rounds, &mut report)?;
    }
    if chosen("phase") {
        cells::phase(rounds, &mut report)?;
    }
    if chosen("meter") {
        cells::meter(rounds, &mut report)?;
    }
    if chosen("readiness") {
        cells::readiness(rounds, &mut report)?;
    }
    if chosen("accept") {
        accept::run(plan.rounds.unwrap_or(7), plan.secs, &mut report)?;
    }
    if !known {
        return Err(USAGE.into());
    }
    report.print(plan.json)
}
