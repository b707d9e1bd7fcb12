//! `omnigate node`: who a node is to its peers, and whose signatures are on its epochs.

use std::{fs, os::unix::fs::PermissionsExt as _, process::Command};

use tempfile::TempDir;

use crate::{assert_clean, cli};

#[test]
fn the_rewarders_id_is_that_of_the_key_that_it_is_given() {
    let dir = TempDir::new().unwrap();
    let id = |words: &[&str]| {
        let ran = cli(dir.path(), &[&["node"], words].concat());
        assert_clean(&ran);
        ran.out
    };
    let own = id(&["id"]);
    assert_eq!(id(&["id", "--rewarder"]), own, "without a key of its own it signs with the node's");
    let path = dir.path().join("rewarder.pem");
    let made = Command::new("openssl").args(["genpkey", "-algorithm", "ed25519", "-out"]).arg(&path).output();
    assert!(made.unwrap().status.success());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let named = ["--set", "rewarder.node_key=rewarder.pem"];
    assert_eq!(id(&[&["id"], &named[..]].concat()), own, "peers know the node by its own key");
    let other = id(&[&["id", "--rewarder"], &named[..]].concat());
    assert!(other != own && other.starts_with("b3:"), "{other}");
    let keys = [&["key"][..], &["key", "--rewarder"]].map(|words| id(&[words, &named[..]].concat()));
    assert_ne!(keys[0], keys[1]);
}
