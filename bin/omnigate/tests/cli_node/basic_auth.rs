//! Routes with `basic_auth`: who passes, what servers learn, and what guessing gets.

use std::{fs, io::Write as _, process::Stdio};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rustix::process::Signal;

use crate::{
    cli_run::{omnigate, run},
    forward_auth::{app, lines},
    http::{self, Reply, eventually},
    node::Node,
};

/// A hash of the lowest cost.
fn hash(password: &str) -> String {
    bcrypt::hash_with_salt(password, 4, [7; 16]).unwrap().format_for_version(bcrypt::Version::TwoY)
}

fn folder(app: &str, users: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let file = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[gateway]\nlisten = \"127.0.0.1:0\"\n[gateway.quotas]\nper_ip_rps = 0\n\
         [gateway.upstream.app]\nendpoints = [\"http://{app}\"]\n\
         [[gateway.route]]\npath = \"/\"\nupstream = \"app\"\n\
         basic_auth = {{ users_path = \"users\", realm = \"staff\", user_header = \"x-user\" }}\n\
         [[gateway.route]]\npath = \"/open\"\nupstream = \"app\"\n"
    );
    fs::write(dir.path().join("omnigate.toml"), file).unwrap();
    fs::write(dir.path().join("users"), users).unwrap();
    dir
}

fn login(node: &Node, path: &str, user: &str, password: &str, more: &[&str]) -> Reply {
    let shown = format!("Authorization: Basic {}", STANDARD.encode(format!("{user}:{password}")));
    http::ask(&node.gateway, "GET", path, &[&[shown.as_str()], more].concat())
}

#[test]
fn a_user_passes_with_the_password_and_the_server_learns_the_name_and_not_the_password() {
    let (app, heard) = app();
    let node = Node::from_file(folder(&app, &format!("ann:{}\n", hash("secret"))));
    for _ in 0..3 {
        let fields = ["X-User: root", "X_User: root", "Connection: x-user"];
        let reply = login(&node, "/a", "ann", "secret", &fields);
        assert_eq!((reply.status, reply.body.as_str()), (200, "ok"));
    }
    for request in heard.lock().unwrap().iter() {
        assert_eq!(lines(request, "x-user"), ["x-user: ann"], "{request}");
        assert!(
            lines(request, "x_user").is_empty() && lines(request, "authorization").is_empty(),
            "{request}"
        );
    }
    assert_eq!(login(&node, "/open", "ann", "wrong", &[]).status, 200, "other routes do not ask");
    let log = node.log();
    assert!(!log.contains("secret") && !log.contains(&STANDARD.encode("ann:secret")), "{log}");
}

#[test]
fn nobody_else_passes_and_is_told_what_is_asked_for() {
    let (app, heard) = app();
    let node = Node::from_file(folder(&app, &format!("ann:{}\nbob:{}\n", hash("secret"), hash("other"))));
    let refused = [
        http::get(&node.gateway, "/a"),
        login(&node, "/a", "ann", "wrong", &[]),
        login(&node, "/a", "ann", "other", &[]),
        login(&node, "/a", "nobody", "secret", &[]),
        login(&node, "/a", "", "", &[]),
        login(&node, "//a;x", "ann", "", &[]),
        http::ask(&node.gateway, "GET", "/a", &["Authorization: Bearer abc"]),
        http::ask(&node.gateway, "GET", "/a", &["Authorization: Basic ???"]),
    ];
    for reply in refused {
        assert_eq!(reply.status, 401, "{}", reply.body);
        assert_eq!(reply.header("www-authenticate"), Some("Basic realm=\"staff\", charset=\"UTF-8\""));
        assert_eq!(reply.header("cache-control"), Some("no-store"));
    }
    let twice = ["Authorization: Basic YW5uOnNlY3JldA==", "Authorization: Basic YW5uOnNlY3JldA=="];
    assert_eq!(http::ask(&node.gateway, "GET", "/a", &twice).status, 400);
    assert!(heard.lock().unwrap().is_empty(), "the server is not asked");
}

#[test]
fn an_address_that_guesses_is_told_to_wait_and_a_remembered_password_still_passes() {
    let (app, _) = app();
    let node = Node::from_file(folder(&app, &format!("ann:{}\n", hash("secret"))));
    assert_eq!(login(&node, "/a", "ann", "secret", &[]).status, 200);
    let guesses: Vec<_> = (0..40).map(|n| login(&node, "/a", "ann", &n.to_string(), &[])).collect();
    assert_eq!(guesses[0].status, 401);
    let refused = guesses.iter().find(|reply| reply.status == 429).expect("guessing ends");
    assert!(refused.header("retry-after").is_some() && refused.body.contains("were wrong"));
    assert_eq!(login(&node, "/a", "ann", "secret", &[]).status, 200);
}

