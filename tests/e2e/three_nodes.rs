//! Three processes from a request to a payout, by the commands of `docs/guide/three-nodes.md`, which are this test.
//!
//! The page sets its folder and its ports at its top unless they are set; here they are. Its blocks are given to one shell
//! in their order, and the first command that fails ends it. The page itself compares what was sent with what was counted.

use std::{
    fs, iter,
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::support::{be_patient, free_port};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/three-nodes.md");
/// Many times what the page takes; it is for a test that would not end.
const PATIENCE: Duration = Duration::from_secs(600);
/// The ports that the page names.
const PORTS: [&str; 13] = [
    "A_GATEWAY",
    "A_EDGE",
    "A_ADMIN",
    "A_OVERLAY",
    "A_REWARDER",
    "B_GATEWAY",
    "B_EDGE",
    "B_ADMIN",
    "B_OVERLAY",
    "C_GATEWAY",
    "C_EDGE",
    "C_ADMIN",
    "C_OVERLAY",
];

#[test]
fn what_three_nodes_served_is_counted_paid_and_verified_elsewhere_though_one_was_killed() {
    let dir = tempfile::tempdir().unwrap();
    let script = commands(&fs::read_to_string(PAGE).unwrap());
    let told = Shell::start(dir.path(), &script).finish();
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();

    assert_eq!(read("sent"), read("counted"), "{told}");
    assert!(read("sent").contains("b provided.requests 80\n"), "{}", read("sent"));
    let lives = read("b.log").matches(" is up as b\n").count();
    assert_eq!(lives, 2, "it was killed and started again");
    let others = ["b.log", "c.log"].map(read).concat();
    assert!(
        !others.contains("a snapshot was not taken"),
        "who counts for nobody says nothing of it: {others}"
    );
    assert_eq!(paid_by_the_epochs(dir.path()), paid_by_the_ledger(dir.path()), "{told}");
}

/// What the epochs that node c received say was paid, in all.
fn paid_by_the_epochs(dir: &Path) -> u128 {
    let epochs = fs::read_dir(dir.join("received")).unwrap().map(|entry| entry.unwrap().path());
    let paid = |epoch: std::path::PathBuf| -> u128 {
        let run: Value = serde_json::from_str(&fs::read_to_string(epoch.join("run.json")).unwrap()).unwrap();
        run["paid"].as_str().unwrap().parse().unwrap()
    };
    let sums: Vec<u128> = epochs.map(paid).collect();
    assert!(!sums.is_empty() && sums.iter().all(|sum| *sum == 1_000_000), "{sums:?}");
    sums.iter().sum()
}

/// What the accounts of the three nodes hold, in all.
fn paid_by_the_ledger(dir: &Path) -> u128 {
    let output = Command::new(env!("CARGO_BIN_EXE_omnigate"))
        .args(["ledger", "balances", "--json", "--config", "a.toml"])
        .current_dir(dir)
        .env_clear()
        .output()
        .unwrap();
    let accounts: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let actors = accounts.iter().filter(|account| account["account"].as_str().unwrap().starts_with("actor/"));
    let balances: Vec<u128> =
        actors.map(|account| account["balance"].as_str().unwrap().parse().unwrap()).collect();
    assert_eq!(balances.len(), 3, "each node is paid, and nobody else: {accounts:?}");
    balances.iter().sum()
}

/// The commands of a page, block by block; each block says where it begins, for whoever reads a failure.
fn commands(page: &str) -> String {
    let blocks = page.split("\n```sh\n").skip(1).map(|rest| rest.split("\n```").next().unwrap());
    let blocks: Vec<String> = blocks
        .map(|block| format!("echo '── {}'\n{block}\n", block.lines().next().unwrap().replace('\'', "")))
        .collect();
    assert!(blocks.len() > 10, "the page has lost its commands");
    blocks.concat()
}

/// A shell and everything that it started. All of it is killed when dropped.
struct Shell {
    child: Child,
    log: std::path::PathBuf,
}

impl Shell {
    fn start(dir: &Path, script: &str) -> Self {
        let log = dir.join("shell.log");
        let out = fs::File::create(&log).unwrap();
        let program = Path::new(env!("CARGO_BIN_EXE_omnigate")).parent().unwrap();
        let mut command = Command::new("bash");
        command.args(["-euo", "pipefail", "-c", script]).current_dir(dir).env_clear();
        command.env("PATH", format!("{}:/usr/bin:/bin", program.display()));
        command.env("HERE", dir).env("EPOCH", "5s");
        be_patient(&mut command, "");
        for (name, port) in PORTS.iter().zip(iter::repeat_with(free_port)) {
            command.env(name, port.to_string());
        }
        // A group of its own, so that its nodes can be ended with it.
        command.process_group(0).stdin(Stdio::null()).stdout(out.try_clone().unwrap()).stderr(out);
        Self { child: command.spawn().unwrap(), log }
    }

    /// What it said, once it has ended well.
    fn finish(mut self) -> String {
        let end = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < end, "the page does not come to an end: {}", self.told());
            thread::park_timeout(Duration::from_millis(50));
        };
        assert!(status.success(), "{status}: {}", self.told());
        self.told()
    }

    /// What the shell and the nodes have said so far.
    fn told(&self) -> String {
        let folder = self.log.parent().unwrap();
        let text = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
        ["shell.log", "a.log", "b.log", "c.log"].map(|name| format!("{name}:\n{}\n", text(name))).concat()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // It may have ended, and all that it started with it.
        let group = format!("-{}", self.child.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
        let _ = self.child.wait();
    }
}
