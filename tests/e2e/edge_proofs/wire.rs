//! A client for answers of any bytes, which tells those that broke off from those that are whole.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
};

use crate::support::PATIENCE;

/// An answer.
#[derive(Debug)]
pub(super) struct Got {
    pub(super) status: u16,
    /// Names in lower case.
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    /// Whether all of the body came.
    pub(super) whole: bool,
}

impl Got {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// Whether something was served, if perhaps not all of it.
    pub(super) fn is_served(&self) -> bool {
        matches!(self.status, 200 | 206)
    }

    /// Why it was refused, if it was.
    pub(super) fn reason(&self) -> String {
        let problem: serde_json::Value = serde_json::from_slice(&self.body).unwrap_or_default();
        problem["reason"].as_str().unwrap_or_default().to_owned()
    }
}

/// A connection.
pub(super) struct Wire(BufReader<TcpStream>);

impl Wire {
    pub(super) fn connect(to: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&to, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Asks, with these further lines in the head.
    pub(super) fn send(&mut self, path: &str, fields: &str) -> io::Result<()> {
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{fields}\r\n");
        self.0.get_mut().write_all(request.as_bytes())
    }

    /// The answer; an error if not even its head came.
    pub(super) fn receive(&mut self) -> io::Result<Got> {
        let first = self.line()?;
        let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, first))?;
        let mut headers = Vec::new();
        while let Some((name, value)) = self.line()?.split_once(':') {
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut got = Got { status, headers, body: Vec::new(), whole: true };
        let length: u64 = got.header("content-length").parse().unwrap_or(0);
        // What came before the connection broke counts, too.
        let read = self.0.by_ref().take(length).read_to_end(&mut got.body);
        got.whole = read.is_ok() && got.body.len() as u64 == length;
        Ok(got)
    }

    pub(super) fn ask(&mut self, path: &str, fields: &str) -> io::Result<Got> {
        self.send(path, fields)?;
        self.receive()
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }
}

/// A client that connects again when a connection has ended.
pub(super) struct Asker {
    to: SocketAddr,
    wire: Option<Wire>,
}

impl Asker {
    pub(super) fn new(to: SocketAddr) -> Self {
        Self { to, wire: None }
    }

    /// Asks, twice if the connection had ended before.
    pub(super) fn ask(&mut self, path: &str, fields: &str) -> io::Result<Got> {
        if let Some(wire) = &mut self.wire
            && let Ok(got) = wire.ask(path, fields)
        {
            return Ok(self.note(got));
        }
        let got = self.wire.insert(Wire::connect(self.to)?).ask(path, fields)?;
        Ok(self.note(got))
    }

    fn note(&mut self, got: Got) -> Got {
        if !got.whole || got.header("connection") == "close" {
            self.wire = None;
        }
        got
    }
}
