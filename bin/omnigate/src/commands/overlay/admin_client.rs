//! A client of a node's own admin listener: one request per connection, on this machine or with a token.

#![expect(
    clippy::disallowed_methods,
    reason = "a command that asks and ends; no runtime is running that it could block"
)]

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream},
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use ron_kernel::config::Secret;
use ron_transport::addr::ListenAddr;
use serde_json::Value;
use zeroize::Zeroizing;

use super::pinned_tls::PinnedTls;
use crate::{config_file::ConfigSource, failure::Failure};

/// The longest answer that is read.
const MAX_ANSWER: u64 = 64 * 1024 * 1024;
/// What is read and sent at once of a file.
const UPLOADED_AT_ONCE: usize = 256 * 1024;
/// The longest line of an answer.
const MAX_LINE: u64 = 1024 * 1024;

/// Asks the admin listener of a configuration.
pub(in crate::commands) struct AdminClient {
    addr: ListenAddr,
    token: Option<Secret>,
    /// Whom it believes to be the node; `None` without TLS.
    tls: Option<PinnedTls>,
    /// How long it waits for the node each time; `None` for as long as it takes.
    patience: Option<Duration>,
}

pub(super) trait Socket: Read + Write {}
impl<T: Read + Write> Socket for T {}

/// One server-sent event.
#[derive(Debug, Default)]
pub(super) struct SentEvent {
    /// Where a subscriber that comes back goes on; empty if the node gave none.
    pub(super) id: String,
    pub(super) name: String,
    pub(super) data: Value,
}

/// A connection that stays open between requests.
pub(super) struct Kept<'a> {
    client: &'a AdminClient,
    /// Absent after an error.
    socket: Option<BufReader<Box<dyn Socket>>>,
}

impl Kept<'_> {
    /// Posts a body. If the node refuses it for now, how long to wait before the next try.
    pub(super) fn post(&mut self, path: &str, body: &[u8]) -> Result<Result<Value, Duration>, Failure> {
        let (status, text) = self.client.on_io(self.exchange(path, body))?;
        match status {
            200..=299 => Ok(Ok(serde_json::from_str(&text).map_err(Failure::failed)?)),
            429 | 503 if passes_by_itself(&text) => Ok(Err(retry_after(&text))),
            _ => Err(refused(&text)),
        }
    }

    fn exchange(&mut self, path: &str, body: &[u8]) -> io::Result<(u16, String)> {
        let mut socket = self.socket.take().ok_or(io::ErrorKind::NotConnected)?;
        let framing = format!("Content-Length: {}\r\n", body.len());
        let mut request = Zeroizing::new(Vec::new());
        let head = self.client.head_of("POST", path, "", &framing);
        request.reserve_exact(head.len() + body.len());
        request.extend_from_slice(head.as_bytes());
        request.extend_from_slice(body);
        socket.get_mut().write_all(&request)?;
        let mut answer = Answer::read(socket)?;
        let mut text = Vec::new();
        match answer.length.filter(|length| *length <= MAX_ANSWER) {
            Some(length) => drop((&mut answer.body).take(length).read_to_end(&mut text)?),
            None => while answer.chunked && answer.more(&mut text)? {},
        }
        self.socket = Some(answer.body);
        Ok((answer.status, String::from_utf8_lossy(&text).into_owned()))
    }
}

/// An answer whose head has been read.
struct Answer {
    status: u16,
    chunked: bool,
    /// The length of the body, if it was said.
    length: Option<u64>,
    body: BufReader<Box<dyn Socket>>,
}

impl AdminClient {
    /// The client that `source` describes.
    pub(in crate::commands) fn of(source: &ConfigSource) -> Result<Self, Failure> {
        let admin = source.load_admin()?;
        let bad = |problem| Failure::bad_config(format!("admin.tls: {problem}"));
        let tls = admin.tls.server_config().map(|_| PinnedTls::load(&admin.tls.cert_path));
        Ok(Self {
            addr: admin.listen.clone(),
            token: admin.strongest_token().cloned(),
            tls: tls.transpose().map_err(bad)?,
            patience: None,
        })
    }

    /// The same, which waits no longer than `patience` for the node to connect, and for each part of its answer.
    #[must_use]
    pub(in crate::commands) fn within(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }

    /// Whether somebody takes connections there.
    pub(in crate::commands) fn is_up(&self) -> bool {
        self.dial().is_ok()
    }

    /// The status and the answer to a question, whatever the node says.
    pub(in crate::commands) fn look(&self, path: &str) -> Result<(u16, Value), Failure> {
        let answer = self.ask("GET", path, None)?;
        let status = answer.status;
        let text = self.read_all(answer)?;
        Ok((status, serde_json::from_str(&text).map_err(Failure::failed)?))
    }

