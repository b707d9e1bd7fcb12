//! The generated pages say what the program says.

use std::{path::Path, process::Command};

fn omnigate(args: &[&str]) -> (bool, String) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new(env!("CARGO_BIN_EXE_omnigate"))
        .args(args)
        .env_clear()
        .current_dir(root)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    (output.status.success(), text)
}

#[test]
fn the_concurrency_pages_are_fresh() {
    let (fresh, text) = omnigate(&["docs", "concurrency", "--check"]);
    assert!(fresh, "run `omnigate docs concurrency`: {text}");
}

#[test]
fn the_config_reference_is_fresh() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/CONFIG.md");
    let (_, reference) = omnigate(&["config", "reference"]);
    let written = std::fs::read_to_string(page).unwrap();
    assert!(written == reference, "run `omnigate config reference > docs/CONFIG.md`");
}
