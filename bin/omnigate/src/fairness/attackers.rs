//! The hostile clients of a case: this very program as a child process. Attackers have machines of their own; what they do to
//! their own memory and processors must not stall the server and the victim, which run in the process that measures.

use std::{
    io,
    net::SocketAddr,
    process::{Child, Command, Stdio},
};

use rustix::process::setpriority_process;

use super::{
    CLIENT_CORES, TOPOLOGY,
    load::{Flow, Manner, Running},
    pause,
    scenario::{self, Bench, Case},
};
use crate::failure::Failure;
use ron_kernel::Kernel;

/// The lowest priority of a process (`nice`): attackers use what the gateway, its server and the victim leave over, and may use
/// all of that.
const LOWEST: i32 = 19;

/// The running attackers of a case; stopped when dropped.
#[derive(Debug)]
pub(super) struct Attackers {
    child: Child,
}

impl Attackers {
    /// Starts the attackers of a case towards the gateway; `None` if it has none. Blocking.
    pub(super) fn start(bench: &Bench, case: &Case, to: SocketAddr) -> io::Result<Option<Self>> {
        if !case.flows.iter().any(is_hostile) {
            return Ok(None);
        }
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["fairness", "--only", case.test, "--case", &case.name, "--attack", &to.to_string()]);
        command.args(["--length", &format!("{}ms", bench.length.as_millis())]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
        Ok(Some(Self { child }))
    }
}

impl Drop for Attackers {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a flow is sent by the process of the attackers.
pub(super) fn is_hostile(flow: &Flow) -> bool {
    matches!(flow.manner, Manner::Hostile(_))
}

/// Runs the hostile flows of the case with this name towards a gateway on this machine, for as long as the case lasts. Blocking.
pub(super) fn attack(bench: &Bench, only: &[String], name: &str, to: SocketAddr) -> Result<(), Failure> {
    if !to.ip().is_loopback() {
        return Err(Failure::failed(format!("{to} is not on this machine")));
    }
    let cases = scenario::cases(bench, only, Some(name));
    let case = cases.iter().find(|case| case.name == name);
    let case = case.ok_or_else(|| Failure::failed(format!("there is no case `{name}`")))?;
    // Threads that are started later inherit it. If it cannot be done, the case is only harder to pass.
    let _ = setpriority_process(None, LOWEST);
    let kernel =
        Kernel::builder("fairness-attackers").cores(CLIENT_CORES).build().map_err(Failure::failed)?;
    let scope = kernel.scope(&TOPOLOGY);
    let mut signals = kernel.watch_signals().map_err(Failure::failed)?;
    let hostile = case.flows.iter().filter(|flow| is_hostile(flow));
    let lasts = hostile.clone().map(|flow| flow.lasts(bench.length)).max().unwrap_or_default();
    let running: Vec<_> =
        hostile.map(|flow| Running::start(&scope, flow.clone(), to, bench.length)).collect();
    let end = scope.clock().within(lasts);
    let ended = kernel.block_on(signals.unless_told_to_stop(pause(scope.clock(), end)));
    drop(running);
    ended.ok_or_else(|| Failure::failed("ended by a signal"))
}
