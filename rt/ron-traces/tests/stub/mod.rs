//! A collector that answers as it is told and keeps what it was sent.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::Duration,
};

use serde_json::Value;

/// Ample for anything on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a collector does with a request.
pub(crate) enum Act {
    /// Answers with this status and body.
    Say(&'static str, &'static str),
    /// Keeps the connection and says nothing.
    Hang,
}

/// A request as it arrived.
pub(crate) struct Heard {
    pub(crate) head: String,
    pub(crate) body: Value,
}

/// A running collector.
pub(crate) struct Collector {
    pub(crate) addr: SocketAddr,
    heard: Receiver<Heard>,
}

impl Collector {
    /// Starts one; `act` says what it does with each request, counted from zero.
    pub(crate) fn start(act: impl Fn(usize) -> Act + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (addr, (send, heard)) = (listener.local_addr().unwrap(), channel());
        thread::spawn(move || {
            let mut kept = Vec::new();
            for (at, mut stream) in listener.incoming().map_while(Result::ok).enumerate() {
                match act(at) {
                    Act::Say(status, body) => answer(&mut stream, status, body, &send),
                    Act::Hang => kept.push(stream),
                }
            }
        });
        Self { addr, heard }
    }

    /// Its address as a setting.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1/traces", self.addr)
    }

    /// The next request that it answered.
    #[track_caller]
    pub(crate) fn next(&self) -> Heard {
        self.heard.recv_timeout(PATIENCE).expect("a request in time")
    }

    /// Reads on until so many spans have arrived; with the name of the service that told each.
    #[track_caller]
    pub(crate) fn spans(&self, count: usize) -> Vec<(String, Value)> {
        let mut spans = Vec::new();
        while spans.len() < count {
            spans.extend(spans_of(&self.next().body));
        }
        spans
    }
}

/// The spans of a request, with the name of the service that told each.
pub(crate) fn spans_of(body: &Value) -> Vec<(String, Value)> {
    let list = |value: &Value| value.as_array().unwrap().clone();
    let mut spans = Vec::new();
    for resource in list(&body["resourceSpans"]) {
        for scope in list(&resource["scopeSpans"]) {
            let service = scope["scope"]["name"].as_str().unwrap().to_owned();
            spans.extend(list(&scope["spans"]).into_iter().map(|span| (service.clone(), span)));
        }
    }
    spans
}

/// The value of an attribute, as text.
pub(crate) fn attribute(span: &Value, key: &str) -> Option<String> {
    let found = span["attributes"].as_array()?.iter().find(|attribute| attribute["key"] == key)?;
    let value = found["value"].as_object()?.values().next()?;
    value.as_str().map(str::to_owned)
}

fn answer(stream: &mut TcpStream, status: &str, body: &str, heard: &Sender<Heard>) {
    let Some((head, sent)) = read_request(stream) else { return };
    let length = body.len();
    let said = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
    // Told before it is answered: whoever has seen the answer finds the request here.
    let _ = heard.send(Heard { head, body: serde_json::from_slice(&sent).unwrap() });
    let _ = stream.write_all(said.as_bytes());
}

fn read_request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        if let Some(end) = request.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&request[..end]).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            let body = &request[end + 4..];
            if body.len() >= length.unwrap_or(0) {
                return Some((head, body.to_vec()));
            }
        }
        match stream.read(&mut buffer) {
            Ok(read) if read > 0 => request.extend_from_slice(&buffer[..read]),
            _ => return None,
        }
    }
}
