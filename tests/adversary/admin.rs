//! Attacks on the admin listener: places held idle, tokens beyond their role, and what the audit trail says of them.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpStream,
    os::unix::process::CommandExt as _,
    path::Path,
    process::Command,
};

use ron_transport::tls::{
    ClientTls, ClientTlsConfig,
    testkit::{HANDSHAKE_LIMIT, TestCa, TestIdentity, write_file},
};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::{Client, Node, ask, config, eventually, get};

/// More connections than the admin listener has places.
const MORE_THAN_ALL: u8 = 70;

/// A node with these lines in `[admin]`.
fn node(admin: &str) -> Node {
    node_in(tempfile::tempdir().unwrap(), admin)
}

fn node_in(dir: tempfile::TempDir, admin: &str) -> Node {
    // In the sandbox a reload cannot name a new file to write to.
    let sandbox = "[node]\nsandbox = \"off\"\n";
    let node = Node::start_in(dir, sandbox);
    if !admin.is_empty() {
        let before = node.metric("config_update_total");
        let text =
            config(node.gateway, node.admin, sandbox).replace("[gateway]", &format!("{admin}[gateway]"));
        node.write_config(&text);
        node.signal("HUP");
        eventually("the settings are in force", || node.log().contains("outcome=\"applied\"").then_some(()));
        assert!(before < 1.0, "the first change");
    }
    node
}

#[test]
fn idle_connections_of_one_client_keep_nobody_from_asking_for_readiness() {
    let node = node("");
    let idle: Vec<_> = (0..MORE_THAN_ALL).map(|_| TcpStream::connect(node.admin).unwrap()).collect();
    for path in ["/readyz", "/healthz"] {
        assert_eq!(get(node.admin, path).unwrap().status, 200, "{path}");
    }
    drop(idle);
}

#[test]
fn idle_connections_of_many_clients_keep_nobody_from_asking_for_readiness() {
    let node = node("");
    let connect = |from| Client::connect_from(from, node.admin).unwrap();
    let _idle: Vec<Client> = (2..2 + MORE_THAN_ALL).map(connect).collect();
    for path in ["/readyz", "/healthz"] {
        assert_eq!(get(node.admin, path).unwrap().status, 200, "{path}");
    }
    let other = get(node.admin, "/metrics").unwrap();
    assert!(
        matches!(other.status, 200 | 429),
        "beyond the places only health checks are answered: {other:?}"
    );
}

#[test]
fn an_idle_connection_ends_by_itself() {
    let node = node("");
    let mut idle = Client::connect(node.admin).unwrap();
    assert_eq!(idle.wait_for_end().unwrap(), b"");
}

#[test]
fn no_answer_can_be_framed_or_read_by_other_pages_and_none_sets_a_cookie() {
    let node = node("");
    let request = |path: &str, fields: &str| {
        ask(node.admin, format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{fields}\r\n")).unwrap()
    };
    let page = "sec-fetch-site: cross-site\r\nsec-fetch-mode: no-cors\r\n";
    for (path, fields, status) in [
        ("/", "", 200),
        ("/console/", "", 200),
        ("/metrics", "", 200),
        ("/config", "", 200),
        ("/topology", "", 200),
        ("/absent", "", 404),
        ("/metrics", "origin: https://evil.example\r\n", 403),
        ("/metrics", page, 403),
    ] {
        let answer = request(path, fields);
        assert_eq!(answer.status, status, "{path} {fields}: {answer:?}");
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; "), "{path}: {policy}");
        assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{path}: {policy}");
        for (name, value) in [
            ("x-frame-options", Some("DENY")),
            ("x-content-type-options", Some("nosniff")),
            ("cross-origin-resource-policy", Some("same-origin")),
            ("access-control-allow-origin", None),
            ("set-cookie", None),
        ] {
            assert_eq!(answer.header(name), value, "{name} of {path} {fields}");
        }
    }
    let console = request("/console/", "");
    let policy = console.header("content-security-policy").unwrap();
    assert!(
        policy.contains("script-src 'self';") && policy.contains("require-trusted-types-for 'script'"),
        "{policy}"
    );
}

/// The status of a request with a token.
fn status(node: &Node, method: &str, path: &str, token: &str) -> u16 {
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nX-Omnigate: 1\r\nContent-Length: 0\r\n\
         Authorization: Bearer {token}\r\n\r\n"
    );
    ask(node.admin, request).unwrap().status
}

