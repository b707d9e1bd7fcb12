//! `omnigate status`, `health`, `top`, `reload` and `stop`, as typed.

use std::time::Duration;

use clap::Args;

use super::{ConfigArgs, Task, duration};
use crate::{commands::Running, failure::Failure};

/// A reload reads files and may look names up.
const SHORTEST_RELOAD: Duration = Duration::from_secs(60);

/// Options of commands that query a running node.
#[derive(Args, Debug)]
pub(super) struct AskArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Timeout for the node's answer.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    timeout: Duration,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// Options of commands that watch a running node.
#[derive(Args, Debug)]
pub(super) struct TopArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Interval between two updates; rates are measured over this time.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    interval: Duration,
    /// Exit after this many updates.
    #[arg(long, value_name = "NUMBER")]
    count: Option<u64>,
    /// Print each update as one line of JSON.
    #[arg(long)]
    json: bool,
}

/// Options of the command that stops a running node.
#[derive(Args, Debug)]
pub(super) struct StopArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// How long to wait for the node to drain; its own `drain_deadline` is usually shorter.
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = duration)]
    wait: Duration,
    /// Do not wait for the node to drain.
    #[arg(long, conflicts_with = "wait")]
    no_wait: bool,
}

impl AskArgs {
    pub(super) fn status(self) -> Result<Task, Failure> {
        let what = Running::Status { timeout: self.timeout, json: self.json };
        Ok(Task::Running { source: self.config.resolve()?, what })
    }

    pub(super) fn health(self) -> Result<Task, Failure> {
        let what = Running::Health { timeout: self.timeout, json: self.json };
        Ok(Task::Running { source: self.config.resolve()?, what })
    }

    pub(super) fn reload(self) -> Result<Task, Failure> {
        let what = Running::Reload { timeout: self.timeout.max(SHORTEST_RELOAD), json: self.json };
        Ok(Task::Running { source: self.config.resolve()?, what })
    }
}

impl TopArgs {
    pub(super) fn resolve(self) -> Result<Task, Failure> {
        let what = Running::Top { interval: self.interval, count: self.count, json: self.json };
        Ok(Task::Running { source: self.config.resolve()?, what })
    }
}

impl StopArgs {
    pub(super) fn resolve(self) -> Result<Task, Failure> {
        let what = Running::Stop { wait: (!self.no_wait).then_some(self.wait) };
        Ok(Task::Running { source: self.config.resolve()?, what })
    }
}
