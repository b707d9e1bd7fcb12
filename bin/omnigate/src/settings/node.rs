//! The `[node]` table.

use std::{path::PathBuf, time::Duration};

use ron_kernel::{
    config::{Checks, HumanDuration, Problems, Table},
    planes::RuntimeMode,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const NAME_MAX: usize = 63;
const CORES_MAX: usize = 1024;
const DRAIN_MIN: Duration = Duration::from_secs(1);
const DRAIN_SAFE_MAX: Duration = Duration::from_secs(5);

/// The node as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NodeConfig {
    /// The node's name: the `node` label of its metrics.
    pub(crate) name: String,
    /// Where the node keeps what it stores; made when something is to be stored. Never touched with `amnesia`.
    pub(crate) data_dir: PathBuf,
    /// Whether the node must not write anything to a disk: what would be stored is kept in RAM, as far as there is room.
    pub(crate) amnesia: bool,
    /// What kind of node it is: a `micronode` gives silent peers up after 15 s, a `macronode` after 30 s, unless
    /// `overlay.timeouts.idle` says otherwise.
    pub(crate) profile: Profile,
    /// How requests are spread over the cores: one runtime per core, or one shared by all.
    pub(crate) runtime: RuntimeKind,
    /// Cores that serve requests; 0 stands for all of the machine.
    pub(crate) cores: usize,
    /// Lets protecting limits pass their safe maximum. Each that does is warned about.
    pub(crate) danger_ok: bool,
    /// Whether the process gives up reaching files outside the folders that the configuration names, signals and abstract
    /// sockets of other processes (Landlock), and the system calls that a node never makes (seccomp): `auto` (where the
    /// kernel can), `on` (a node that cannot does not start), or `off`. It does not restrict the network, Unix sockets with a
    /// path, or `chmod`.
    pub(crate) sandbox: SandboxMode,
    /// Whether SIGUSR2 may start a new version of the program. With `false` a node in its sandbox can start no program at
    /// all; otherwise a compromised one can have the system's loader run what it can read.
    pub(crate) upgrades: bool,
    /// From the first sign of shutdown until what still runs is aborted and named; 1s to 5s.
    pub(crate) drain_deadline: HumanDuration,
    /// How long a drain keeps connections open that have no request, so that no client loses its next one: that is answered
    /// with `Connection: close`. At most half of `drain_deadline` counts; `0s` closes them at once.
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
    /// Large.
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
            problems.at("drain_deadline", message).help("use a value from 1s to 5s");
        }
        problems.guard("drain_deadline", deadline, DRAIN_SAFE_MAX.into(), checks.danger_ok());
    }
}
