//! Publish and subscribe for applications, on the overlay's listener for them.

mod access;
mod clients;
mod gateway;
mod guide;
mod life;
mod many;
mod nodes;
mod publishing;
mod shares;
mod slow;
mod sockets;
mod streams;
mod ws;

use std::{
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::support::{Answer, Node, PATIENCE, ask, free_addr};

/// A node whose topics applications use.
struct TopicNode {
    node: Node,
    /// Where applications ask.
    api: SocketAddr,
    /// Where other nodes come.
    overlay: SocketAddr,
}

/// Whoever reaches it may use it.
const OPEN: &str = "auth = \"none\"\n";

impl TopicNode {
    /// A node with these lines of `[overlay.api]`.
    fn start(api_lines: &str) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), "security = \"plaintext\"\n", api_lines, "")
    }

    /// A node in a folder, with these lines of `[overlay]` and of `[overlay.api]`, and tables behind them.
    fn start_in(dir: tempfile::TempDir, overlay_lines: &str, api_lines: &str, tables: &str) -> Self {
        let (api, overlay) = (free_addr(), free_addr());
        let settings = settings(api, overlay, overlay_lines, api_lines, tables);
        Self { node: Node::start_in(dir, &settings), api, overlay }
    }

    /// A node that asks for tokens, made with the key beside it.
    fn with_tokens(api_lines: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        omnigate(dir.path(), &["token", "keygen", "root.key"]);
        let auth = "[auth]\nroot_keys = [\"root.key\"]\n";
        Self::start_in(dir, "security = \"plaintext\"\n", api_lines, auth)
    }

    /// Makes a token.
    #[track_caller]
    fn mint(&self, args: &[&str]) -> String {
        let mint = ["token", "mint", "--key", "root.key", "--any-tenant"];
        omnigate(self.node.path(), &[&mint, args].concat()).trim().to_owned()
    }

    /// Publishes with these further header lines.
    #[track_caller]
    fn post(&self, topic: &str, body: &str, fields: &str) -> Answer {
        post(self.api, topic, body, fields)
    }

    /// Publishes; the publication's number.
    #[track_caller]
    fn publish(&self, topic: &str, body: &str) -> u64 {
        let answer = self.post(topic, body, "");
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["id"]["seq"].as_u64().unwrap()
    }
}

fn settings(
    api: SocketAddr,
    overlay: SocketAddr,
    overlay_lines: &str,
    api_lines: &str,
    tables: &str,
) -> String {
    let overlay = format!("[overlay]\nenabled = true\nlisten = \"{overlay}\"\n{overlay_lines}");
    let api = format!("[overlay.api]\nenabled = true\nlisten = \"{api}\"\n{api_lines}");
    format!("enabled = false\n[node]\ncores = 2\ndata_dir = \"./data\"\n{overlay}\n{api}\n{tables}")
}

#[track_caller]
fn post(api: SocketAddr, topic: &str, body: &str, fields: &str) -> Answer {
    let head = format!("POST /v1/topics/{topic} HTTP/1.1\r\nhost: localhost\r\n{fields}");
    let request = format!("{head}content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
    ask(api, request).unwrap()
}

/// Runs the program to its end, and gives what it printed.
#[track_caller]
fn omnigate(dir: &Path, args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_omnigate"));
    let output = command.args(args).current_dir(dir).env_clear().stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A header line that shows a token.
fn bearer(token: &str) -> String {
    format!("authorization: Bearer {token}\r\n")
}

/// An event as it came.
#[derive(Debug)]
struct Event {
    id: String,
    kind: String,
    data: Value,
}

/// A stream of events.
struct Events(BufReader<TcpStream>);

impl Events {
    /// Subscribes to what the path and the query say, with these further header lines, and waits until the subscription stands.
    #[track_caller]
    fn open(api: SocketAddr, path: &str, fields: &str) -> Self {
        let mut events = Self::ask(api, path, fields);
        while !events.line().starts_with(": subscribed") {}
        events
    }

    /// The same without waiting.
    fn ask(api: SocketAddr, path: &str, fields: &str) -> Self {
        let mut socket = TcpStream::connect(api).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(socket, "GET /v1/topics/{path} HTTP/1.1\r\nhost: localhost\r\n{fields}\r\n").unwrap();
        Self(BufReader::new(socket))
    }

    #[track_caller]
    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.0.read_line(&mut line).unwrap() > 0, "the stream ended");
        line
    }

    /// The next event.
    #[track_caller]
    fn next(&mut self) -> Event {
        let mut event = Event { id: String::new(), kind: String::new(), data: Value::Null };
        loop {
            let line = self.line();
            // Lines of chunks' lengths and signs of life are nobody's.
            match line.trim_end().split_once(": ") {
                Some(("id", id)) => id.clone_into(&mut event.id),
                Some(("event", kind)) => kind.clone_into(&mut event.kind),
                Some(("data", data)) => {
                    event.data = serde_json::from_str(data).unwrap();
                    return event;
                }
                _ => {}
            }
        }
    }

    /// The text of the next event, which is a publication.
    #[track_caller]
    fn text(&mut self) -> String {
        let event = self.next();
        assert_eq!(event.kind, "publication", "{event:?}");
        event.data["text"].as_str().unwrap().to_owned()
    }
}
