//! Settings that would weaken a node: they are refused, and some of them only unless the operator accepts the danger.

use std::process::Command;

/// Whether `omnigate check` accepts these settings. What it says is printed if the test fails.
fn is_accepted(settings: &[&str]) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_omnigate"));
    command.arg("check").current_dir(dir.path()).env_clear();
    for setting in settings {
        command.args(["--set", setting]);
    }
    let output = command.output().unwrap();
    eprintln!("{settings:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.status.success()
}

#[test]
fn limits_beyond_their_safe_maximum_need_the_operators_consent() {
    for setting in [
        "gateway.max_conns=65537",
        "gateway.limits.max_headers=1001",
        "gateway.limits.max_body_bytes=100GiB",
        "gateway.limits.decode_ratio_max=100000",
        "gateway.limits.buffer_memory=1TiB",
        "gateway.limits.h2_streams=1000000",
        "gateway.fair_queue.max_waiting=100000000",
        "gateway.read_timeout=10h",
        "edge.max_conns=65537",
        "edge.fill.inflight_bytes=1TiB",
        "overlay.handshake_timeout=10h",
        "rewarder.limits.max_body_bytes=1TiB",
        "node.drain_deadline=61s",
        "ledger.url=postgres://u@db.example/d?sslmode=disable",
        "ledger.url=postgres://u@db.example/d?sslmode=prefer",
        "gateway.quotas.store=redis://:secret@db.example",
    ] {
        assert!(!is_accepted(&[setting]), "{setting}");
        assert!(is_accepted(&["node.danger_ok=true", setting]), "{setting}");
    }
}

#[test]
fn what_is_said_in_the_clear_stays_on_this_machine() {
    let plain = ["overlay.enabled=true", "overlay.security=plaintext"];
    let with = |setting| [plain.as_slice(), &[setting]].concat();
    for setting in ["overlay.listen=0.0.0.0:9700", "overlay.peers=[\"192.0.2.1:9700\"]"] {
        assert!(!is_accepted(&with(setting)), "{setting}");
        assert!(!is_accepted(&[with(setting).as_slice(), &["node.danger_ok=true"]].concat()), "{setting}");
    }
    for setting in ["overlay.listen=127.0.0.1:9700", "overlay.peers=[\"127.0.0.1:9700\"]"] {
        assert!(is_accepted(&with(setting)), "{setting}");
    }
    assert!(!is_accepted(&["admin.listen=0.0.0.0:9600"]), "without a token");
    assert!(is_accepted(&["admin.listen=0.0.0.0:9600", "admin.token=0123456789abcdef"]));
}
