//! Other users of the machine: what a node keeps is for its own user, whatever mask it was started with.

use std::{
    fs::Permissions,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use crate::support::{Node, free_addr};

/// Everything below a folder, and the folder.
fn all_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let below = entries.flat_map(|path| if path.is_dir() { all_below(&path) } else { vec![path] });
    below.chain([folder.to_owned()]).collect()
}

/// What is open to other users below a folder, and the folder, each with its mode.
fn open_to_others(folder: &Path) -> Vec<String> {
    let mode = |path: &PathBuf| path.metadata().unwrap().permissions().mode() & 0o777;
    let open = all_below(folder).into_iter().filter(|path| mode(path) & 0o077 != 0);
    open.map(|path| format!("{:o} {}", mode(&path), path.display())).collect()
}

/// Settings of a node with all its stores.
fn all_stores() -> String {
    let [edge, overlay, rewarder] = [(); 3].map(|()| free_addr());
    format!(
        "[edge]\nenabled = true\nlisten = \"{edge}\"\n[overlay]\nenabled = true\nlisten = \"{overlay}\"\n\
         [rewarder]\nenabled = true\nlisten = \"{rewarder}\"\n"
    )
}

#[test]
fn what_was_open_to_others_is_closed_at_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let settings = format!("{}[node]\ndata_dir = \"{}\"\n", all_stores(), data.display());
    drop(Node::start(&settings));
    let kept: Vec<PathBuf> = std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path()).collect();
    for path in kept.iter().chain([&data]) {
        // Keys that are open are refused, not mended.
        if !path.ends_with("node.key") {
            let mode = if path.is_dir() { 0o755 } else { 0o644 };
            std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        }
    }
    let node = Node::start(&settings);
    assert_eq!(open_to_others(&data), Vec::<String>::new());
    let log = node.log();
    for name in ["data/ledger.db", "data/cas"] {
        let told = |line: &str| line.contains(name) && line.contains("its mode is tightened");
        assert!(log.lines().any(told), "{name}: {log}");
    }
}

#[test]
fn commands_that_keep_something_keep_it_to_themselves() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("object"), "bytes").unwrap();
    let program = env!("CARGO_BIN_EXE_omnigate");
    for command in ["cas put object --dir kept", "epoch seal 1"] {
        let line = format!("umask 022; exec '{program}' {command}");
        let mut shell = Command::new("sh");
        let output = shell.args(["-c", &line]).current_dir(dir.path()).env_clear().output().unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }
    for folder in ["kept", "data"] {
        assert_eq!(open_to_others(&dir.path().join(folder)), Vec::<String>::new());
    }
}

#[test]
fn nobody_else_can_read_what_a_node_keeps() {
    let node = Node::start(&all_stores());
    let kept = all_below(&node.path().join("data"));
    for name in ["ledger.db", "ledger.db-wal"] {
        assert!(kept.iter().any(|path| path.ends_with(name)), "{name}: {kept:#?}");
    }
    assert_eq!(open_to_others(&node.path().join("data")), Vec::<String>::new());
}