#[test]
fn a_token_that_may_look_cannot_change_anything_and_the_trail_says_who_tried() {
    let tokens = "audit_log = \"audit.log\"\ntoken = \"0123456789abcdef\"\ntokens = [\
         { name = \"scraper\", role = \"read\", token = \"read-0123456789a\" },\
         { name = \"pager\", role = \"operate\", token = \"oper-0123456789a\" }]\n";
    let node = node(tokens);
    for looks in ["0123456789abcdef", "read-0123456789a", "oper-0123456789a"] {
        assert_eq!(status(&node, "GET", "/config", looks), 200, "{looks}");
    }
    assert_eq!(status(&node, "GET", "/config", "read-0123456789b"), 401);
    assert_eq!(status(&node, "POST", "/shutdown", "read-0123456789a"), 403);
    assert_eq!(status(&node, "POST", "/shutdown", "oper-0123456789a"), 202);
    let trail = eventually("the trail has the shutdown", || {
        let trail = std::fs::read_to_string(node.path().join("audit.log")).ok()?;
        trail.contains("pager").then_some(trail)
    });
    let lines: Vec<serde_json::Value> =
        trail.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let find = |action: &str, actor: &str, outcome: &str| {
        let is_it = |line: &&serde_json::Value| {
            line["action"] == action
                && line["actor"].as_str().unwrap().contains(actor)
                && line["outcome"] == outcome
        };
        assert!(
            lines.iter().any(|line| is_it(&line) && line["time"].is_string()),
            "{action} {actor}: {trail}"
        );
    };
    find("GET /config", "not known", "refused");
    find("POST /shutdown", "scraper (read) from 127.0.0.1", "refused");
    find("POST /shutdown", "pager (operate) from 127.0.0.1", "done");
    for text in [trail.clone(), node.log()] {
        assert!(!text.contains("0123456789a"), "a token is never written: {text}");
    }
    let mode = std::os::unix::fs::MetadataExt::mode(&node.path().join("audit.log").metadata().unwrap());
    assert_eq!(mode & 0o777, 0o600);
}

/// The status that curl gets for a POST to the admin listener, as the user `uid`.
fn status_as(node: &Node, path: &str, uid: u32) -> String {
    let curl = Command::new("curl")
        .args(["-s", "-o", "/dev/null", "-w", "%{http_code}", "-X", "POST", "-H", "X-Omnigate: 1"])
        .arg(format!("http://{}{path}", node.admin))
        .current_dir("/")
        .uid(uid)
        .output()
        .unwrap();
    String::from_utf8(curl.stdout).unwrap()
}

#[test]
fn without_a_token_other_users_of_the_machine_can_neither_reload_nor_stop_the_node() {
    const NOBODY: u32 = 65534;
    // In the default sandbox, which must not hide the owners of sockets.
    let node = Node::start_in(tempfile::tempdir().unwrap(), "");
    let own = rustix::process::geteuid().as_raw();
    assert_eq!(status_as(&node, "/reload", own), "200", "the node's own user");
    if own != 0 {
        eprintln!("left out: only root can act as another user");
        return;
    }
    for path in ["/reload", "/shutdown", "/rehearse/gateway/upstream_watch", "/cache/purge"] {
        assert_eq!(status_as(&node, path, NOBODY), "403", "{path}");
    }
    assert_eq!(status_as(&node, "/reload", own), "200", "the node is still up");
}

