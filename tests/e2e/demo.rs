//! The demo: what it says is so, and nothing of it is left.

use std::process::{Command, Stdio};

#[test]
fn the_demo_shows_a_flood_that_is_refused_and_nodes_that_are_paid_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let demo = Command::new(env!("CARGO_BIN_EXE_omnigate"))
        .args(["demo", "--for", "30s", "--epoch", "8s"])
        .env_clear()
        .env("TMPDIR", dir.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&demo.stdout).into_owned();
    let complained = String::from_utf8_lossy(&demo.stderr);
    assert!(demo.status.success(), "{}\n{told}\n{complained}", demo.status);
    let lines: Vec<&str> = told.lines().filter(|line| line.contains("ada ")).collect();
    assert!(lines.iter().any(|line| line.contains(" refused")), "{told}");
    assert!(lines.iter().all(|line| !line.contains("ada 0/s")), "the modest are served all the time: {told}");
    assert!(lines.iter().any(|line| line.contains("paid 1000000 to ")), "{told}\n{complained}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left");
}
