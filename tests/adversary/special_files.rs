//! Named pipes in the place of files that a node reads: whoever opens one waits until somebody opens its other end. The node
//! refuses them, says so, and reads what comes after.

use std::{path::Path, process::Command};

use ron_transport::tls::testkit::TestCa;
use serde_json::json;

use crate::{
    jwt_issuer::{Issuer, publish},
    support::{Node, UNLIMITED, Upstream, ask, config, eventually, get, to},
};

/// Puts a named pipe in the place of a file.
fn replace_by_pipe(file: &Path) {
    let pipe = file.with_extension("pipe");
    assert!(Command::new("mkfifo").args(["-m", "600"]).arg(&pipe).status().unwrap().success());
    std::fs::rename(pipe, file).unwrap();
}

/// Puts a file in the place of the pipe.
fn replace_by_file(path: &Path, bytes: &[u8]) {
    let aside = path.with_extension("new");
    std::fs::write(&aside, bytes).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&aside, mode).unwrap();
    std::fs::rename(aside, path).unwrap();
}

/// Waits until readiness says that a reload failed, and why.
fn is_refused(node: &Node, why: &str) {
    eventually("the reload is refused", || {
        let said = get(node.admin, "/readyz").ok()?.body;
        (said.contains("bad_reload") && said.contains(why)).then_some(())
    });
}

fn is_taken(node: &Node) {
    eventually("the reload succeeds", || {
        let said = get(node.admin, "/readyz").ok()?.body;
        (!said.contains("bad_reload")).then_some(())
    });
}

#[test]
fn a_pipe_in_place_of_the_configuration_is_refused_and_later_reloads_work() {
    let redirect = |status: u16| {
        format!(
            "route = [{{ path = \"/\", redirect = {{ to = \"https://a.example\", status = {status} }} }}]\n"
        )
    };
    let node = Node::start(&redirect(301));
    replace_by_pipe(&node.path().join("omnigate.toml"));
    node.signal("HUP");
    is_refused(&node, "a pipe");
    assert_eq!(get(node.gateway, "/").unwrap().status, 301, "the old configuration serves on");
    node.write_config(&config(node.gateway, node.admin, &redirect(302)));
    node.signal("HUP");
    eventually("the new configuration serves", || (get(node.gateway, "/").ok()?.status == 302).then_some(()));
    is_taken(&node);
}

#[test]
fn a_node_does_not_start_with_a_pipe_for_its_configuration() {
    let dir = tempfile::tempdir().unwrap();
    replace_by_pipe(&dir.path().join("omnigate.toml"));
    let program = std::env::var("OMNIGATE_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_omnigate").to_owned());
    let mut node = crate::support::Running(
        Command::new(program)
            .args(["up", "--config", "omnigate.toml"])
            .current_dir(dir.path())
            .spawn()
            .unwrap(),
    );
    let status = eventually("it gives up", || node.0.try_wait().unwrap());
    assert!(!status.success(), "{status}");
}

#[test]
fn a_pipe_in_place_of_a_key_a_certificate_or_a_list_blocks_no_reload() {
    let (upstream, ca) = (Upstream::start(), TestCa::new("authority"));
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let tls = ca.server(&["localhost"]).write(dir.path(), "server");
    let clients = ca.write(dir.path(), "clients");
    let revoke = Command::new(env!("CARGO_BIN_EXE_omnigate"))
        .args(["token", "revoke", "--file", "revoked", &"01".repeat(16)])
        .current_dir(dir.path())
        .status();
    assert!(revoke.unwrap().success());
    let keygen = Command::new(env!("CARGO_BIN_EXE_omnigate"))
        .args(["token", "keygen", "root.key"])
        .current_dir(dir.path())
        .status();
    assert!(keygen.unwrap().success());
    let files = [
        tls.cert_path.clone(),
        tls.key_path.clone(),
        clients.clone(),
        at("root.key"),
        at("revoked"),
        at("access.log"),
        at("audit.log"),
    ];
    let settings = format!(
        "tls = {{ cert_path = \"{}\", key_path = \"{}\", client_auth = \"optional\", client_ca_path = \"{}\" }}\n\
         access_log = {{ enabled = true, path = \"{}\" }}\n{}\
         [auth]\nroot_keys = [\"{}\"]\nrevoked = \"{}\"\n",
        tls.cert_path.display(),
        tls.key_path.display(),
        clients.display(),
        files[5].display(),
        to(upstream.addr),
        files[3].display(),
        files[4].display(),
    );
    let audit = format!("audit_log = \"{}\"\n", files[6].display());
    let node = Node::start_in(dir, &settings);
    let text = config(node.gateway, node.admin, &settings);
    node.write_config(&text.replace("[gateway]\n", &format!("{audit}[gateway]\n")));
    eventually("the audit log is there", || {
        node.signal("HUP");
        files[6].exists().then_some(())
    });
    for file in files {
        let held = std::fs::read(&file).unwrap();
        replace_by_pipe(&file);
        node.signal("HUP");
        is_refused(&node, &file.display().to_string());
        replace_by_file(&file, &held);
        node.signal("HUP");
        is_taken(&node);
    }
}

#[test]
fn a_pipe_in_place_of_a_key_set_is_given_up_for_the_file_that_follows() {
    let (upstream, first, second) = (Upstream::start(), Issuer::new("k1"), Issuer::new("k2"));
    let dir = tempfile::tempdir().unwrap();
    let keys = publish(dir.path(), "keys.json", &[&first]);
    let node = Node::start(&format!(
        "{UNLIMITED}tenant_from = [\"jwt:sub\", \"ip\"]\n\
         route = [{{ path = \"/\", auth = \"always\", upstream = \"up\" }}]\n\
         upstream.up.endpoints = [\"http://{}\"]\n\
         [auth]\njwks_url = \"file:{}\"\njwks_refresh = \"10s\"\njwt_issuer = \"https://id.example\"\n",
        upstream.addr,
        keys.display()
    ));
    let takes = |issuer: &Issuer| {
        let token = issuer.token(&json!({ "iss": "https://id.example", "sub": "acme" }));
        let request = format!("GET / HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\n\r\n");
        ask(node.gateway, request).is_ok_and(|answer| answer.status == 200)
    };
    eventually("the first keys are there", || takes(&first).then_some(()));
    replace_by_pipe(&keys);
    node.signal("HUP");
    eventually("the pipe is noticed", || node.log().contains("it is a pipe").then_some(()));
    publish(dir.path(), "keys.json", &[&second]);
    eventually("the second keys are there", || takes(&second).then_some(()));
}
