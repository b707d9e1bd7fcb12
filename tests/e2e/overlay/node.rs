//! A node that runs the overlay, and what is heard through it.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use serde_json::Value;

use crate::support::{Node, PATIENCE, ask, eventually, free_addr, get};

/// A node with an overlay.
pub(super) struct OverlayNode {
    pub(super) node: Node,
    pub(super) addr: SocketAddr,
    pub(super) id: String,
}

/// A folder for a node, and the id that the node in it has.
pub(super) struct Home {
    pub(super) dir: tempfile::TempDir,
    pub(super) id: String,
}

impl Home {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("id.toml"), "[node]\ndata_dir = \"./data\"\n").unwrap();
        let id = omnigate(dir.path(), &["node", "id", "--config", "id.toml"]);
        Self { dir, id: id.trim().to_owned() }
    }
}

/// Runs the program to its end, and gives what it printed.
#[track_caller]
pub(super) fn omnigate(dir: &Path, args: &[&str]) -> String {
    let output = command(dir, args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

pub(super) fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_omnigate"));
    command.args(args).current_dir(dir).env_clear().stdin(Stdio::null());
    command
}

impl OverlayNode {
    /// Starts a node in its home with these lines of `[overlay]`.
    pub(super) fn start(home: Home, lines: &str) -> Self {
        let addr = free_addr();
        let node = Node::start_in(home.dir, &settings(addr, lines));
        Self { node, addr, id: home.id }
    }

    /// Puts other lines into force.
    pub(super) fn reload(&self, lines: &str) {
        self.node.reload(&settings(self.addr, lines));
    }

    /// Publishes; the publication's number, and whether a neighbour has taken it on.
    #[track_caller]
    pub(super) fn publish(&self, topic: &str, body: &str) -> (u64, bool) {
        let head = format!("POST /overlay/pub/{topic} HTTP/1.1\r\nhost: localhost\r\nx-omnigate: 1\r\n");
        let request = format!("{head}content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
        let answer = ask(self.node.admin, request).unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        let answer = answer.json();
        (answer["id"]["seq"].as_u64().unwrap(), answer["verdict"] == "accepted")
    }

    pub(super) fn peers(&self) -> Vec<Value> {
        let answer = get(self.node.admin, "/overlay/peers").unwrap().json();
        answer["peers"].as_array().unwrap().clone()
    }

    #[track_caller]
    pub(super) fn wait_for_peers(&self, count: usize) {
        eventually(&format!("there are {count} peers"), || (self.peers().len() == count).then_some(()));
    }

    /// Subscribes with the command line's `sub`.
    pub(super) fn subscribe(&self, topic: &str) -> Listening {
        let args = ["sub", "--config", "omnigate.toml", "--json", topic];
        let mut child = command(self.node.path(), &args).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let (heard, events) = mpsc::channel();
        thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                if heard.send(serde_json::from_str(&line).unwrap()).is_err() {
                    return;
                }
            }
        });
        // The command has to be heard by the node before anything is published.
        eventually("the subscription stands", || {
            let scrape = get(self.node.admin, "/metrics").unwrap().body;
            scrape.contains("queue=\"subscriber\"").then_some(())
        });
        Listening { child, events }
    }
}

/// What a subscriber hears.
pub(super) struct Listening {
    child: Child,
    events: mpsc::Receiver<Value>,
}

impl Listening {
    /// The next event.
    #[track_caller]
    pub(super) fn next(&self) -> Value {
        self.next_within(PATIENCE).expect("something is heard in time")
    }

    pub(super) fn next_within(&self, wait: Duration) -> Option<Value> {
        self.events.recv_timeout(wait).ok()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn settings(addr: SocketAddr, lines: &str) -> String {
    let overlay = format!("[overlay]\nenabled = true\nlisten = \"{addr}\"\n{lines}\n");
    format!("enabled = false\n[node]\ncores = 2\ndata_dir = \"./data\"\n{overlay}")
}
