//! The commands that look at and steer a running node, and what they say of servers that fail.

use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
};

use rustix::process::Signal;

use crate::{
    cli_run::{Ran, omnigate, run},
    http::{self, eventually},
    node::Node,
    ports::free_port,
};

/// Runs a command against the node.
fn ask(node: &Node, args: &[&str]) -> Ran {
    let admin = format!("admin.listen={}", node.admin);
    run(omnigate(&node.path(""), &[args, &["--set", &admin]].concat()))
}

/// A server that answers each request with these bytes and closes the connection.
fn answering(bytes: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // What is asked does not matter, and neither does whether the other side has left.
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(bytes.as_bytes());
        }
    });
    addr
}

/// A node that passes everything to this server.
fn in_front_of(server: &str) -> Node {
    Node::start(&["--to", server])
}

#[test]
fn a_server_that_refuses_connections_is_named_with_its_cause_to_operators_alone() {
    let port = free_port();
    let node = in_front_of(&format!("http://127.0.0.1:{port}"));
    let reply = http::get(&node.gateway, "/");
    assert_eq!(reply.status, 502);
    assert!(!reply.body.contains(&port.to_string()) && !reply.body.contains("refused the"), "{}", reply.body);
    let shown = ask(&node, &["status"]);
    assert_eq!(shown.code, Some(0), "{}", shown.err);
    assert!(shown.out.contains("it refused the connection"), "{}", shown.out);
    let route = shown.out.lines().find(|line| line.starts_with("/ ")).unwrap();
    let columns: Vec<&str> = route.split_whitespace().collect();
    assert_eq!(columns[1..4], ["1", "0", "1"], "answered, 4xx, 5xx: {}", shown.out);
    let json: serde_json::Value = serde_json::from_str(&ask(&node, &["status", "--json"]).out).unwrap();
    let error = &json["gateway"]["upstreams"][0]["servers"][0]["last_error"];
    assert_eq!(error["cause"], "it refused the connection");
    let log = node.log();
    let line = log.lines().find(|line| line.contains("a request to a server failed")).unwrap();
    assert!(line.contains("WARN") && line.contains("it refused the connection"), "{line}");
    assert!(line.contains(&port.to_string()), "{line}");
}

#[test]
fn many_failures_of_one_cause_are_one_line_and_an_opened_breaker_says_why() {
    let node = in_front_of(&format!("http://127.0.0.1:{}", free_port()));
    for _ in 0..40 {
        assert_eq!(http::get(&node.gateway, "/").status, 502);
    }
    let log = node.log();
    let lines = |text: &str| log.lines().filter(|line| line.contains(text)).collect::<Vec<_>>();
    // More than one if the machine takes its time: the same cause is written again after ten seconds.
    assert!(lines("a request to a server failed").len() < 10, "{log}");
    let opened = lines("its breaker opened");
    assert!(!opened.is_empty() && opened[0].contains("it refused the connection"), "{log}");
    let ready = eventually("readiness tells of the upstream", || {
        Some(node.get("/readyz").body).filter(|body| body.contains("upstream_down"))
    });
    assert!(ready.contains("it refused the connection"), "{ready}");
}

#[test]
fn a_response_that_is_cut_says_who_cut_it() {
    let server = answering("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nhalf of it");
    let node = in_front_of(&format!("http://{server}"));
    let mut stream = std::net::TcpStream::connect(&node.gateway).unwrap();
    write!(stream, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    // It ends early, one way or the other.
    let _ = stream.read_to_end(&mut Vec::new());
    let log = eventually("the log tells", || Some(node.log()).filter(|log| log.contains("a server failed")));
    let line = log.lines().find(|line| line.contains("a server failed")).unwrap();
    assert!(line.contains("closed the connection in the middle of its answer"), "{line}");
}

#[test]
fn a_tunnel_that_is_cut_because_nothing_moves_says_so() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let switched =
                "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
            let _ = stream.write_all(switched.as_bytes());
            open.push(stream);
        }
    });
    let to = format!("http://{server}");
    let node = Node::start(&["--to", &to, "--set", "gateway.tunnel_idle_timeout=1s"]);
    let mut stream = std::net::TcpStream::connect(&node.gateway).unwrap();
    let fields = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                  Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    write!(stream, "GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n").unwrap();
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    assert!(all.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&all));
    let log = eventually("the log tells", || Some(node.log()).filter(|log| log.contains("a tunnel was cut")));
    let line = log.lines().find(|line| line.contains("a tunnel was cut")).unwrap();
    assert!(line.contains("nothing moved for `tunnel_idle_timeout`"), "{line}");
}

