//! `omnigate completions`: a script that completes the command line.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::{cli::Cli, failure::Failure};

/// Prints the script for `shell`.
pub(super) fn run(shell: Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "omnigate", &mut script);
    super::print(&String::from_utf8_lossy(&script))
}
