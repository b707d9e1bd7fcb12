//! Clients and servers that are not ours: curl, h2load, and those of Python and JavaScript.

mod console;
mod overlay;
mod packs;

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, Command, Output, Stdio},
};

use ron_transport::tls::testkit::TestCa;

use crate::support::{Node, UNLIMITED, Upstream, to};

/// Everything that happens to a connection is told, for whoever wonders why a client failed.
const TELL_ALL: &str = "[log]\nlevel = \"debug\"\n";

/// A node with certificates, and the file with whom to trust.
pub(crate) fn with_tls(settings: &str) -> (Node, String) {
    let dir = tempfile::tempdir().unwrap();
    let ca = TestCa::new("clients");
    let files = ca.server(&["localhost"]).write(dir.path(), "server");
    let trusted = ca.write(dir.path(), "ca").display().to_string();
    let tls = format!("tls = {{ cert_path = {:?}, key_path = {:?} }}\n", files.cert_path, files.key_path);
    (Node::start_in(dir, &format!("{tls}{settings}")), trusted)
}

/// What a program prints; it has to succeed.
#[track_caller]
fn output(command: &mut Command, input: &[u8]) -> String {
    let output = run(command, input);
    assert!(output.status.success(), "{command:?}: {}", told(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn run(command: &mut Command, input: &[u8]) -> Output {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    // One that fails may not wait for it; what it says then is told below.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

/// Runs a client of a node; it has to succeed. If it fails, what the node has counted is told, and its log at the end.
#[track_caller]
fn run_client(node: &Node, command: &mut Command) {
    let counted = || {
        let of_interest = ["io_timeouts_total", "rejected_total", "connections", "http_requests_total"];
        let scrape = node.scrape();
        let lines = scrape.lines().filter(|line| of_interest.iter().any(|name| line.starts_with(name)));
        lines.map(|line| format!("\n{line}")).collect::<String>()
    };
    let output = run(command, b"");
    assert!(output.status.success(), "{command:?}: {}{}", told(&output), counted());
}

/// The answer's body, then its version of HTTP and its status.
#[track_caller]
fn curl(args: &[&str], input: &[u8]) -> String {
    let always = ["-sS", "--max-time", "120", "-w", " over %{http_version}: %{http_code}"];
    output(Command::new("curl").args(always).args(args), input)
}

#[test]
fn curl_is_answered_in_each_version_of_http() {
    let upstream = Upstream::start();
    let node = Node::in_front_of(upstream.addr);
    let url = format!("http://{}", node.gateway);
    assert_eq!(curl(&["--http1.0", &format!("{url}/a")], b""), "/a over 1: 200");
    assert_eq!(curl(&["--http1.1", &format!("{url}/a")], b""), "/a over 1.1: 200");
    assert_eq!(curl(&["--http2-prior-knowledge", &format!("{url}/a?b=c")], b""), "/a?b=c over 2: 200");
    // Asking to upgrade to HTTP/2 in the clear is asking for nothing.
    assert_eq!(curl(&["--http2", &format!("{url}/a")], b""), "/a over 1.1: 200");

    let (node, ca) = with_tls(&to(upstream.addr));
    let url = format!("https://localhost:{}", node.gateway.port());
    let here = ["--resolve", &format!("localhost:{}:127.0.0.1", node.gateway.port()), "--cacert", &ca];
    let tls = |args: &[&str]| curl(&[&here, args].concat(), b"");
    assert_eq!(tls(&["--http1.1", &format!("{url}/s")]), "/s over 1.1: 200");
    assert_eq!(tls(&[&format!("{url}/s")]), "/s over 2: 200");
    assert_eq!(tls(&["--tlsv1.3", &format!("{url}/s")]), "/s over 2: 200");
    assert_eq!(tls(&["--tls-max", "1.2", &format!("{url}/s")]), "/s over 2: 200");
}

#[test]
fn curl_uploads_in_every_way_it_knows() {
    let upstream = Upstream::start();
    let node = Node::in_front_of(upstream.addr);
    let url = format!("http://{}/length", node.gateway);
    let body = vec![b'u'; 300_000];
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        let over = if version == "--http1.1" { "1.1" } else { "2" };
        for how in [
            ["--data-binary", "@-", "-H", "Expect:"],
            ["--data-binary", "@-", "-H", "Expect: 100-continue"],
            ["-T", "-", "-X", "PUT"],
        ] {
            let answer = curl(&[&[version, &url], how.as_slice()].concat(), &body);
            assert_eq!(answer, format!("300000 over {over}: 200"), "{version} {how:?}");
        }
    }
}

#[test]
fn h2load_loses_no_request_in_either_version() {
    let upstream = Upstream::start();
    let node = Node::in_front_of(upstream.addr);
    let url = format!("http://{}/load", node.gateway);
    for version in [["-m", "10"].as_slice(), ["--h1"].as_slice()] {
        let mut command = Command::new("h2load");
        let text = output(command.args(["-n", "2000", "-c", "10", &url]).args(version), b"");
        let counts =
            "requests: 2000 total, 2000 started, 2000 done, 2000 succeeded, 0 failed, 0 errored, 0 timeout";
        assert!(text.contains(counts), "{text}");
        assert!(text.contains("status codes: 2000 2xx, 0 3xx, 0 4xx, 0 5xx"), "{text}");
    }
}

/// A server in Python, stopped when dropped.
struct Script {
    child: Child,
    port: u16,
    _until_closed: ChildStdin,
}

impl Script {
    fn start(name: &str) -> Self {
        let mut child = python(name).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().parse().unwrap_or_else(|_| panic!("{name} says {line:?}"));
        Self { port, _until_closed: child.stdin.take().unwrap(), child }
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn python(script: &str) -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(root.join("target/tools/python/bin/python"));
    command.arg(root.join("tests/clients").join(script));
    command
}

#[test]
#[ignore = "needs Python packages: run `tools/check clients`"]
fn a_websocket_client_gets_every_message_back() {
    let server = Script::start("websocket_server.py");
    let settings = format!(
        "{UNLIMITED}route = [{{ path = \"/ws\", upgrade = [\"websocket\"], upstream = \"up\" }}, \
                             {{ path = \"/plain\", upstream = \"up\" }}]\n\
         upstream.up = {{ endpoints = [\"http://127.0.0.1:{}\"], protocol = \"http1\" }}\n{TELL_ALL}",
        server.port
    );
    let node = Node::start(&settings);
    run_client(&node, python("websocket_client.py").arg(format!("ws://{}", node.gateway)));
    let (node, ca) = with_tls(&settings);
    let url = format!("wss://localhost:{}", node.gateway.port());
    run_client(&node, python("websocket_client.py").args([url, ca]));
}

#[test]
#[ignore = "needs Python packages: run `tools/check clients`"]
fn a_grpc_client_gets_messages_streams_statuses_and_trailers() {
    let server = Script::start("grpc_server.py");
    let settings = format!(
        "{UNLIMITED}route = [{{ path = \"/test.Echo\", upstream = \"up\" }}]\n\
         upstream.up = {{ endpoints = [\"http://127.0.0.1:{}\"], protocol = \"h2\" }}\n{TELL_ALL}",
        server.port
    );
    let node = Node::start(&settings);
    run_client(&node, python("grpc_client.py").arg(node.gateway.to_string()));
    let (node, ca) = with_tls(&settings);
    let addr = format!("localhost:{}", node.gateway.port());
    run_client(&node, python("grpc_client.py").args([addr, ca]));
}
