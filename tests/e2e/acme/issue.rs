//! Certificates are obtained: by each challenge, for several names, and kept.

use std::{os::unix::fs::PermissionsExt as _, path::Path, process::Command};

use ron_transport::tls::testkit::{TestCa, write_file};

use super::{Habits, World, fetch, kept, serial, told};
use crate::support::{Running, eventually, free_addr, get};

const HTTP: &str = "";
const HANDSHAKE: &str = "acme.challenge = \"tls-alpn-01\"\n";

#[test]
fn two_apps_have_their_certificates_by_http_and_keep_them_through_a_restart_without_the_ca() {
    let mut world = World::new(Habits::default());
    let mut node = world.start(&world.settings(&["one.test", "two.test"], HTTP));
    world.wait_for("one.test");
    world.wait_for("two.test");
    let serials = ["one.test", "two.test"].map(|host| serial(world.tls, host).unwrap());
    assert_ne!(serials[0], serials[1], "each name has a certificate of its own");
    assert_eq!(serial(world.tls, "other.test"), None, "nothing is shown for a name that is not ours");
    let redirected = get(world.plain, "/.well-known/acme-challenge/unknown").unwrap();
    assert_eq!(redirected.status, 308, "only what a CA waits for is answered in the clear");
    assert!(node.metric("gateway_certificate_expiry_timestamp_seconds") > 1.7e9, "{}", node.scrape());
    assert!(
        node.metric("gateway_acme_attempts_total{node=\"omnigate\",service=\"gateway\",result=\"issued\"}")
            >= 2.0
    );
    assert!(told(&node, "one.test")["last_error"].is_null());
    let root = world.ca.root();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let account = kept(&node).join("account.key");
    assert_eq!(
        [mode(&kept(&node)), mode(&account), mode(&kept(&node).join("one.test.pem"))],
        [0o700, 0o600, 0o600]
    );
    let key = std::fs::read_to_string(&account).unwrap();
    assert!(key.starts_with("-----BEGIN PRIVATE KEY-----"));
    assert!(!node.log().contains("BEGIN"), "no key is logged");
    node.kill();
    world.ca.stop();
    node.start_again();
    assert_eq!(serial(world.tls, "one.test").as_ref(), Some(&serials[0]), "at once, and without the CA");
    assert_eq!(fetch(world.tls, "two.test", &root).unwrap(), "/x");
    assert_eq!(std::fs::read_to_string(&account).unwrap(), key);
}

#[test]
fn a_name_is_checked_in_the_handshake_even_where_clients_need_certificates() {
    let world = World::new(Habits::default());
    let clients = TestCa::new("clients");
    let dir = tempfile::tempdir().unwrap();
    let ca = clients.write(dir.path(), "clients");
    let acme = format!("{HANDSHAKE}tls.client_auth = \"required\"\ntls.client_ca_path = {ca:?}\n");
    let node = world.start(&world.settings(&["one.test"], &acme));
    eventually("there is a certificate", || serial(world.tls, "one.test"));
    assert!(world.fetch("one.test").is_err(), "clients still need a certificate");
    let client = clients.client("client.test").write(dir.path(), "client");
    let port = world.tls.port();
    let served = Command::new("curl")
        .args(["-sS", "--resolve", &format!("one.test:{port}:127.0.0.1"), "--cert"])
        .arg(client.cert_path)
        .arg("--key")
        .arg(client.key_path)
        .arg("--cacert")
        .arg(world.ca.root())
        .arg(format!("https://one.test:{port}/x"))
        .output()
        .unwrap();
    assert_eq!(served.stdout, b"/x", "{}", String::from_utf8_lossy(&served.stderr));
    assert!(told(&node, "one.test")["last_error"].is_null());
}

