//! `omnigate status`, `health`, `top`, `reload` and `stop`: the running node, by way of its admin listener.

mod page;
mod top;

use std::time::{Duration, Instant};

use ron_kernel::ExitCode;
use serde_json::Value;

use super::overlay::{admin_client::AdminClient, list_of, text_of};
use crate::{config_file::ConfigSource, failure::Failure};

/// How often a node that stops is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How long a node that stops may take to say that it will.
const PATIENCE: Duration = Duration::from_secs(10);

/// What to do with the running node.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Running {
    /// Show everything once.
    Status { timeout: Duration, json: bool },
    /// Say whether it takes requests.
    Health { timeout: Duration, json: bool },
    /// Show its requests over and over.
    Top { interval: Duration, count: Option<u64>, json: bool },
    /// Have it read its configuration again.
    Reload { timeout: Duration, json: bool },
    /// Have it drain and end; `wait` is how long that may take, `None` not to wait.
    Stop { wait: Option<Duration> },
}

/// Asks the node whose configuration this is.
pub(super) fn run(source: &ConfigSource, what: &Running) -> Result<ExitCode, Failure> {
    if matches!(what, Running::Reload { .. }) {
        // What is wrong with the files is told here, with colours and without the node.
        source.load()?;
    }
    let client = AdminClient::of(source)?;
    match *what {
        Running::Status { timeout, json } => status(&client.within(timeout), json),
        Running::Health { timeout, json } => return health(&client.within(timeout), json),
        Running::Top { interval, count, json } => top::run(&client.within(PATIENCE), interval, count, json),
        Running::Reload { timeout, json } => reload(&client.within(timeout), json),
        Running::Stop { wait } => stop(&client.within(PATIENCE), wait),
    }?;
    Ok(ExitCode::Clean)
}

fn status(client: &AdminClient, as_json: bool) -> Result<(), Failure> {
    let seen = client.get("/status")?;
    super::print(&if as_json { super::pretty(&seen) } else { page::status(&seen) })
}

/// Prints how the node is, and returns what scripts and container runtimes look at.
fn health(client: &AdminClient, as_json: bool) -> Result<ExitCode, Failure> {
    let (status, seen) = client.look("/readyz")?;
    super::print(&if as_json { format!("{seen}\n") } else { page::readiness(&seen) })?;
    Ok(if status == 200 { ExitCode::Clean } else { ExitCode::Failed })
}

fn reload(client: &AdminClient, as_json: bool) -> Result<(), Failure> {
    let done = client.post("/reload", b"")?;
    if as_json {
        return super::print(&format!("{done}\n"));
    }
    let mut told = format!("generation {} of the configuration is in force\n", done["generation"]);
    for reason in list_of(&done, "restart_needed").filter_map(Value::as_str) {
        told.push_str(&format!("but not all of it: {reason}\n"));
    }
    super::print(&told)
}

fn stop(client: &AdminClient, wait: Option<Duration>) -> Result<(), Failure> {
    let answer = client.post("/shutdown", b"")?;
    let Some(wait) = wait else { return super::print(&format!("{}\n", text_of(&answer, "status"))) };
    let until = Instant::now() + wait;
    // The admin listener closes last.
    while client.is_up() {
        if Instant::now() >= until {
            let problem = format!("the node has not stopped within {wait:?}; it may still be draining");
            return Err(
                Failure::failed(problem).help("`omnigate status` shows its phase; wait longer with --wait")
            );
        }
        pause(LOOK_AGAIN);
    }
    super::print("stopped\n")
}

#[expect(
    clippy::disallowed_methods,
    reason = "a command that waits; no runtime is running that it could block"
)]
fn pause(length: Duration) {
    std::thread::sleep(length);
}