#[test]
fn a_server_that_closes_without_an_answer_or_speaks_nonsense_is_told_apart() {
    for (bytes, cause) in
        [("", "closed the connection without an answer"), ("nonsense\r\n\r\n", "is not HTTP")]
    {
        let node = in_front_of(&format!("http://{}", answering(bytes)));
        assert_eq!(http::get(&node.gateway, "/").status, 502);
        let shown = ask(&node, &["status"]).out;
        assert!(shown.contains(cause), "{cause}: {shown}");
    }
}

#[test]
fn a_server_that_does_not_speak_tls_is_told_from_one_that_does_not_answer() {
    let dir = tempfile::tempdir().unwrap();
    let ca = ron_transport::tls::testkit::TestCa::new("authority").write(dir.path(), "trusted");
    let file = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[gateway]\nlisten = \"127.0.0.1:0\"\n\
         [[gateway.route]]\npath = \"/\"\nupstream = \"app\"\n\
         [gateway.upstream.app]\nendpoints = [\"https://{}\"]\ntls = {{ ca_path = {ca:?} }}\n",
        answering("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    );
    fs::write(dir.path().join("omnigate.toml"), file).unwrap();
    let node = Node::from_file(dir);
    assert_eq!(http::get(&node.gateway, "/").status, 502);
    let shown = ask(&node, &["status"]).out;
    assert!(shown.contains("what the peer sent is not TLS"), "{shown}");
}

#[test]
fn health_is_0_for_a_node_that_is_ready_and_1_for_one_that_is_gone() {
    let mut node = Node::start(&[]);
    let healthy = ask(&node, &["health"]);
    assert_eq!((healthy.code, healthy.out.lines().next()), (Some(0), Some("ready")), "{}", healthy.err);
    node.signal(Signal::TERM);
    node.wait();
    let gone = ask(&node, &["health"]);
    assert_eq!(gone.code, Some(1));
    assert!(gone.err.contains("nothing listens there"), "{}", gone.err);
}

#[test]
fn a_node_is_asked_how_it_is_although_its_file_is_broken_by_now() {
    let dir = tempfile::tempdir().unwrap();
    let base = "[admin]\nlisten = \"127.0.0.1:0\"\ntoken = \"0123456789abcdef\"\n[gateway]\nlisten = \"127.0.0.1:0\"\n";
    fs::write(dir.path().join("omnigate.toml"), base).unwrap();
    let node = Node::from_file(dir);
    for broken in ["max_cons = 1\n", "max_conns = \n", "[[gateway.route]]\npath = \"/\"\n", "route = [\n"] {
        fs::write(node.path("aside"), format!("{base}{broken}")).unwrap();
        fs::rename(node.path("aside"), node.path("omnigate.toml")).unwrap();
        let healthy = ask(&node, &["health"]);
        assert_eq!(
            (healthy.code, healthy.out.lines().next()),
            (Some(0), Some("ready")),
            "{broken}: {}",
            healthy.err
        );
        assert!(healthy.err.contains("`omnigate check`"), "{}", healthy.err);
        assert_eq!(ask(&node, &["status"]).code, Some(0), "{broken}: with the token of the file");
    }
    fs::write(node.path("omnigate.toml"), "[admin]\ntoken = 7\n").unwrap();
    assert_eq!(ask(&node, &["health"]).code, Some(2), "there is no way to know how to ask");
}

#[test]
fn reload_says_what_is_in_force_and_why_a_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("omnigate.toml");
    let base = "[admin]\nlisten = \"127.0.0.1:0\"\n[gateway]\nlisten = \"127.0.0.1:0\"\n";
    fs::write(&file, base).unwrap();
    let node = Node::from_file(dir);
    let same = ask(&node, &["reload"]);
    assert_eq!((same.code, same.out.as_str()), (Some(0), "generation 1 of the configuration is in force\n"));
    fs::write(node.path("aside"), format!("{base}max_conns = 77\n")).unwrap();
    fs::rename(node.path("aside"), node.path("omnigate.toml")).unwrap();
    let changed = ask(&node, &["reload"]);
    assert_eq!(
        (changed.code, changed.out.as_str()),
        (Some(0), "generation 2 of the configuration is in force\n")
    );
    // The command reads the file too, and says what is wrong with it before it asks the node.
    fs::write(node.path("aside"), format!("{base}max_cons = 77\n")).unwrap();
    fs::rename(node.path("aside"), node.path("omnigate.toml")).unwrap();
    let wrong = ask(&node, &["reload"]);
    assert!(wrong.code == Some(2) && wrong.err.contains("max_cons"), "{}", wrong.err);
    let refused = node.ask("POST", "/reload", &["X-Omnigate: 1", "Content-Length: 0"]);
    assert!(refused.status == 409 && refused.body.contains("max_cons"), "{}", refused.body);
    assert_eq!(node.ask("POST", "/reload", &["Content-Length: 0"]).status, 403, "a page could have sent it");
}

