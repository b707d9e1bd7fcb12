//! Commands that start a node of their own: it ends with them.

use std::{
    fs,
    process::{Command, Stdio},
};

use crate::{
    cache_node::program,
    support::{Running, eventually, signal},
};

/// The processes whose parent this is.
fn children(parent: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap().map_while(Result::ok);
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // After the name in parentheses come the state and the parent.
    let parent_of = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    pids.filter(|pid| parent_of(pid) == Some(parent)).collect()
}

#[test]
fn the_gateway_of_a_fairness_test_ends_with_the_command() {
    for name in ["TERM", "INT"] {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new(program());
        command.args(["fairness", "--length", "60s"]).current_dir(dir.path()).env_clear();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut command = Running(command.spawn().unwrap());
        let pid = command.0.id();
        let gateway = eventually("a gateway is under test", || children(pid).first().copied());
        signal(pid, name);
        let ended = eventually("the command ends", || command.0.try_wait().unwrap());
        assert!(!ended.success(), "{ended}");
        let is_gone = || !fs::exists(format!("/proc/{gateway}")).unwrap();
        eventually("its gateway has ended", || is_gone().then_some(()));
    }
}