#[test]
fn a_wildcard_is_checked_by_a_record_that_the_hook_sets_and_removes() {
    let world = World::new(Habits::default());
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("data")).unwrap();
    let script = format!(
        "#!/bin/sh\nset -e\necho \"$*\" >> {log}\n\
         case $2 in\n\
         add) exec curl -sSf -d \"{{\\\"host\\\":\\\"$3.\\\",\\\"value\\\":\\\"$4\\\"}}\" http://{dns}/set-txt ;;\n\
         remove) exec curl -sSf -d \"{{\\\"host\\\":\\\"$3.\\\"}}\" http://{dns}/clear-txt ;;\nesac\n",
        log = dir.path().join("data/hook.log").display(),
        dns = world.ca.dns_management,
    );
    let hook = write_file(dir.path(), "hook", &script, 0o755);
    let log = dir.path().join("data/hook.log");
    let acme = format!(
        "acme.challenge = \"dns-01\"\nacme.dns_hook = [{:?}, \"zone\"]\nacme.names = [\"*.wild.test\"]\n",
        hook.display().to_string()
    );
    let _node = crate::support::Node::start_at(world.tls, dir, &world.settings(&["*.wild.test"], &acme));
    world.wait_for("a.wild.test");
    assert!(world.fetch("wild.test").is_err(), "a wildcard does not cover its base");
    let calls = std::fs::read_to_string(log).unwrap();
    let calls: Vec<&str> = calls.lines().map(|line| line.rsplit_once(' ').unwrap().0).collect();
    let name = "_acme-challenge.wild.test";
    assert_eq!(calls, [format!("zone add {name}"), format!("zone remove {name}")]);
}

#[test]
fn an_account_is_bound_to_the_one_that_the_ca_knows() {
    const KEY: &str = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";
    let world = World::new(Habits { bound_to: Some(("kid-1", KEY)), ..Habits::default() });
    let dir = tempfile::tempdir().unwrap();
    write_file(dir.path(), "eab.key", &format!("{KEY}\n"), 0o600);
    let bound = "acme.eab_key_id = \"kid-1\"\nacme.eab_hmac_key = \"${file:eab.key}\"\n";
    let settings = world.settings(&["one.test"], &format!("acme.email = \"ops@one.test\"\n{bound}"));
    let node = crate::support::Node::start_at(world.tls, dir, &settings);
    world.wait_for("one.test");
    assert!(!node.log().contains(KEY));
}

#[test]
fn a_new_address_of_the_operator_is_told_to_the_ca() {
    let world = World::new(Habits::default());
    let email = |address: &str| format!("{HANDSHAKE}acme.email = \"{address}\"\n");
    let node = world.start(&world.settings(&["one.test"], &email("first@one.test")));
    world.wait_for("one.test");
    let contact = kept(&node).join("account.contact");
    assert_eq!(std::fs::read_to_string(&contact).unwrap(), "mailto:first@one.test\n");
    node.reload(&world.settings(&["one.test"], &email("second@one.test")));
    eventually("the CA is told", || {
        (std::fs::read_to_string(&contact).ok()? == "mailto:second@one.test\n").then_some(())
    });
    assert!(!node.log().contains("was not told"), "{}", node.log());
}

#[test]
fn a_reload_that_adds_a_name_has_its_certificate_beside_the_others() {
    let world = World::new(Habits::default());
    let node = world.start(&world.settings(&["one.test"], HANDSHAKE));
    world.wait_for("one.test");
    let before = serial(world.tls, "one.test");
    node.reload(&world.settings(&["one.test", "two.test"], HANDSHAKE));
    world.wait_for("two.test");
    assert_eq!(serial(world.tls, "one.test"), before, "what is there is not asked for again");
    node.reload(&world.settings(&["two.test"], HANDSHAKE));
    assert_eq!(serial(world.tls, "one.test"), None);
    world.wait_for("two.test");
}

#[test]
fn one_command_puts_an_app_behind_tls() {
    let world = World::new(Habits::default());
    let (dir, admin) = (tempfile::tempdir().unwrap(), free_addr());
    let set = |key: &str, value: &str| format!("{key}={value}");
    let log = std::fs::File::create(dir.path().join("node.log")).unwrap();
    let _running = Running(
        Command::new(env!("CARGO_BIN_EXE_omnigate"))
            .args(["gateway", "--to", &format!("http://{}", world.app)])
            .args(["--acme", "app.test", "--acme-email", "ops@app.test", "--listen", &world.tls.to_string()])
            .args(["--set", &set("gateway.redirect_http", &world.plain.to_string())])
            .args(["--set", &set("gateway.acme.directory", &world.ca.directory())])
            .args(["--set", &set("gateway.acme.ca_path", &world.ca.server_ca().display().to_string())])
            .args(["--set", &set("admin.listen", &admin.to_string())])
            .current_dir(dir.path())
            .env_clear()
            .stderr(log)
            .spawn()
            .unwrap(),
    );
    world.wait_for("app.test");
}
