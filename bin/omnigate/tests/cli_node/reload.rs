//! The configuration changes under a running node.

use std::fs;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::{
    http::{self, Events},
    node::Node,
    ports::free_port,
};

/// A node from a file with these lines after the ports.
fn start(more: &str) -> Node {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, &ports(0), more);
    Node::from_file(dir)
}

fn ports(gateway: u16) -> String {
    format!("[admin]\nlisten = \"127.0.0.1:0\"\n[gateway]\nlisten = \"127.0.0.1:{gateway}\"\n")
}

fn write(dir: &TempDir, ports: &str, more: &str) {
    fs::write(dir.path().join("omnigate.toml"), format!("{ports}{more}")).unwrap();
}

/// Replaces the file at once: half of it would be a configuration, too.
fn rewrite(node: &Node, ports: &str, more: &str) {
    fs::write(node.path("aside"), format!("{ports}{more}")).unwrap();
    fs::rename(node.path("aside"), node.path("omnigate.toml")).unwrap();
}

#[test]
fn a_changed_file_is_applied_and_a_new_address_is_bound_before_the_old_one_goes() {
    let node = start("");
    let mut events = Events::open(&node.admin);
    let port = free_port();
    rewrite(&node, &ports(port), "max_conns = 9\n");
    let applied = events.wait_for("config_applied");
    assert_eq!(applied["generation"], 2);
    assert_eq!(applied["changed"], serde_json::json!(["gateway.listen", "gateway.max_conns"]));
    assert_eq!(http::get(&format!("127.0.0.1:{port}"), "/").status, 404);
    assert_eq!(node.readiness("/readyz").json()["conditions"], serde_json::json!([]));
}

#[test]
fn a_reload_that_a_later_part_refuses_leaves_no_socket_file_of_an_earlier_one() {
    // In the sandbox a reload cannot name a new folder to write to.
    let node = start("[node]\nsandbox = \"off\"\n");
    let mut events = Events::open(&node.admin);
    let admin = node.path("new-admin.sock");
    let gateway = node.path("no/such/folder/gateway.sock");
    let listens = format!(
        "[admin]\nlisten = \"unix:{}\"\n[gateway]\nlisten = \"unix:{}\"\n",
        admin.display(),
        gateway.display()
    );
    rewrite(&node, &listens, "[node]\nsandbox = \"off\"\n");
    let refused = events.wait_for("config_refused");
    assert!(refused["problem"].as_str().unwrap().contains("gateway.sock"), "{refused}");
    assert!(!admin.exists(), "the admin listener had bound it by then");
    assert_eq!(node.get("/healthz").status, 200, "the old listener serves on");
}

#[test]
fn a_mistake_is_reported_keeps_the_node_ready_and_goes_away_when_mended() {
    let node = start("");
    let mut events = Events::open(&node.admin);
    rewrite(&node, &ports(0), "max_cons = 9\n");
    let refused = events.wait_for("config_refused");
    assert!(refused["problem"].as_str().unwrap().contains("did you mean `max_conns`?"));
    let ready = node.readiness("/readyz");
    assert_eq!((ready.status, &ready.json()["status"]), (200, &"ready".into()));
    let condition = ready.json()["conditions"][0].clone();
    assert_eq!(
        (&condition["service"], &condition["name"], &condition["effect"]),
        (&"kernel".into(), &"bad_reload".into(), &"report".into())
    );
    rewrite(&node, &ports(0), "max_conns = 9\n");
    events.wait_for("config_applied");
    // Of others it may be told, too, where the machine stalls.
    let mut conditions = std::iter::repeat_with(|| events.wait_for("condition"));
    let cleared = conditions.find(|condition| condition["name"] == "bad_reload").unwrap();
    assert_eq!(cleared["effect"], serde_json::Value::Null);
    assert_eq!(node.readiness("/readyz").json()["conditions"], serde_json::json!([]));
}

#[test]
fn a_file_that_is_gone_is_reported_and_the_old_settings_stay() {
    let node = start("max_conns = 9\n");
    let mut events = Events::open(&node.admin);
    fs::remove_file(node.path("omnigate.toml")).unwrap();
    let refused = events.wait_for("config_refused");
    assert_eq!(
        refused["problem"],
        "the configuration file omnigate.toml does not exist: put it back, or restart with another"
    );
    assert_eq!(http::get(&node.gateway, "/").status, 404);
    assert_eq!(node.readiness("/readyz").status, 200);
}

#[test]
fn what_cannot_change_live_asks_for_a_restart_until_it_is_taken_back() {
    let node = start("");
    let mut events = Events::open(&node.admin);
    rewrite(&node, &ports(0), "[node]\nname = \"other\"\n");
    events.wait_for("config_applied");
    let condition = node.readiness("/readyz").json()["conditions"][0].clone();
    assert_eq!(condition["name"], "restart_needed");
    assert_eq!(condition["reason"], "restart to apply node.name");
    rewrite(&node, &ports(0), "");
    events.wait_for("config_applied");
    assert_eq!(node.readiness("/readyz").json()["conditions"], serde_json::json!([]));
}

