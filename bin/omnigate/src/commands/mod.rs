//! What each command does, and how the process ends.

mod cache;
mod cas;
mod check;
mod completions;
mod config;
mod config_diff;
mod docs;
mod epoch;
mod fairness;
mod ledger;
mod man;
mod node;
mod overlay;
mod pack;
mod password;
mod policy;
mod running;
mod token;
mod up;
mod version;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::FromArgMatches;
use rustix::fs::Mode;

pub(crate) use cache::CacheCommand;
pub(crate) use cas::CasCommand;
pub(crate) use config::listed;
pub(crate) use epoch::EpochCommand;
pub(crate) use ledger::LedgerCommand;
pub(crate) use overlay::{Bench, Publish, PutObject, Subscribe};
pub(crate) use pack::{PackCommand, make_demo_pack};
pub(crate) use policy::PolicyCommand;
pub(crate) use running::Running;
pub(crate) use token::TokenCommand;
pub(crate) use version::about;

use crate::{
    cli::{Cli, Task, help},
    demo,
    failure::Failure,
};

/// Runs the program.
pub(crate) fn main() -> ExitCode {
    let typed = help::grouped().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
    let outcome = match typed.map_err(help::without_secrets) {
        Ok(typed) => typed.resolve().and_then(run),
        Err(shown) => {
            // Help and version are told this way too; if nobody reads them, so be it.
            let _ = shown.print();
            return ExitCode::from(u8::try_from(shown.exit_code()).unwrap_or(2));
        }
    };
    match outcome {
        Ok(code) => ExitCode::from(code as u8),
        Err(failure) => {
            let _ = writeln!(io::stderr(), "{}", failure.for_standard_error());
            ExitCode::from(failure.code() as u8)
        }
    }
}

fn run(task: Task) -> Result<ron_kernel::ExitCode, Failure> {
    if keeps_data(&task) {
        // What is made from now on is its owner's alone, whatever the caller's mask; databases make files beside theirs.
        rustix::process::umask(Mode::RWXG | Mode::RWXO);
    }
    let done = match task {
        Task::Up(source) => return up::run(source),
        Task::Demo(plan) => return demo::run(plan),
        Task::Pub { source, what } => overlay::publish(&source, &what),
        Task::Sub { source, what } => overlay::subscribe(&source, &what),
        Task::Peers { source, watch: None, json } => overlay::peers(&source, json),
        Task::Peers { source, watch: Some(interval), json } => overlay::watch_peers(&source, interval, json),
        Task::Losses { source, after, json } => overlay::losses(&source, after, json),
        Task::OverlayTop { source, interval, json } => overlay::top(&source, interval, json),
        Task::OverlayBench { near, far, plan } => overlay::bench(&near, far.as_ref(), &plan),
        Task::ObjectPut { source, what } => overlay::put_object(&source, &what),
        Task::ObjectGet { source, id, output } => overlay::get_object(&source, id, output.as_deref()),
        Task::NodeId { source, rewarder } => node::id(&source, rewarder),
        Task::NodeKey { source, rewarder } => node::key(&source, rewarder),
        Task::Fairness { plan, json } => fairness::run(&plan, json),
        Task::Running { source, what } => return running::run(&source, &what),
        Task::Check(source) => check::run(&source),
        Task::Password(user) => password::run(&user),
        Task::Token(command) => return token::run(command),
        Task::Cas(command) => return cas::run(command),
        Task::Cache(command) => cache::run(command),
        Task::Ledger(command) => return ledger::run(command),
        Task::Pack(command) => return pack::run(command),
        Task::Epoch(command) => return epoch::run(command),
        Task::Policy(command) => return policy::run(command),
        Task::ConfigInit { path, full, force } => config::init(&path, full, force),
        Task::ConfigDiff { source, json } => return config_diff::run(&source, json),
        Task::ConfigShow { source, json } => config::show(&source, json),
        Task::ConfigSchema => config::schema_json(),
        Task::ConfigReference => config::reference(),
        Task::DocsConcurrency { dir, check } => docs::concurrency(&dir, check),
        Task::DocsDashboards { dir, check } => docs::dashboards(&dir, check),
        Task::DocsManuals { dir } => docs::manuals(&dir),
        Task::Completions(shell) => completions::run(shell),
        Task::Man { dir } => man::run(dir.as_deref()),
        Task::Version { json } => version::run(json),
    };
    done.map(|()| ron_kernel::ExitCode::Clean)
}

/// Whether a command makes files that a node keeps, rather than what somebody asked for.
const fn keeps_data(task: &Task) -> bool {
    matches!(
        task,
        Task::Up(_)
            | Task::Demo(_)
            | Task::Ledger(_)
            | Task::NodeId { .. }
            | Task::NodeKey { .. }
            | Task::Fairness { .. }
            | Task::Cas(
                CasCommand::Put { .. }
                    | CasCommand::Scrub { .. }
                    | CasCommand::Stat { .. }
                    | CasCommand::Rm { .. }
            )
            | Task::Epoch(EpochCommand::Seal(_) | EpochCommand::Usage(_))
    )
}

/// Writes a command's result to standard output. A reader that has heard enough is no failure.
fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("cannot write the result: {error}")))
        }
        _ => Ok(()),
    }
}

/// JSON for people and machines, with a line end.
fn pretty(value: &serde_json::Value) -> String {
    format!("{value:#}\n")
}
