//! An HTTP client small enough to trust.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use serde_json::Value;

/// Ample on a loaded machine; a test that waits for it has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: String,
    head: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {}", self.body))
    }
}

/// Asks once, on a connection of its own.
pub(crate) fn ask(addr: &str, method: &str, path: &str, headers: &[&str]) -> Reply {
    // A node gives up a connection that says nothing for seconds, which it does where the machine stalls.
    let text = eventually("an answer comes", || {
        let mut stream = connect(addr);
        send(&mut stream, method, path, headers, addr).ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        Some(text).filter(|text| !text.is_empty())
    });
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Reply { status, body: body.to_owned(), head: head.to_owned() }
}

pub(crate) fn get(addr: &str, path: &str) -> Reply {
    ask(addr, "GET", path, &[])
}

/// What readiness says. That a machine stalled is told there, too, for a moment.
pub(crate) fn readiness(addr: &str, path: &str) -> Reply {
    let is_awake = |reply: &Reply| !reply.body.contains("core_silent");
    eventually("the machine has gone on", || Some(get(addr, path)).filter(is_awake))
}

/// An open event stream.
pub(crate) struct Events(BufReader<TcpStream>);

impl Events {
    /// Subscribes, and returns once the node has said so.
    pub(crate) fn open(addr: &str) -> Self {
        let mut stream = connect(addr);
        send(&mut stream, "GET", "/events", &[], addr).unwrap();
        let mut events = Self(BufReader::new(stream));
        assert!(events.line().unwrap().starts_with("HTTP/1.1 200"));
        while !events.line().unwrap().starts_with(": ") {}
        events
    }

    /// The data of the next event of that name, passing over others.
    pub(crate) fn wait_for(&mut self, name: &str) -> Value {
        let (wanted, end) = (format!("event: {name}"), Instant::now() + PATIENCE);
        while self.line().expect("the stream ended too early") != wanted {
            // It never pauses for long: the node says now and then that it is still there.
            assert!(Instant::now() < end, "gave up waiting for {name}");
        }
        let data = self.line().unwrap();
        serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap()
    }

    /// Everything until the node ends the stream.
    pub(crate) fn rest(mut self) -> String {
        let mut text = String::new();
        self.0.read_to_string(&mut text).unwrap();
        text
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.0.read_line(&mut line).unwrap();
        (read > 0).then(|| line.trim_end().to_owned())
    }
}

fn connect(addr: &str) -> TcpStream {
    let stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Polls until `probe` finds something.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(Instant::now() < end, "gave up waiting until {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

fn send(
    stream: &mut TcpStream,
    method: &str,
    path: &str,
    headers: &[&str],
    addr: &str,
) -> std::io::Result<()> {
    let host = if headers.iter().any(|header| header.starts_with("Host:")) {
        String::new()
    } else {
        format!("Host: {addr}\r\n")
    };
    let more: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let request = format!("{method} {path} HTTP/1.1\r\n{host}{more}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes())
}
