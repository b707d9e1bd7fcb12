//! The demo: what it says is so, and nothing of it is left.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use crate::support::Stalls;

/// What a node ends with that could not finish in time.
const TOO_SLOW: i32 = 3;
/// How late a thread has to wake up for a second of the demo to be lost, or its drain to be late.
const STALL: Duration = Duration::from_millis(50);

/// What a demo says; `None` if the machine was too busy for it to drain in time.
fn demo() -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let demo = Command::new(env!("CARGO_BIN_EXE_omnigate"))
        .args(["demo", "--for", "30s", "--epoch", "8s"])
        .env_clear()
        .env("TMPDIR", dir.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&demo.stdout) + String::from_utf8_lossy(&demo.stderr);
    println!("{told}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left");
    let code = demo.status.code();
    assert!(matches!(code, Some(0 | TOO_SLOW)), "{}", demo.status);
    (code == Some(0)).then(|| told.into_owned())
}

/// Whether the modest were served all the time while the flood was refused, and somebody was paid.
fn shows_everything(told: &str) -> bool {
    let lines: Vec<&str> = told.lines().filter(|line| line.contains("ada ")).collect();
    lines.iter().any(|line| line.contains(" refused"))
        && lines.iter().all(|line| !line.contains("ada 0/s"))
        && lines.iter().any(|line| line.contains("paid 1000000 to "))
}

#[test]
fn the_demo_shows_a_flood_that_is_refused_and_nodes_that_are_paid_and_leaves_nothing() {
    // By the clock, second by second: what is missing while the machine stood still says nothing, and there is another demo.
    for demos in 1.. {
        let stalls = Stalls::watch();
        let told = demo();
        if told.as_deref().is_some_and(shows_everything) {
            return;
        }
        let longest = stalls.longest();
        assert!(
            longest >= STALL && demos < 5,
            "a demo did not show what it should; a thread was late by {longest:?}"
        );
    }
}