    /// The client of another of the node's listeners, with a capability if that is needed.
    pub(in crate::commands) fn at(addr: ListenAddr, token: Option<Secret>) -> Self {
        Self { addr, token, tls: None, patience: None }
    }

    /// The answer to a question.
    pub(in crate::commands) fn get(&self, path: &str) -> Result<Value, Failure> {
        self.exchange("GET", path, None)
    }

    /// The answer to something that is to be done.
    pub(in crate::commands) fn post(&self, path: &str, body: &[u8]) -> Result<Value, Failure> {
        self.exchange("POST", path, Some(body))
    }

    /// The answer to something that takes the place of what was there.
    pub(in crate::commands) fn put(&self, path: &str, body: &[u8]) -> Result<Value, Failure> {
        self.exchange("PUT", path, Some(body))
    }

    /// Posts, and tries again while the node says that it is busy or refuses writes for now, at the times it says, but no longer
    /// than `patience`.
    pub(super) fn post_when_free(
        &self,
        path: &str,
        body: &[u8],
        patience: Duration,
    ) -> Result<Value, Failure> {
        let begun = Instant::now();
        loop {
            let answer = self.ask("POST", path, Some(body))?;
            let status = answer.status;
            let text = self.read_all(answer)?;
            match status {
                200..=299 => return serde_json::from_str(&text).map_err(Failure::failed),
                429 | 503 if passes_by_itself(&text) => {
                    let (wait, left) = (retry_after(&text), patience.saturating_sub(begun.elapsed()));
                    if left.is_zero() {
                        let help = "publish less at a time, or wait longer with --wait";
                        return Err(refused(&text).help(help));
                    }
                    std::thread::sleep(wait.min(left));
                }
                _ => return Err(refused(&text)),
            }
        }
    }

    /// Sends what is read, and tells how many bytes have been sent.
    pub(super) fn upload(
        &self,
        path: &str,
        from: &mut dyn Read,
        mut progress: impl FnMut(u64),
    ) -> Result<Value, Failure> {
        let mut socket = self.on_io(self.connect())?;
        let head = self.head("POST", path, "Transfer-Encoding: chunked\r\n");
        self.on_io(socket.write_all(head.as_bytes()))?;
        let (mut piece, mut sent) = (vec![0; UPLOADED_AT_ONCE], 0);
        loop {
            let read =
                from.read(&mut piece).map_err(|error| Failure::failed(format!("cannot read: {error}")))?;
            let written = write!(socket, "{read:x}\r\n")
                .and_then(|()| socket.write_all(&piece[..read]))
                .and_then(|()| socket.write_all(b"\r\n"));
            // A node that refuses does not read on: its answer says why.
            if written.is_err() || read == 0 {
                break;
            }
            sent += read as u64;
            progress(sent);
        }
        self.value(self.on_io(Answer::read(BufReader::new(socket)))?)
    }

    /// Writes what the node sends, and tells how many bytes have been written.
    pub(super) fn download(
        &self,
        path: &str,
        mut write: impl FnMut(&[u8]) -> Result<(), Failure>,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<(), Failure> {
        let mut answer = self.ask("GET", path, None)?;
        if answer.status != 200 {
            let body = self.read_all(answer)?;
            return Err(refused(&body));
        }
        let (mut piece, mut written) = (Vec::new(), 0);
        while self.on_io(answer.more(&mut piece))? {
            write(&piece)?;
            written += piece.len() as u64;
            progress(written, answer.length.unwrap_or_default());
            piece.clear();
        }
        Ok(())
    }

    /// The first lines of a text, so many at most.
    pub(in crate::commands) fn lines(&self, path: &str, limit: usize) -> Result<Vec<String>, Failure> {
        let mut answer = self.ask("GET", path, None)?;
        if answer.status != 200 {
            let body = self.read_all(answer)?;
            return Err(refused(&body));
        }
        let (mut lines, mut rest) = (Vec::new(), Vec::new());
        while lines.len() < limit {
            let Some(line) = self.on_io(answer.next_line(&mut rest))? else { break };
            lines.push(line);
        }
        Ok(lines)
    }

    /// Hands server-sent events to `see`, until that has seen enough or there are no more.
    pub(in crate::commands) fn events(
        &self,
        method: &str,
        path: &str,
        mut see: impl FnMut(&str, &Value) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let answer = self.ask(method, path, None)?;
        self.read_events(answer, |event| see(&event.name, &event.data))
    }

    /// The same for a subscription that goes on after the event with the id `after`. `opened` is called once the node has
    /// answered: what is published from then on is heard.
    pub(super) fn subscribe(
        &self,
        path: &str,
        after: Option<&str>,
        opened: impl FnOnce(),
        see: impl FnMut(&SentEvent) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let field = after.map_or_else(String::new, |id| format!("Last-Event-ID: {id}\r\n"));
        let mut socket = self.on_io(self.connect())?;
        self.on_io(socket.write_all(self.head("GET", path, &field).as_bytes()))?;
        let answer = self.on_io(Answer::read(BufReader::new(socket)))?;
        if answer.status == 200 {
            opened();
        }
        self.read_events(answer, see)
    }

    fn read_events(
        &self,
        mut answer: Answer,
        mut see: impl FnMut(&SentEvent) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        if answer.status != 200 {
            let body = self.read_all(answer)?;
            return Err(refused(&body));
        }
        let (mut event, mut rest) = (SentEvent::default(), Vec::new());
        loop {
            let Some(line) = self.on_io(answer.next_line(&mut rest))? else { return Ok(()) };
            if let Some(name) = line.strip_prefix("event: ") {
                name.clone_into(&mut event.name);
            } else if let Some(id) = line.strip_prefix("id: ") {
                id.clone_into(&mut event.id);
            } else if let Some(data) = line.strip_prefix("data: ") {
                event.data = serde_json::from_str(data).map_err(Failure::failed)?;
                if !see(&event)? {
                    return Ok(());
                }
            }
        }
    }

    /// A connection for many requests, one after another.
    pub(super) fn keep_open(&self) -> Result<Kept<'_>, Failure> {
        Ok(Kept { client: self, socket: Some(BufReader::new(self.on_io(self.connect())?)) })
    }