/// Another value for every setting that takes effect after a restart.
const OTHER_VALUES: &str = r#"
[admin]
listen = "127.0.0.1:0"

[node]
name = "other"
data_dir = "other"
amnesia = true
profile = "micronode"
runtime = "shared"
cores = 1
sandbox = "auto"
upgrades = false

[log]
format = "json"

[traces]
url = "https://127.0.0.1:9/v1/traces"
ca_path = "other.pem"
authorization = "Bearer other"
timeout = "6s"

[gateway]
listen = "127.0.0.1:0"
enabled = false
strict_boot = true
redirect_http = "127.0.0.1:0"
fair_queue.max_tenants = 1000
quotas = { store = "rediss://127.0.0.1:9", store_ca_path = "other.pem" }
cache = { max_bytes = "128MiB", disk_bytes = "1GiB", max_object_bytes = "4MiB", tenant_percent = 40 }

[edge]
enabled = true
mode = "live"
ram_bytes = "64MiB"
cas = { url = "file:other", max_bytes = "1GiB", ram_bytes = "64MiB" }
fill = { workers = 4, inflight_bytes = "768MiB", max_entries = 1000 }

[overlay]
enabled = true
security = "token"
quic_listen = "127.0.0.1:0"
gossip = { relay_fanout = 4, burst_budget_frames = 128, history = 16, window = 16384, pattern_hops = 3, cache_messages = 16384, cache_bytes = "32MiB", max_topics = 512, max_publishers = 2048, retain_events = 511, retain_bytes = "2MiB", retain_all_bytes = "32MiB" }
objects = { max_bytes = "20GiB", ram_bytes = "1100MiB", streams = 128 }
api = { enabled = true, auth = "none", max_publishing = 64 }

[rewarder]
enabled = true
epoch_duration = "2h"
max_epoch_skew = "3m"
node_key = "other.key"
artifact_dir = "artifacts"
max_actors = 1000
concurrency.compute_workers = 2

[ledger]
url = "sqlite:other.db"
verify = "since_checkpoint"
trusted_keys = ["0000000000000000000000000000000000000000000000000000000000000000"]
"#;

/// The settings of which docs/CONFIG.md says that a change takes effect after a restart.
fn documented_as_restart() -> Vec<String> {
    let (mut table, mut settings) = (String::new(), Vec::new());
    for line in include_str!("../../../../docs/CONFIG.md").lines() {
        if let Some(name) = line.strip_prefix("## `[") {
            table = name.trim_end_matches("]`").to_owned();
        }
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        if let ["", key, kind, .., "restart", ""] = columns[..]
            && kind != "table"
        {
            settings.push(format!("{table}.{}", key.trim_matches('`')));
        }
    }
    settings.sort();
    settings
}

#[test]
fn a_reload_names_each_setting_that_needs_a_restart_and_no_other() {
    // In the sandbox a reload cannot name new folders.
    let node = start("[node]\nsandbox = \"off\"\n");
    let mut events = Events::open(&node.admin);
    rewrite(&node, OTHER_VALUES, "");
    let applied = events.wait_for("config_applied");
    let changed: Vec<&str> =
        applied["changed"].as_array().unwrap().iter().map(|key| key.as_str().unwrap()).collect();
    let expected = documented_as_restart();
    assert!(expected.len() > 50, "{expected:?}");
    let missing: Vec<_> = expected.iter().filter(|key| !changed.contains(&key.as_str())).collect();
    assert!(missing.is_empty(), "give these another value above: {missing:?}");
    let condition = node.readiness("/readyz").json()["conditions"][0].clone();
    assert_eq!(condition["name"], "restart_needed", "{condition}");
    let named = condition["reason"].as_str().unwrap().strip_prefix("restart to apply ").unwrap().to_owned();
    assert_eq!(named.split(", ").collect::<Vec<_>>(), expected);
}

#[test]
fn the_log_level_and_the_token_follow_the_file() {
    let node = start("");
    let mut events = Events::open(&node.admin);
    rewrite(
        &node,
        "[admin]\nlisten = \"127.0.0.1:0\"\ntoken = \"0123456789abcdef\"\n[gateway]\nlisten = \"127.0.0.1:0\"\n",
        "[log]\nlevel = \"error\"\n",
    );
    events.wait_for("config_applied");
    assert_eq!(node.get("/version").status, 401);
    let bearer = ["Authorization: Bearer 0123456789abcdef"];
    assert_eq!(node.ask("GET", "/version", &bearer).status, 200);
    let (code, log) = node.stop();
    assert_eq!(code, Some(0));
    assert!(!log.contains("stopped in"), "{log}");
    assert!(!log.contains("0123456789abcdef"), "{log}");
}

#[test]
fn a_hangup_reads_the_file_again_too() {
    let node = start("");
    let mut events = Events::open(&node.admin);
    // Refused again on each attempt, so each is told.
    rewrite(&node, &ports(0), "nonsense = 1\n");
    events.wait_for("config_refused");
    node.signal(Signal::HUP);
    events.wait_for("config_refused");
    assert_eq!(node.stop().0, Some(0));
}
