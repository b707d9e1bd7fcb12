//! The `[node]` table.

use std::{path::PathBuf, time::Duration};

use ron_kernel::{
    config::{Checks, HumanDuration, PathSetting, Problems, Table},
    planes::RuntimeMode,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const NAME_MAX: usize = 63;
const CORES_MAX: usize = 1024;
const DRAIN_MIN: Duration = Duration::from_secs(1);
const DRAIN_SAFE_MAX: Duration = Duration::from_secs(60);
const UPGRADE_SAFE_MAX: Duration = Duration::from_secs(60 * 60);

/// The node as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NodeConfig {
    /// The node's name: the `node` label of its metrics.
    pub(crate) name: String,
    /// The folder for everything that the node stores. It is created when something is first stored, and not used
    /// with `amnesia`.
    #[schemars(with = "PathSetting")]
    pub(crate) data_dir: PathBuf,
    /// Diskless mode: the node writes nothing to a disk and keeps data in RAM, as far as there is room.
    pub(crate) amnesia: bool,
    /// The kind of node: a `micronode` disconnects silent peers after 15 s, a `macronode` after 30 s, unless
    /// `overlay.timeouts.idle` is set.
    pub(crate) profile: Profile,
    /// How requests are distributed over the cores: one runtime per core, or one runtime shared by all.
    pub(crate) runtime: RuntimeKind,
    /// Number of cores that serve requests; 0 means all cores of the machine.
    pub(crate) cores: usize,
    /// Allows protective limits to be set above their safe maximum. Each such limit is logged as a warning.
    pub(crate) danger_ok: bool,
    /// Restricts the process to the files in folders that the configuration names, without signals and abstract
    /// sockets of other processes (Landlock), and without the system calls that a node never makes (seccomp).
    /// `auto`: as far as the kernel supports it; `on`: the node does not start without it; `off`. The network, Unix
    /// sockets with a path and `chmod` are not restricted.
    pub(crate) sandbox: SandboxMode,
    /// Whether SIGUSR2 may start a new version of the program. With `false`, a sandboxed node cannot start any
    /// program; otherwise a compromised node can make the system's loader run a file that it can read.
    pub(crate) upgrades: bool,
    /// The time from the start of a shutdown until everything that still runs is aborted and named in the log; 1s
    /// to 60s. Service managers and orchestrators must wait at least this long before they kill the process.
    pub(crate) drain_deadline: HumanDuration,
    /// The drain deadline of the old process after an upgrade (SIGUSR2), if it is longer than `drain_deadline`:
    /// requests in progress have this long to finish; 1h at most.
    pub(crate) upgrade_deadline: HumanDuration,
    /// How long a drain keeps idle connections open, so that no client loses its next request; that request is
    /// answered with `Connection: close`. At most half of `drain_deadline` is used; `0s` closes idle connections at
    /// once.
    pub(crate) drain_idle: HumanDuration,
}

/// Whether a sandbox holds the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SandboxMode {
    /// The node has as much of a sandbox as the kernel offers; the log warns of what is missing.
    #[default]
    Auto,
    /// A node that cannot have the whole sandbox does not start.
    On,
    /// The node has no sandbox.
    Off,
}

/// What kind of node it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Profile {
    /// Small: what is not used is given up soon.
    Micronode,
    /// A large node, such as a server.
    #[default]
    Macronode,
}

impl Profile {
    /// How long a peer may be silent.
    pub(crate) const fn idle(self) -> Duration {
        match self {
            Self::Micronode => Duration::from_secs(15),
            Self::Macronode => Duration::from_secs(30),
        }
    }
}

/// How the data plane is laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RuntimeKind {
    /// One single-threaded runtime per core; a connection never moves.
    #[default]
    PerCore,
    /// One work-stealing runtime for all cores.
    Shared,
}

impl From<RuntimeKind> for RuntimeMode {
    fn from(kind: RuntimeKind) -> Self {
        match kind {
            RuntimeKind::PerCore => Self::PerCore,
            RuntimeKind::Shared => Self::Shared,
        }
    }
}

impl Default for NodeConfig {
    fn default() -> Self {
        Self {
            name: "omnigate".to_owned(),
            data_dir: "./data".into(),
            amnesia: false,
            profile: Profile::default(),
            runtime: RuntimeKind::default(),
            cores: 0,
            danger_ok: false,
            sandbox: SandboxMode::default(),
            upgrades: true,
            drain_deadline: HumanDuration::from_secs(3),
            upgrade_deadline: HumanDuration::from_secs(30),
            drain_idle: HumanDuration::from_secs(1),
        }
    }
}

impl Table for NodeConfig {
    const NAME: &'static str = "node";
    const RESTART: &'static [&'static str] =
        &["name", "data_dir", "amnesia", "profile", "runtime", "cores", "sandbox", "upgrades"];

    fn check(&self, checks: &Checks, problems: &mut Problems) {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if self.name.is_empty() || self.name.len() > NAME_MAX || !self.name.chars().all(fits) {
            let help = format!("use 1 to {NAME_MAX} letters, digits, dots, dashes and underscores");
            problems.at("name", "cannot name a node").help(help);
        }
        if self.data_dir.as_os_str().is_empty() {
            problems.at("data_dir", "must name a folder").help("write \"./data\", or set amnesia = true");
        }
        if self.cores > CORES_MAX {
            let message = format!("{} is more cores than a machine has", self.cores);
            problems.at("cores", message).help("use 0 for all cores");
        }
        let deadline = self.drain_deadline;
        if deadline.as_duration() < DRAIN_MIN {
            let message = format!("{deadline} is too short to finish what is in flight");
            problems.at("drain_deadline", message).help("use a value from 1s to 60s");
        }
        problems.guard("drain_deadline", deadline, DRAIN_SAFE_MAX.into(), checks.danger_ok());
        let upgrade = self.upgrade_deadline;
        problems.guard("upgrade_deadline", upgrade, UPGRADE_SAFE_MAX.into(), checks.danger_ok());
    }
}
