//! The sandbox: what this process can still do once it has read its configuration.
//!
//! Two parts of the kernel hold it. Landlock lets it reach the folders that the configuration names and no other; a
//! filter of system calls (seccomp) refuses those that a node never makes. Landlock also keeps signals and connections to
//! abstract sockets among the processes inside. Both hold the thread that asks for them and
//! every thread that it starts later, so the sandbox is entered before the first runtime. It stays for the life of the
//! process and of the successor that an upgrade starts. What is open by then stays open. Network addresses are not
//! restricted: servers, peers and databases come from the configuration.

mod folders;
mod inherited;
mod syscalls;

use std::{path::Path, sync::OnceLock};

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus, Scope, path_beneath_rules,
};
use ron_kernel::config::Snapshot;

use crate::{
    failure::Failure,
    settings::{NodeConfig, SandboxMode},
};
pub(crate) use folders::{Folders, StaysWithin, files_read_by};
pub(crate) use inherited::tell_successor;

/// The newest interface of the kernel that is used; older kernels restrict what they can.
const INTERFACE: ABI = ABI::V6;

/// The restrictions that are in force for this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sandbox {
    /// What it can reach of the file system.
    files: Files,
    /// Which system calls it can make.
    calls: Calls,
}

/// What a process can reach of the file system.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Files {
    /// Everything that its user can, because `node.sandbox` is `off`.
    Off,
    /// Everything that its user can, because the kernel cannot restrict it; says why.
    Unavailable(String),
    /// These folders; `partly` on a kernel that does not know every restriction.
    Within { folders: Folders, partly: bool },
    /// The folders of the process that this one succeeds; `None` if it did not say which.
    Inherited(Option<Folders>),
}

/// Which system calls a process can make.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Calls {
    /// All, because `node.sandbox` is `off`.
    Off,
    /// All, because the kernel takes no filter; says why.
    Unavailable(String),
    /// All but so many.
    Filtered(usize),
    /// All but those that the process that this one succeeds could not make.
    Inherited,
}

impl Files {
    /// In a word.
    const fn word(&self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Unavailable(_) => "unavailable",
            Self::Within { partly: true, .. } => "partly",
            Self::Within { .. } => "on",
            Self::Inherited(_) => "inherited",
        }
    }
}

impl Calls {
    /// In a word.
    const fn word(&self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Unavailable(_) => "unavailable",
            Self::Filtered(_) => "on",
            Self::Inherited => "inherited",
        }
    }
}

impl std::fmt::Display for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.files {
            Files::Off => f.write_str("files: off, because node.sandbox is off")?,
            Files::Unavailable(why) => write!(f, "files: unavailable, because {why}")?,
            Files::Within { folders, partly } => {
                let partly = if *partly { ", as far as this kernel can restrict it" } else { "" };
                write!(f, "files: on, {folders}{partly}")?;
            }
            Files::Inherited(_) => f.write_str("files: on, the folders of the process before this one")?,
        }
        match &self.calls {
            Calls::Off => f.write_str("; system calls: off, because node.sandbox is off"),
            Calls::Unavailable(why) => write!(f, "; system calls: unavailable, because {why}"),
            Calls::Filtered(count) => write!(f, "; system calls: on, {count} are refused"),
            Calls::Inherited => f.write_str("; system calls: on, as for the process before this one"),
        }
    }
}

/// What holds this process; unset before anything does.
static HELD: OnceLock<Sandbox> = OnceLock::new();

/// Whether the file system is restricted, in a word.
pub(crate) fn files_word() -> &'static str {
    HELD.get().map_or("off", |held| held.files.word())
}

/// Whether system calls are restricted, in a word.
pub(crate) fn calls_word() -> &'static str {
    HELD.get().map_or("off", |held| held.calls.word())
}

/// The folders that this process is held to; `None` if it is not, or does not know them.
pub(crate) fn held_to() -> Option<Folders> {
    match &HELD.get()?.files {
        Files::Within { folders, .. } | Files::Inherited(Some(folders)) => Some(folders.clone()),
        _ => None,
    }
}

