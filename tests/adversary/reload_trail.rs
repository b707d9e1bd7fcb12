//! Reloads that change nothing in the configuration, but what it names: the audit trail and the log tell of them.

use std::process::Command;

use serde_json::Value;

use crate::support::{Node, UNLIMITED, config, eventually};

/// The reloads in the audit trail of a node.
fn reloads(node: &Node) -> Vec<Value> {
    let trail = std::fs::read_to_string(node.path().join("audit.log")).unwrap_or_default();
    let lines = trail.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["action"] == "reload").collect()
}

#[test]
fn a_revocation_that_a_signal_puts_into_force_is_in_the_trail_and_in_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let revoked = dir.path().join("revoked");
    let revoke = |number: u8| {
        let id = format!("{number:02x}").repeat(16);
        let mut command = Command::new(env!("CARGO_BIN_EXE_omnigate"));
        let done = command.args(["token", "revoke", "--file"]).arg(&revoked).arg(id).status().unwrap();
        assert!(done.success());
    };
    revoke(1);
    let settings =
        // In the sandbox a reload cannot name a new file to write to.
        format!(
            "{UNLIMITED}[auth]\nrevoked = \"{}\"\n[log]\nlevel = \"info\"\n[node]\nsandbox = \"off\"\n",
            revoked.display()
        );
    let node = Node::start_in(dir, &settings);
    let text = config(node.gateway, node.admin, &settings);
    node.write_config(&text.replace("[gateway]\n", "audit_log = \"audit.log\"\n[gateway]\n"));
    node.signal("HUP");
    let before = eventually("the trail begins", || Some(reloads(&node).len()).filter(|count| *count > 0));

    revoke(2);
    node.signal("HUP");
    let line = eventually("the reload is in the trail", || reloads(&node).into_iter().nth(before));
    assert_eq!((&line["actor"], &line["outcome"]), (&"SIGHUP".into(), &"applied".into()), "{line}");
    let named = |text: &str| text.contains("changed files") && text.contains(revoked.to_str().unwrap());
    assert!(named(line["detail"].as_str().unwrap()), "{line}");
    assert!(node.log().lines().any(|line| line.contains("read again") && named(line)));

    node.signal("HUP");
    let line = eventually("a reload without news is too", || reloads(&node).into_iter().nth(before + 1));
    assert_eq!((&line["actor"], &line["outcome"]), (&"SIGHUP".into(), &"unchanged".into()), "{line}");
}
