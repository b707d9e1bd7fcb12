//! Runs the built program the way a shell would, cut off from this machine's own settings.

use std::{
    path::Path,
    process::{Command, Output},
};

/// The program, in `dir`, with an empty environment.
pub(crate) fn omnigate(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_omnigate"));
    command.env_clear().current_dir(dir).args(args);
    command
}

/// What a run left behind.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs a command to its end.
pub(crate) fn run(mut command: Command) -> Ran {
    let Output { status, stdout, stderr } = command.output().unwrap();
    Ran {
        code: status.code(),
        out: String::from_utf8(stdout).unwrap(),
        err: String::from_utf8(stderr).unwrap(),
    }
}