/// Enters the sandbox that a configuration asks for and logs what holds; `is_successor` says whether another node started
/// this process. Must be called while this is the only thread.
pub(crate) fn enter(config: &Snapshot, file: Option<&Path>, is_successor: bool) -> Result<(), Failure> {
    let node = config.get::<NodeConfig>();
    let sandbox = match inherited::of_predecessor(is_successor) {
        Some(inherited) => {
            if let Files::Inherited(Some(folders)) = &inherited.files {
                folders.check(config).map_err(Failure::failed)?;
            }
            inherited
        }
        None if node.sandbox == SandboxMode::Off => Sandbox { files: Files::Off, calls: Calls::Off },
        None => {
            let files = restrict_files(config, file, scopes(is_successor))?;
            Sandbox { files, calls: restrict_calls(folders::starts_programs(config)) }
        }
    };
    let lacking = match &sandbox {
        Sandbox { files: Files::Unavailable(why), .. } | Sandbox { calls: Calls::Unavailable(why), .. } => {
            Some(why)
        }
        _ => None,
    };
    match lacking {
        Some(why) if node.sandbox == SandboxMode::On => {
            return Err(Failure::failed(format!(
                "node.sandbox is `on`, and the sandbox is not complete: {why}"
            ))
            .help(
                "use a Linux kernel with Landlock (5.19 or newer) and seccomp, or node.sandbox = \"auto\"",
            ));
        }
        Some(_) => tracing::warn!("sandbox: {sandbox}"),
        None => tracing::info!("sandbox: {sandbox}"),
    }
    HELD.get_or_init(|| sandbox);
    Ok(())
}

fn restrict_calls(may_start_programs: bool) -> Calls {
    match syscalls::restrict(may_start_programs) {
        Ok(()) => Calls::Filtered(syscalls::refused_count(may_start_programs)),
        Err(error) => Calls::Unavailable(error.to_string()),
    }
}

/// What stays among the processes inside. A successor outside its predecessor's sandbox has to signal the predecessor, and a
/// service manager may listen at an abstract socket.
fn scopes(is_successor: bool) -> BitFlags<Scope> {
    let mut scopes = Scope::from_all(INTERFACE);
    if is_successor {
        scopes.remove(Scope::Signal);
    }
    if std::env::var_os("NOTIFY_SOCKET").is_some_and(|name| name.as_encoded_bytes().starts_with(b"@")) {
        scopes.remove(Scope::AbstractUnixSocket);
    }
    scopes
}

fn restrict_files(config: &Snapshot, file: Option<&Path>, scopes: BitFlags<Scope>) -> Result<Files, Failure> {
    folders::make_data_folder(config).map_err(Failure::failed)?;
    let folders = Folders::of(config, file);
    Ok(match apply(&folders, scopes) {
        Ok(RulesetStatus::NotEnforced) => {
            Files::Unavailable("the kernel has no Landlock, or it is switched off".to_owned())
        }
        Ok(status) => Files::Within { folders, partly: status == RulesetStatus::PartiallyEnforced },
        Err(error) => Files::Unavailable(format!(
            "the kernel has no Landlock that could be used (5.19 or newer): {error}"
        )),
    })
}

fn apply(folders: &Folders, scopes: BitFlags<Scope>) -> Result<RulesetStatus, landlock::RulesetError> {
    let (all, execute) = (AccessFs::from_all(INTERFACE), AccessFs::Execute);
    let read = AccessFs::from_read(INTERFACE) & !execute;
    let mut ruleset = Ruleset::default()
        // Before 5.19, Landlock forbids every move of a file to another folder, which the stores need.
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::Refer)?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?;
    if !scopes.is_empty() {
        ruleset = ruleset.scope(scopes)?;
    }
    let ruleset = ruleset
        .create()?
        .add_rules(path_beneath_rules(&folders.read, read))?
        .add_rules(path_beneath_rules(&folders.execute, read | execute))?
        .add_rules(path_beneath_rules(&folders.write, all & !execute))?;
    Ok(ruleset.restrict_self()?.ruleset)
}
