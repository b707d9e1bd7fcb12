//! The console in a browser that is not ours, driven by `tests/console`.

use std::{path::Path, process::Command};

use super::output;

#[test]
#[ignore = "needs packages of npm and a browser: run `tools/check clients`"]
fn the_console_shows_a_flood_and_everything_else_and_nothing_overlaps() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new("node");
    command
        .arg(root.join("tests/console/console.mjs"))
        .arg(root.join("target/tools/node"))
        .arg(env!("CARGO_BIN_EXE_omnigate"))
        .arg(root.join("target/console"));
    output(&mut command, b"");
}
