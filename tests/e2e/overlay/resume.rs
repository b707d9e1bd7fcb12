//! An event stream that breaks off goes on behind the last event that was read.

use std::{
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpStream},
};

use serde_json::Value;

use super::node::{Home, OverlayNode};
use crate::support::PATIENCE;

/// A subscription over HTTP.
struct Events(BufReader<TcpStream>);

impl Events {
    fn open(admin: SocketAddr, after: Option<&str>) -> Self {
        let mut socket = TcpStream::connect(admin).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let after = after.map_or_else(String::new, |id| format!("Last-Event-ID: {id}\r\n"));
        write!(socket, "GET /overlay/sub/news HTTP/1.1\r\nhost: localhost\r\n{after}\r\n").unwrap();
        let mut events = Self(BufReader::new(socket));
        while !events.line().starts_with(": subscribed") {}
        events
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.0.read_line(&mut line).unwrap() > 0, "the stream ended");
        line
    }

    /// The next event: its id, its name, its data.
    fn next(&mut self) -> (String, String, Value) {
        let mut field = |name: &str| loop {
            let line = self.line();
            if let Some(value) = line.strip_prefix(name) {
                return value.trim().to_owned();
            }
        };
        let (id, event, data) = (field("id: "), field("event: "), field("data: "));
        (id, event, serde_json::from_str(&data).unwrap())
    }
}

#[test]
fn an_event_stream_goes_on_behind_the_last_event_id() {
    let node = OverlayNode::start(Home::new(), "security = \"plaintext\"\ntopics = [\"news\"]");
    let mut events = Events::open(node.node.admin, None);
    for text in ["one", "two"] {
        node.publish("news", text);
    }
    let (id, name, data) = events.next();
    assert_eq!((name.as_str(), &data["text"]), ("publication", &"one".into()));
    drop(events);
    node.publish("news", "three");
    let mut events = Events::open(node.node.admin, Some(&id));
    for text in ["two", "three"] {
        assert_eq!(events.next().2["text"], text);
    }
    let mut events = Events::open(node.node.admin, Some("1-1"));
    assert_eq!(events.next().1, "not_resumed");
}
