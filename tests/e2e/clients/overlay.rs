//! A client of OAP/1 in JavaScript, written from the page of the protocol: in the clear, and over TLS with a token.

use std::path::Path;

use super::{Command, run_client};
use crate::support::{Node, free_addr};

/// A node with these further lines of `[overlay]`, and what the client is told besides.
fn converse(dir: tempfile::TempDir, lines: &str, token: Option<&str>) {
    let addr = free_addr();
    let overlay = format!("[overlay]\nenabled = true\nlisten = \"{addr}\"\ntopics = [\"news/js\"]\n{lines}");
    let node = Node::start_in(dir, &format!("enabled = false\n[node]\ndata_dir = \"./data\"\n{overlay}"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut client = Command::new("node");
    client.arg(root.join("tests/clients/oap_client.mjs")).arg(root.join("docs/oap-1.md"));
    run_client(&node, client.args([addr, node.admin].map(|addr| addr.to_string())).args(token));
}

fn omnigate(dir: &Path, args: &[&str]) -> String {
    super::output(Command::new(env!("CARGO_BIN_EXE_omnigate")).args(args).current_dir(dir), b"")
}

#[test]
#[ignore = "needs Node 20: tools/check clients installs it and runs this"]
fn a_client_in_javascript_written_from_the_page_is_understood() {
    converse(tempfile::tempdir().unwrap(), "security = \"plaintext\"\n", None);
    let dir = tempfile::tempdir().unwrap();
    omnigate(dir.path(), &["token", "keygen", "root.key"]);
    let mint = ["token", "mint", "--key", "root.key", "--any-tenant", "--scope", "overlay.join"];
    let token = omnigate(dir.path(), &mint);
    let lines = "security = \"token\"\n[auth]\nroot_keys = [\"root.key\"]\n";
    converse(dir, lines, Some(token.trim()));
}
