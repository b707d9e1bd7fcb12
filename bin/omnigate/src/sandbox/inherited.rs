//! The sandbox of a predecessor, which holds its successor too: how the successor knows of it.
//!
//! A process cannot ask the kernel for the folders it is held to, so the predecessor writes them into a variable of the
//! successor's environment. The variable alone proves nothing: that the process is held is tried out.

use std::{io, process::Command};

use super::{Calls, Files, Folders, HELD, Sandbox};

/// The variable: the folders as JSON, or nothing if they are too many.
const VARIABLE: &str = "RON_SANDBOX_FOLDERS";
/// The most that is written into it, in bytes; the kernel takes twice as much.
const MAX_BYTES: usize = 64 * 1024;

/// Tells the successor that `command` starts what holds this process, and so will hold it.
pub(crate) fn tell_successor(command: &mut Command) {
    let folders = match HELD.get().map(|held| &held.files) {
        Some(Files::Within { folders, .. }) => Some(folders),
        Some(Files::Inherited(folders)) => folders.as_ref(),
        _ => {
            command.env_remove(VARIABLE);
            return;
        }
    };
    let text = folders.and_then(|folders| serde_json::to_string(folders).ok());
    command.env(VARIABLE, text.filter(|text| text.len() <= MAX_BYTES).unwrap_or_default());
}

/// The sandbox of the process that started this one, if that is so and the sandbox holds.
pub(super) fn of_predecessor(is_successor: bool) -> Option<Sandbox> {
    let told = std::env::var(VARIABLE).ok().filter(|_| is_successor && is_confined())?;
    let calls = if filters_calls() { Calls::Inherited } else { Calls::Off };
    Some(Sandbox { files: Files::Inherited(serde_json::from_str::<Folders>(&told).ok()), calls })
}

/// Whether a process cannot look at the root folder, which no configuration makes a part of the sandbox.
#[expect(clippy::disallowed_methods, reason = "runs before the runtimes start")]
fn is_confined() -> bool {
    std::fs::read_dir("/").is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// Whether a filter of system calls holds this process.
#[expect(clippy::disallowed_methods, reason = "runs before the runtimes start")]
fn filters_calls() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().filter_map(|line| line.strip_prefix("Seccomp:")).any(|mode| mode.trim() == "2")
}
