//! What is shipped beside the program works: examples, units, the package, dashboards, alerts, and the commands in the
//! pages.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests: a failure may panic, and nothing here runs on a runtime"
)]

#[path = "../cli_run/mod.rs"]
mod cli_run;
mod commands;
mod examples;
mod observability;
mod package;
#[path = "../../../../tests/e2e/support/ports.rs"]
mod ports;
mod stage;
mod systemd;

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// A path from the root of the repository.
fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Runs a tool and returns what it said; panics if it was not content.
#[track_caller]
fn tool(command: &mut Command, package: &str) -> String {
    let output = command.output().unwrap_or_else(|error| {
        panic!("{:?} comes with Debian's {package} package: {error}", command.get_program())
    });
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{said}");
    said
}
