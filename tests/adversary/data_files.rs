//! Other users of the machine: what a node keeps is for its own user, whatever mask it was started with.

use std::{
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use crate::support::{Node, free_addr};

/// Everything below a folder, and the folder.
fn all_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let below = entries.flat_map(|path| if path.is_dir() { all_below(&path) } else { vec![path] });
    below.chain([folder.to_owned()]).collect()
}

#[test]
fn nobody_else_can_read_what_a_node_keeps() {
    let [edge, overlay, rewarder] = [(); 3].map(|()| free_addr());
    let node = Node::start(&format!(
        "[edge]\nenabled = true\nlisten = \"{edge}\"\n[overlay]\nenabled = true\nlisten = \"{overlay}\"\n\
         [rewarder]\nenabled = true\nlisten = \"{rewarder}\"\n"
    ));
    let kept = all_below(&node.path().join("data"));
    let shown: Vec<String> = kept
        .iter()
        .map(|path| format!("{:o} {}", path.metadata().unwrap().permissions().mode() & 0o777, path.display()))
        .collect();
    for name in ["ledger.db", "ledger.db-wal"] {
        assert!(kept.iter().any(|path| path.ends_with(name)), "{name}: {shown:#?}");
    }
    let open: Vec<&String> =
        shown.iter().filter(|line| !line.starts_with("600 ") && !line.starts_with("700 ")).collect();
    assert!(open.is_empty(), "{open:#?}");
}