#[test]
fn stop_returns_once_the_node_has_ended() {
    let mut node = Node::start(&[]);
    let stopped = ask(&node, &["stop"]);
    assert_eq!((stopped.code, stopped.out.as_str()), (Some(0), "stopped\n"), "{}", stopped.err);
    assert_eq!(node.wait(), Some(0));
    let again = ask(&node, &["stop"]);
    assert!(again.code == Some(1) && again.err.contains("nothing listens there"), "{}", again.err);
}

#[test]
fn top_prints_a_line_for_each_look_where_there_is_no_terminal() {
    let node = Node::start(&[]);
    let shown = ask(&node, &["top", "--interval", "10ms", "--count", "3"]);
    assert_eq!((shown.code, shown.out.lines().count()), (Some(0), 3), "{}", shown.err);
    assert!(
        shown.out.lines().all(|line| line.contains("  ready  ") && line.contains(" req/s")),
        "{}",
        shown.out
    );
}

#[test]
fn a_subscriber_whose_node_goes_away_is_told_so() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    let event: &'static str = format!("{head}8\r\n: hello\n\r\n").leak();
    for (bytes, said) in [
        (event, "closed the connection before its answer was complete"),
        ("", "closed the connection before its answer was complete"),
        ("SSH-2.0-OpenSSH_9.2\r\n", "is not an Omnigate admin listener"),
    ] {
        let admin = format!("admin.listen={}", answering(bytes));
        let dir = tempfile::tempdir().unwrap();
        let ran = run(omnigate(dir.path(), &["sub", "news", "--set", &admin]));
        assert!(ran.code == Some(1) && ran.err.contains(said), "{bytes:?}: {}", ran.err);
    }
}

#[test]
fn a_password_in_a_wrong_url_is_not_repeated() {
    let dir = tempfile::tempdir().unwrap();
    for url in
        ["http://user:hunter2@127.0.0.1:1", "htp://user:hunter2@h", "user:hunter2@h:1", "http://h/?k=hunter2"]
    {
        for command in ["gateway", "up"] {
            let ran = run(omnigate(dir.path(), &[command, "--to", url]));
            assert_eq!(ran.code, Some(2), "{url}");
            assert!(!ran.err.contains("hunter2"), "{}", ran.err);
        }
    }
}

#[test]
fn a_difference_between_a_file_and_the_node_is_told_before_it_is_applied() {
    let dir = tempfile::tempdir().unwrap();
    let file = "[admin]\nlisten = \"127.0.0.1:0\"\ntoken = \"s3cret-s3cret-s3cret\"\n[gateway]\nlisten = \"127.0.0.1:0\"\nmax_conns = 9\n";
    fs::write(dir.path().join("omnigate.toml"), file).unwrap();
    let node = Node::from_file(dir);
    let same = ask(&node, &["config", "diff"]);
    assert_eq!((same.code, same.out.as_str()), (Some(0), ""), "{}", same.err);
    assert!(same.err.contains("not compared: admin.token"), "{}", same.err);
    let route = "[[gateway.route]]\npath = \"/\"\nrespond = { status = 204 }\n[node]\ncores = 1\n";
    let other = file
        .replace("max_conns = 9", "max_conns = 10")
        .replace("s3cret-s3cret-s3cret", "other-other-other-1");
    fs::write(node.path("new.toml"), format!("{other}{route}")).unwrap();
    // The other token is not the node's.
    let refused = ask(&node, &["config", "diff", "--config", "new.toml"]);
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    let token = ["--set", "admin.token=s3cret-s3cret-s3cret"];
    let shown = ask(&node, &[&["config", "diff", "--config", "new.toml"], &token[..]].concat());
    assert_eq!(shown.code, Some(1), "{}", shown.err);
    assert!(shown.out.contains("- gateway.max_conns = 9\n+ gateway.max_conns = 10\n"), "{}", shown.out);
    assert!(shown.out.contains("+ gateway.route[0].respond.status = 204\n"), "{}", shown.out);
    assert!(shown.out.contains("+ node.cores = 1   # after a restart\n"), "{}", shown.out);
    for said in [&shown.out, &shown.err] {
        assert!(!said.contains("s3cret") && !said.contains("other-other"), "{said}");
    }
    let json = ask(&node, &[&["config", "diff", "--json", "--config", "new.toml"], &token[..]].concat());
    let listed: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    let conns = listed.as_array().unwrap().iter().find(|entry| entry["key"] == "gateway.max_conns").unwrap();
    assert_eq!(
        (&conns["running"], &conns["given"], &conns["restart"]),
        (&9.into(), &10.into(), &false.into())
    );
}
