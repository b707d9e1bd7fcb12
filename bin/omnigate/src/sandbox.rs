//! The sandbox: which folders this process can still reach once it has read its configuration.
//!
//! Landlock holds the thread that asks for it and every thread that it starts later, so the sandbox is entered before
//! the first runtime. It stays for the life of the process and of the successor that an upgrade starts. What is open by
//! then stays open. Network addresses are not restricted: servers, peers and databases come from the configuration.

mod folders;

use std::{path::Path, sync::OnceLock};

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus,
    path_beneath_rules,
};
use ron_kernel::config::Snapshot;

use crate::{
    failure::Failure,
    settings::{NodeConfig, SandboxMode},
};
pub(crate) use folders::{Folders, StaysWithin};

/// The newest interface of the kernel that is used; older kernels restrict what they can.
const INTERFACE: ABI = ABI::V5;

/// What holds this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sandbox {
    /// Nothing, because `node.sandbox` is `off`.
    Off,
    /// Nothing, because the kernel has no Landlock; says why.
    Unavailable(String),
    /// Landlock, to these folders; `partly` on a kernel that does not know every restriction.
    Within {
        /// What can be reached.
        folders: Folders,
        /// Whether some restrictions do not hold.
        partly: bool,
    },
    /// The sandbox of the process that this one succeeds.
    Inherited,
}

/// What holds this process; unset before anything does.
static HELD: OnceLock<Sandbox> = OnceLock::new();

/// What holds this process, in a word.
pub(crate) fn held() -> &'static str {
    match HELD.get() {
        None | Some(Sandbox::Off) => "off",
        Some(Sandbox::Unavailable(_)) => "unavailable",
        Some(Sandbox::Within { partly: true, .. }) => "partly",
        Some(Sandbox::Within { .. }) => "on",
        Some(Sandbox::Inherited) => "inherited",
    }
}

/// The folders that this process is held to; `None` if it is not, or if its predecessor's sandbox holds it.
pub(crate) fn held_to() -> Option<Folders> {
    match HELD.get() {
        Some(Sandbox::Within { folders, .. }) => Some(folders.clone()),
        _ => None,
    }
}

/// Enters the sandbox that a configuration asks for. Must be called while this is the only thread.
pub(crate) fn enter(config: &Snapshot, file: Option<&Path>) -> Result<(), Failure> {
    let mode = config.get::<NodeConfig>().sandbox;
    let sandbox = if mode == SandboxMode::Off { Sandbox::Off } else { restrict(config, file)? };
    match &sandbox {
        Sandbox::Off => tracing::info!("no sandbox: node.sandbox is off"),
        Sandbox::Unavailable(why) if mode == SandboxMode::On => {
            return Err(Failure::failed(format!("node.sandbox is `on`, and there is no sandbox: {why}"))
                .help("use a Linux kernel with Landlock (5.13 or newer), or node.sandbox = \"auto\""));
        }
        Sandbox::Unavailable(why) => {
            tracing::warn!(why, "no sandbox: this process can reach every file that its user can");
        }
        Sandbox::Within { .. } | Sandbox::Inherited => {
            tracing::info!("sandbox: this process can reach only the folders that its configuration named");
        }
    }
    HELD.get_or_init(|| sandbox);
    Ok(())
}

fn restrict(config: &Snapshot, file: Option<&Path>) -> Result<Sandbox, Failure> {
    if folders::is_confined() {
        return Ok(Sandbox::Inherited);
    }
    folders::make_data_folder(config).map_err(Failure::failed)?;
    let folders = Folders::of(config, file);
    Ok(match apply(&folders) {
        Ok(RulesetStatus::NotEnforced) => {
            Sandbox::Unavailable("the kernel has no Landlock, or it is switched off".to_owned())
        }
        Ok(status) => Sandbox::Within { folders, partly: status == RulesetStatus::PartiallyEnforced },
        Err(error) => Sandbox::Unavailable(error.to_string()),
    })
}

fn apply(folders: &Folders) -> Result<RulesetStatus, landlock::RulesetError> {
    let (all, execute) = (AccessFs::from_all(INTERFACE), AccessFs::Execute);
    let read = AccessFs::from_read(INTERFACE) & !execute;
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .create()?
        .add_rules(path_beneath_rules(&folders.read, read))?
        .add_rules(path_beneath_rules(&folders.execute, read | execute))?
        .add_rules(path_beneath_rules(&folders.write, all & !execute))?;
    Ok(ruleset.restrict_self()?.ruleset)
}