    fn exchange(&self, method: &str, path: &str, body: Option<&[u8]>) -> Result<Value, Failure> {
        self.value(self.ask(method, path, body)?)
    }

    fn value(&self, answer: Answer) -> Result<Value, Failure> {
        let status = answer.status;
        let text = self.read_all(answer)?;
        if !(200..300).contains(&status) {
            return Err(refused(&text));
        }
        serde_json::from_str(&text).map_err(Failure::failed)
    }

    fn ask(&self, method: &str, path: &str, body: Option<&[u8]>) -> Result<Answer, Failure> {
        let mut socket = self.on_io(self.connect())?;
        let framing = body.map_or_else(String::new, |body| format!("Content-Length: {}\r\n", body.len()));
        let head = self.head(method, path, &framing);
        let asked =
            socket.write_all(head.as_bytes()).and_then(|()| socket.write_all(body.unwrap_or_default()));
        self.on_io(asked)?;
        self.on_io(Answer::read(BufReader::new(socket)))
    }

    /// The head of a request. It may hold a token, so it has room for all of it from the start: a text that grows leaves
    /// copies behind.
    fn head(&self, method: &str, path: &str, framing: &str) -> Zeroizing<String> {
        self.head_of(method, path, "Connection: close\r\n", framing)
    }

    fn head_of(&self, method: &str, path: &str, connection: &str, framing: &str) -> Zeroizing<String> {
        let start = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{connection}X-Omnigate: 1\r\n");
        let token = self.token.as_ref().map(Secret::expose);
        let shown = token.map_or([""; 3], |token| ["Authorization: Bearer ", token, "\r\n"]);
        let parts = [&start, shown[0], shown[1], shown[2], framing, "\r\n"];
        let mut head = Zeroizing::new(String::with_capacity(parts.iter().map(|part| part.len()).sum()));
        parts.iter().for_each(|part| head.push_str(part));
        head
    }

    fn dial(&self) -> io::Result<Box<dyn Socket>> {
        match &self.addr {
            ListenAddr::Tcp(addr) => {
                let socket = match self.patience {
                    Some(patience) => TcpStream::connect_timeout(&reachable(*addr), patience)?,
                    None => TcpStream::connect(reachable(*addr))?,
                };
                socket.set_read_timeout(self.patience)?;
                socket.set_write_timeout(self.patience)?;
                Ok(Box::new(socket))
            }
            ListenAddr::Unix(path) => {
                let socket = UnixStream::connect(path)?;
                socket.set_read_timeout(self.patience)?;
                socket.set_write_timeout(self.patience)?;
                Ok(Box::new(socket))
            }
            ListenAddr::Inherited(_) => Err(io::Error::other("an inherited socket has no address to ask")),
        }
    }

    fn connect(&self) -> io::Result<Box<dyn Socket>> {
        let socket = self.dial()?;
        match &self.tls {
            None => Ok(socket),
            Some(tls) => tls.wrap(socket),
        }
    }

    fn read_all(&self, mut answer: Answer) -> Result<String, Failure> {
        let (mut text, mut rest) = (String::new(), Vec::new());
        while let Some(line) = self.on_io(answer.next_line(&mut rest))? {
            text.push_str(&line);
            text.push('\n');
            if text.len() as u64 > MAX_ANSWER {
                return Err(Failure::failed("the node's answer is incomplete"));
            }
        }
        Ok(text)
    }

