//! Servers behind TLS that are known by the fingerprint of their certificate.

use std::{fs, path::Path};

use ron_transport::tls::{
    Fingerprint,
    testkit::{TestCa, TestIdentity},
};

use crate::{http, node::Node};

/// A folder with a configuration of the gateway.
fn folder(gateway: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), gateway);
    dir
}

fn write(dir: &Path, gateway: &str) {
    let listeners = "[admin]\nlisten = \"127.0.0.1:0\"\n[gateway]\nlisten = \"127.0.0.1:0\"\n";
    fs::write(dir.join("omnigate.toml"), format!("{listeners}{gateway}")).unwrap();
}

/// A node that serves HTTPS with a certificate.
fn server(identity: &TestIdentity) -> Node {
    let dir = folder(
        "tls = { cert_path = \"server.pem\", key_path = \"server.key\" }\n\
         [[gateway.route]]\npath = \"/\"\nrespond = { body = \"from behind\" }\n",
    );
    let files = identity.write(dir.path(), "server");
    fs::rename(files.cert_path, dir.path().join("server.pem")).unwrap();
    fs::rename(files.key_path, dir.path().join("server.key")).unwrap();
    Node::from_file(dir)
}

/// A node in front of a server with pinned certificates.
fn front(server: &Node, pins: &[&str]) -> Node {
    Node::from_file(folder(&format!(
        "[[gateway.route]]\npath = \"/\"\nupstream = \"a\"\n[gateway.upstream.a]\nendpoints = [\"https://{}\"]\n\
         tls = {{ pin = {pins:?} }}\n",
        server.gateway
    )))
}

#[test]
fn a_pinned_certificate_is_believed_whoever_signed_it_and_no_other_is() {
    // Signed by nobody who is trusted, for another name, long expired, or an authority's own.
    let ca = TestCa::new("nobody knows");
    for identity in
        [ca.server(&["other.test"]), ca.expired_server(&["other.test"]), ca.as_server(&["other.test"])]
    {
        let server = server(&identity);
        let pin = Fingerprint::of(&identity.leaf()).to_string();
        let zeros = "00".repeat(32);
        let node = front(&server, &[&zeros, &pin.to_uppercase()]);
        let reply = http::get(&node.gateway, "/");
        assert_eq!((reply.status, reply.body.as_str()), (200, "from behind"), "{}", node.log());
    }
}

#[test]
fn a_server_that_shows_another_certificate_is_refused_and_its_fingerprint_is_told_to_the_operator() {
    let ca = TestCa::new("nobody knows");
    let (shown, pinned) = (ca.server(&["127.0.0.1"]), ca.server(&["127.0.0.1"]));
    let server = server(&shown);
    let node = front(&server, &[&Fingerprint::of(&pinned.leaf()).to_string()]);
    let reply = http::get(&node.gateway, "/");
    let met = Fingerprint::of(&shown.leaf()).to_string();
    assert_eq!(reply.status, 502);
    assert!(!reply.body.contains(&met), "clients learn nothing of it: {}", reply.body);
    let words = format!("its fingerprint is {met}, which `tls.pin` does not have");
    http::eventually("the log tells it", || node.log().contains(&words).then_some(()));
}

#[test]
fn what_is_no_fingerprint_is_told() {
    let dir = folder(
        "[[gateway.route]]\npath = \"/\"\nupstream = \"a\"\n[gateway.upstream.a]\nendpoints = [\"https://127.0.0.1:1\"]\n\
         tls = { pin = [\"sha1:00\"], ca_path = \"ca.pem\" }\n",
    );
    let ran = crate::cli_run::run(crate::cli_run::omnigate(dir.path(), &["check"]));
    assert_eq!(ran.code, Some(2));
    for words in ["is no SHA-256 fingerprint", "openssl x509", "is not used, because `pin`"] {
        assert!(ran.err.contains(words), "{words}: {}", ran.err);
    }
}