#[test]
fn the_admin_listener_speaks_tls_and_commands_know_its_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let ca = TestCa::new("admin");
    let files = ca.server(&["localhost"]).write(dir.path(), "admin");
    let tls = format!(
        "tls = {{ cert_path = \"{}\", key_path = \"{}\" }}\n",
        files.cert_path.display(),
        files.key_path.display()
    );
    let node = node_in(dir, &tls);
    assert!(!get(node.admin, "/healthz").is_ok_and(|answer| answer.status == 200), "nothing in the clear");
    let name = ServerName::try_from("localhost").unwrap();
    let client = ca.rustls_client(rustls::crypto::aws_lc_rs::default_provider(), rustls::DEFAULT_VERSIONS);
    let client = rustls::ClientConnection::new(std::sync::Arc::new(client), name).unwrap();
    let mut stream = rustls::StreamOwned::new(client, TcpStream::connect(node.admin).unwrap());
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    assert_eq!(line.trim_end(), "HTTP/1.1 200 OK");
    let asked = std::process::Command::new(env!("CARGO_BIN_EXE_omnigate"))
        .args(["peers", "--config"])
        .arg(node.path().join("omnigate.toml"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&asked.stderr);
    assert!(said.contains("overlay"), "it was answered, if only that there is no overlay: {said}");
}

#[test]
fn tokens_that_cross_a_network_in_the_clear_are_warned_about() {
    let node = node("");
    assert!(!node.log().contains("cross the network in the clear"), "not on this machine");
    let everywhere = format!("0.0.0.0:{}", crate::support::free_port());
    let text = config(node.gateway, node.admin, "[node]\nsandbox = \"off\"\n");
    let open = format!("listen = \"{everywhere}\"\ntoken = \"0123456789abcdef\"\n");
    node.write_config(&text.replace(&format!("listen = \"{}\"\n", node.admin), &open));
    node.signal("HUP");
    eventually("it warns", || node.log().contains("cross the network in the clear").then_some(()));
}

/// The first line of the admin listener's answer to a client that shows `identity`; `None` if there is no answer.
fn answer_to(node: &Node, ca: &TestCa, identity: Option<&TestIdentity>) -> Option<String> {
    let identity = identity.map(|identity| identity.write(node.path(), "client"));
    let client = ClientTls::load(&ClientTlsConfig { identity, ..ClientTlsConfig::new(ca.roots()) }).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(node.admin).await.unwrap();
        let mut stream = client.connect(stream, "localhost", HANDSHAKE_LIMIT).await.ok()?;
        let request = "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = Vec::new();
        // In TLS 1.3 a client learns after its handshake that its certificate was refused.
        stream.read_to_end(&mut answer).await.ok()?;
        String::from_utf8_lossy(&answer).lines().next().map(ToOwned::to_owned)
    })
}

#[test]
fn the_admin_listener_answers_only_those_whose_certificate_its_authority_signed() {
    let dir = tempfile::tempdir().unwrap();
    let (ca, stranger) = (TestCa::new("admin"), TestCa::new("stranger"));
    let files = ca.server(&["localhost"]).write(dir.path(), "admin");
    let (revoked, list) = ca.revoked_client("revoked.test");
    let tls = |ca_path: &Path, crl_path: &Path| {
        format!(
            "tls = {{ cert_path = \"{}\", key_path = \"{}\", client_auth = \"required\", client_ca_path = \"{}\", \
             crl_path = \"{}\" }}\n",
            files.cert_path.display(),
            files.key_path.display(),
            ca_path.display(),
            crl_path.display()
        )
    };
    let crl = write_file(dir.path(), "revoked.pem", &list, 0o644);
    let settings = tls(&ca.write(dir.path(), "clients"), &crl);
    let node = node_in(dir, &settings);
    assert_eq!(answer_to(&node, &ca, Some(&ca.client("operator.test"))).as_deref(), Some("HTTP/1.1 200 OK"));
    for (who, identity) in [
        ("nobody", None),
        ("a stranger", Some(stranger.client("operator.test"))),
        ("a revoked client", Some(revoked.clone())),
    ] {
        assert_eq!(answer_to(&node, &ca, identity.as_ref()), None, "{who}");
    }
    // A list that was emptied lifts nothing.
    std::fs::write(&crl, "").unwrap();
    node.signal("HUP");
    eventually("the emptied list is refused", || {
        node.log().contains("the configuration was refused").then_some(())
    });
    assert_eq!(answer_to(&node, &ca, Some(&revoked)), None);
    assert_eq!(answer_to(&node, &ca, Some(&ca.client("operator.test"))).as_deref(), Some("HTTP/1.1 200 OK"));
}
