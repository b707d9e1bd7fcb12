//! The operator's program that changes a DNS zone (DNS-01).

use std::{process::Stdio, time::Duration};

use ron_kernel::Clock;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::AsyncReadExt as _,
    process::{Child, ChildStderr, Command},
};

use super::words;

/// The variables that are settings of the node, of which some are secrets that the hook need not know.
const SETTINGS: &str = "OMNIGATE_";
/// The most that is kept of what a hook says.
const MAX_WORDS: usize = 1024;

/// Why a record could not be changed.
#[derive(Debug, thiserror::Error)]
pub(super) enum HookError {
    /// The program cannot be started.
    #[error("dns_hook cannot be started: {0}")]
    Start(std::io::Error),
    /// It ended with an error.
    #[error("dns_hook {action} failed ({status}): {words}")]
    Failed {
        /// The first argument: `add` or `remove`.
        action: &'static str,
        /// The exit status or the signal with which it ended.
        status: String,
        /// The start of what it wrote to standard error.
        words: String,
    },
    /// It took too long, and was killed with all that it had started.
    #[error("dns_hook {action} took longer than {limit:?}")]
    Timeout {
        /// The first argument: `add` or `remove`.
        action: &'static str,
        /// The configured timeout of one run.
        limit: Duration,
    },
}

/// The program, as it is configured.
#[derive(Clone, Debug)]
pub(super) struct DnsHook {
    pub(super) command: Vec<String>,
    pub(super) timeout: Duration,
    pub(super) clock: Clock,
}

/// The TXT record that a CA looks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TxtRecord {
    pub(super) name: String,
    pub(super) value: String,
}

impl TxtRecord {
    /// The record for a name, of which a wildcard is checked by its base name.
    pub(super) fn new(name: &str, value: String) -> Self {
        let base = name.strip_prefix("*.").unwrap_or(name);
        Self { name: format!("_acme-challenge.{base}"), value }
    }
}

impl DnsHook {
    /// Has a record added; the hook returns when it can be seen.
    ///
    /// Cancel safe in that the program is killed with the future.
    pub(super) async fn add(&self, record: &TxtRecord) -> Result<(), HookError> {
        self.run("add", record).await
    }

    /// Has a record removed, as [`DnsHook::add`].
    pub(super) async fn remove(&self, record: &TxtRecord) -> Result<(), HookError> {
        self.run("remove", record).await
    }

    async fn run(&self, action: &'static str, record: &TxtRecord) -> Result<(), HookError> {
        let limit = self.clock.within(self.timeout);
        let done = self.clock.by(limit, self.run_to_end(action, record)).await;
        done.unwrap_or(Err(HookError::Timeout { action, limit: self.timeout }))
    }

    async fn run_to_end(&self, action: &'static str, record: &TxtRecord) -> Result<(), HookError> {
        let (program, args) = self.command.split_first().expect("a checked configuration names a program");
        let mut command = Command::new(program);
        command.args(args).args([action, &record.name, &record.value]).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        // A group of its own, which can be ended together with all that the program has started.
        command.process_group(0);
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(SETTINGS.as_bytes()) {
                command.env_remove(name);
            }
        }
        let mut child = command.spawn().map_err(HookError::Start)?;
        let group = Group::of(&child);
        let (mut said, errors) = (Vec::new(), child.stderr.take());
        let status = tokio::select! {
            biased;
            () = listen(errors, &mut said) => child.wait().await,
            // What it has started may go on, and have its standard error.
            status = child.wait() => status,
        };
        group.has_ended();
        let status = status.map_err(HookError::Start)?;
        if status.success() {
            return Ok(());
        }
        let words = words::bounded(&String::from_utf8_lossy(&said));
        Err(HookError::Failed { action, status: status.to_string(), words })
    }
}

/// The processes of a hook, which end when this is dropped before the hook has ended.
struct Group(Option<Pid>);

impl Group {
    fn of(leader: &Child) -> Self {
        Self(leader.id().and_then(|id| Pid::from_raw(id.cast_signed())))
    }

    /// The hook has ended by itself. What it has left running was meant to run on.
    fn has_ended(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // They may have ended this moment.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Reads all that a program says, and keeps the beginning.
async fn listen(errors: Option<ChildStderr>, said: &mut Vec<u8>) {
    let Some(mut errors) = errors else { return };
    let mut part = [0; 512];
    while let Ok(length @ 1..) = errors.read(&mut part).await {
        said.extend(&part[..length.min(MAX_WORDS - said.len())]);
    }
}