#[test]
fn many_requests_at_once_with_the_right_password_all_pass_and_those_given_up_cost_nothing() {
    let (app, _) = app();
    let slow =
        bcrypt::hash_with_salt("secret", 8, [7; 16]).unwrap().format_for_version(bcrypt::Version::TwoY);
    let node = Node::from_file(folder(&app, &format!("ann:{slow}\n")));
    let statuses = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|| {
                let status = login(&node, "/a", "ann", "secret", &[]).status;
                statuses.lock().unwrap().push(status);
            });
        }
    });
    let statuses = statuses.into_inner().unwrap();
    assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
    // As many as an address may get wrong, and more, leave before there is an answer.
    let shown = STANDARD.encode("ann:other");
    for _ in 0..30 {
        let mut stream = std::net::TcpStream::connect(&node.gateway).unwrap();
        write!(stream, "GET /a HTTP/1.1\r\nHost: a\r\nAuthorization: Basic {shown}\r\n\r\n").unwrap();
    }
    eventually("nobody waits", || {
        let reply = login(&node, "/a", "ann", "secret", &[]);
        (reply.status == 200).then_some(())
    });
}

#[test]
fn no_route_lets_a_client_say_who_it_is() {
    let (app, heard) = app();
    let node = Node::from_file(folder(&app, &format!("ann:{}\n", hash("secret"))));
    for fields in [["X-User: admin"], ["X_User: admin"], ["x-USER: admin"]] {
        assert_eq!(http::ask(&node.gateway, "GET", "/open", &fields).status, 200);
    }
    for request in heard.lock().unwrap().iter() {
        assert!(lines(request, "x-user").is_empty() && lines(request, "x_user").is_empty(), "{request}");
    }
    assert_eq!(heard.lock().unwrap().len(), 3);
}

#[test]
fn a_reload_reads_the_users_anew_and_forgets_who_is_gone() {
    let (app, _) = app();
    let node = Node::from_file(folder(&app, &format!("ann:{}\nbob:{}\n", hash("secret"), hash("other"))));
    assert_eq!(login(&node, "/a", "ann", "secret", &[]).status, 200);
    assert_eq!(login(&node, "/a", "bob", "other", &[]).status, 200);
    fs::write(node.path("users"), format!("ann:{}\ncat:{}\n", hash("new"), hash("third"))).unwrap();
    node.signal(Signal::HUP);
    // As long as it is remembered, asking costs no try.
    eventually("this user is gone", || (login(&node, "/a", "bob", "other", &[]).status == 401).then_some(()));
    assert_eq!(login(&node, "/a", "ann", "secret", &[]).status, 401, "the old password was remembered");
    assert_eq!(login(&node, "/a", "cat", "third", &[]).status, 200);
    assert_eq!(login(&node, "/a", "ann", "new", &[]).status, 200);
}

#[test]
fn the_command_prints_a_line_that_lets_the_user_pass() {
    let (app, _) = app();
    let dir = folder(&app, "");
    let ran = run(omnigate(dir.path(), &["check"]));
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("has no users"), "{}", ran.err);
    let mut child = omnigate(dir.path(), &["password", "ann"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all("pässword: 1\n".as_bytes()).unwrap();
    let line = child.wait_with_output().unwrap().stdout;
    assert!(line.starts_with(b"ann:$argon2id$v=19$m=19456,t=2,p=1$") && line.ends_with(b"\n"));
    fs::write(dir.path().join("users"), line).unwrap();
    assert_eq!(run(omnigate(dir.path(), &["check"])).code, Some(0));
    let node = Node::from_file(dir);
    assert_eq!(login(&node, "/a", "ann", "pässword: 1", &[]).status, 200);
    assert_eq!(login(&node, "/a", "ann", "pässword: 2", &[]).status, 401);
}

#[test]
fn what_cannot_work_is_told() {
    let dir = folder("127.0.0.1:1", &format!("ann:{}x\nbob:plain\n", hash("x")));
    let ran = run(omnigate(dir.path(), &["check"]));
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("line 1: its hash is damaged") && !ran.err.contains("$2y$"), "{}", ran.err);
    let file = "[gateway]\nlisten = \"0.0.0.0:8080\"\n[gateway.upstream.a]\nendpoints = [\"http://127.0.0.1:1\"]\n\
                [[gateway.route]]\npath = \"/\"\nupstream = \"a\"\nauth = \"always\"\ncache = {}\n\
                basic_auth = { users_path = \"\", realm = \"a\\\"b\", user_header = \"x-omnigate-tenant\" }\n";
    fs::write(dir.path().join("omnigate.toml"), file).unwrap();
    let ran = run(omnigate(dir.path(), &["check"]));
    assert_eq!(ran.code, Some(2));
    for words in [
        "must name a file of users",
        "signs of ASCII",
        "is not a field that can be set",
        "reads `Authorization`, as `auth`",
        "is not for routes with `cache`",
    ] {
        assert!(ran.err.contains(words), "{words}: {}", ran.err);
    }
    let file = file.replace("auth = \"always\"\ncache = {}\n", "");
    let file = file.replace(
        "users_path = \"\", realm = \"a\\\"b\", user_header = \"x-omnigate-tenant\"",
        "users_path = \"users\"",
    );
    fs::write(dir.path().join("omnigate.toml"), file).unwrap();
    fs::write(dir.path().join("users"), format!("ann:{}\n", hash("x"))).unwrap();
    let ran = run(omnigate(dir.path(), &["check"]));
    assert!(
        ran.code == Some(0) && ran.err.contains("passwords cross the network in the clear"),
        "{}",
        ran.err
    );
}
