//! Files that are read again while a node runs, emptied or cut short: what they took away stays taken away.

use std::{path::Path, process::Command};

use crate::support::{Node, UNLIMITED, Upstream, ask, eventually, get};

/// Runs `omnigate token` and returns what it prints.
fn token(dir: &Path, args: &[&str]) -> String {
    let program = env!("CARGO_BIN_EXE_omnigate");
    let output = Command::new(program).arg("token").args(args).current_dir(dir).env_clear().output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A token's id.
fn id(number: u8) -> String {
    format!("{number:02x}").repeat(16)
}

/// A node that takes capabilities, of which three are revoked; and two of the three.
fn node_with_revocations(upstream: &Upstream) -> (Node, [String; 2]) {
    let dir = tempfile::tempdir().unwrap();
    token(dir.path(), &["keygen", "root.key"]);
    for number in 1..=3 {
        token(dir.path(), &["revoke", "--file", "revoked", &id(number)]);
    }
    let minted = [1, 3].map(|number| {
        token(dir.path(), &["mint", "--key", "root.key", "--tenant", "acme", "--id", &id(number)])
    });
    let settings = format!(
        "{UNLIMITED}quotas.per_cap_rps = 0\n\
         route = [{{ path = \"/\", auth = \"always\", upstream = \"up\" }}]\n\
         upstream.up.endpoints = [\"http://{upstream}\"]\n\
         [auth]\nroot_keys = [\"{dir}/root.key\"]\nrevoked = \"{dir}/revoked\"\n",
        upstream = upstream.addr,
        dir = dir.path().display()
    );
    (Node::start_in(dir, &settings), minted)
}

fn status(node: &Node, token: &str) -> u16 {
    let request = format!("GET / HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\n\r\n");
    ask(node.gateway, &request).unwrap().status
}

#[test]
fn an_emptied_or_shortened_revocation_list_revokes_as_before() {
    let upstream = Upstream::start();
    let (node, minted) = node_with_revocations(&upstream);
    assert_eq!(minted.each_ref().map(|token| status(&node, token)), [401, 401]);
    let file = node.path().join("revoked");
    let whole = std::fs::read_to_string(&file).unwrap();
    let shortened = whole.lines().next().unwrap().to_owned() + "\n";
    let rewritten_without_end = format!("{}\n{}", id(9), id(1));
    for (text, why) in [
        ("", "has no id any more"),
        ("# tokens that were lost\n", "has no id any more"),
        (&shortened, "only the beginning of what it was"),
        (&rewritten_without_end, "last line has no end"),
    ] {
        std::fs::write(&file, text).unwrap();
        node.signal("HUP");
        eventually("the list is refused", || {
            let said = get(node.admin, "/readyz").ok()?.body;
            (said.contains("bad_reload") && said.contains(why)).then_some(())
        });
        assert_eq!(minted.each_ref().map(|token| status(&node, token)), [401, 401], "{text:?}");
    }
    // What is written whole is taken, also with fewer ids.
    std::fs::write(&file, format!("{}\n{}\n", id(2), id(3))).unwrap();
    node.signal("HUP");
    eventually("the shorter list is in force", || (status(&node, &minted[0]) == 200).then_some(()));
    assert_eq!(status(&node, &minted[1]), 401);
    eventually("the refusal is no longer reported", || {
        (!get(node.admin, "/readyz").ok()?.body.contains("bad_reload")).then_some(())
    });
}

#[test]
fn a_node_that_starts_with_an_empty_list_warns() {
    let dir = tempfile::tempdir().unwrap();
    token(dir.path(), &["keygen", "root.key"]);
    let at = dir.path().display().to_string();
    std::fs::write(dir.path().join("revoked"), "# nobody yet\n").unwrap();
    let node = Node::start_in(
        dir,
        &format!("[auth]\nroot_keys = [\"{at}/root.key\"]\nrevoked = \"{at}/revoked\"\n"),
    );
    assert!(node.log().contains("the revocation list is empty"), "{}", node.log());
}