    fn on_io<T>(&self, outcome: io::Result<T>) -> Result<T, Failure> {
        outcome.map_err(|error| {
            let (what, remedy) = self.in_words(&error);
            Failure::failed(format!("the node's listener at {} {what}", self.addr)).help(remedy)
        })
    }

    /// What went wrong on the way to the node, and what to do about it.
    fn in_words(&self, error: &io::Error) -> (String, &'static str) {
        let start = "start the node, or name its configuration with --config";
        match error.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => {
                ("does not answer: nothing listens there".to_owned(), start)
            }
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe => (
                "closed the connection before its answer was complete".to_owned(),
                "the node has stopped or was restarted; its log says why",
            ),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                let patience = self.patience.unwrap_or_default();
                (
                    format!("does not answer within {patience:?}"),
                    "the node hangs, or another program listens there",
                )
            }
            io::ErrorKind::InvalidData => (
                format!("is not an Omnigate admin listener: {error}"),
                "another program may listen there, or `admin.tls` is set on one side alone",
            ),
            _ => (format!("does not answer: {error}"), start),
        }
    }
}

/// Where a listener on all addresses is asked.
fn reachable(addr: SocketAddr) -> SocketAddr {
    let ip = match addr.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, addr.port())
}

impl Answer {
    /// Reads the head.
    fn read(mut body: BufReader<Box<dyn Socket>>) -> io::Result<Self> {
        let status = read_line(&mut body)?;
        let status = status.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| not_http("its first line is no status line"))?;
        let mut answer = Self { status, chunked: false, length: None, body };
        loop {
            let line = read_line(&mut answer.body)?.to_ascii_lowercase();
            if line.is_empty() {
                return Ok(answer);
            }
            if let Some(length) = line.strip_prefix("content-length:") {
                answer.length = length.trim().parse().ok();
            }
            answer.chunked |= line.starts_with("transfer-encoding:") && line.contains("chunked");
        }
    }

    /// The next line of the body; `rest` holds what was received behind it.
    fn next_line(&mut self, rest: &mut Vec<u8>) -> io::Result<Option<String>> {
        loop {
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                return Ok(Some(String::from_utf8_lossy(&line[..end]).into_owned()));
            }
            if rest.len() as u64 > MAX_LINE || !self.more(rest)? {
                let last = std::mem::take(rest);
                return Ok((!last.is_empty()).then(|| String::from_utf8_lossy(&last).into_owned()));
            }
        }
    }

    /// Receives more of the body; false at its end.
    fn more(&mut self, into: &mut Vec<u8>) -> io::Result<bool> {
        if !self.chunked {
            let mut room = [0; 64 * 1024];
            let read = self.body.read(&mut room)?;
            into.extend_from_slice(&room[..read]);
            return Ok(read > 0);
        }
        let size = read_line(&mut self.body)?;
        let size = u64::from_str_radix(&size, 16).ok().filter(|size| *size <= MAX_ANSWER);
        let size = size.ok_or_else(|| not_http("a chunk of its answer has no length"))?;
        (&mut self.body).take(size).read_to_end(into)?;
        // The empty line behind each chunk.
        read_line(&mut self.body)?;
        Ok(size > 0)
    }
}

/// A line of the answer's frame. The end of the connection is none.
fn read_line(from: &mut BufReader<Box<dyn Socket>>) -> io::Result<String> {
    let mut line = Vec::new();
    if from.take(MAX_LINE).read_until(b'\n', &mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let line = String::from_utf8(line).map_err(|_| not_http("it is not text"))?;
    Ok(line.trim_end().to_owned())
}

fn not_http(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Whether a refusal is for now: the node says when to come back.
fn passes_by_itself(problem: &str) -> bool {
    let problem: Value = serde_json::from_str(problem).unwrap_or_default();
    problem["retry_after_ms"].is_u64()
}

/// When a node that is busy wants to be asked again: what it says, between 10 ms and 10 s.
fn retry_after(problem: &str) -> Duration {
    let problem: Value = serde_json::from_str(problem).unwrap_or_default();
    let wait = Duration::from_millis(problem["retry_after_ms"].as_u64().unwrap_or(1000));
    wait.clamp(Duration::from_millis(10), Duration::from_secs(10))
}

/// A refusal as the node puts it.
fn refused(problem: &str) -> Failure {
    let problem: Value = serde_json::from_str(problem).unwrap_or_default();
    let detail = problem["detail"].as_str().or(problem["title"].as_str()).unwrap_or("it did not say why");
    Failure::failed(format!("the node refused: {detail}"))
}
