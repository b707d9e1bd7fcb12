//! A small HTTP/1.1 client that sends what it is told, byte by byte.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream},
};

use super::PATIENCE;

/// A response, as far as tests care.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) closes: bool,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    /// The body as text, as far as it is one.
    pub(crate) body: String,
    /// The body as it came.
    pub(crate) bytes: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The body as a document.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A client's keep-alive connection.
pub(crate) struct Client(BufReader<TcpStream>);

impl Client {
    pub(crate) fn connect(to: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&to, PATIENCE)?;
        Self::on(stream)
    }

    /// Connects from another loopback address, as another client would.
    pub(crate) fn connect_from(from: u8, to: SocketAddr) -> io::Result<Self> {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
        let source = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, from)), 0);
        socket.bind(&source.into())?;
        socket.connect(&to.into())?;
        Self::on(TcpStream::from(socket))
    }

    fn on(stream: TcpStream) -> io::Result<Self> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream)))
    }

    pub(crate) fn send(&mut self, path: &str) -> io::Result<()> {
        self.send_raw(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n"))
    }

    /// Sends bytes as they are.
    pub(crate) fn send_raw(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.0.get_mut().write_all(bytes.as_ref())
    }

    /// The next response, without the hints (102 and 103) before it; an end of the stream before its end is
    /// `UnexpectedEof`.
    pub(crate) fn receive(&mut self) -> io::Result<Answer> {
        loop {
            let head = self.receive_head()?;
            if !matches!(head.status, 102 | 103) {
                return self.receive_body(head);
            }
        }
    }

    /// The head of the next response.
    pub(crate) fn receive_head(&mut self) -> io::Result<Answer> {
        let status_line = self.line()?;
        let status = status_line.split(' ').nth(1).and_then(|s| s.parse().ok());
        let status = status.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, status_line))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut answer = Answer { status, closes: false, headers, body: String::new(), bytes: Vec::new() };
        answer.closes = answer.header("connection") == Some("close");
        Ok(answer)
    }

    /// The response with this head, once its body is here.
    pub(crate) fn receive_body(&mut self, mut answer: Answer) -> io::Result<Answer> {
        let body = if answer.header("transfer-encoding") == Some("chunked") {
            self.chunks()?
        } else {
            let length = answer.header("content-length").map_or(Ok(0), str::parse);
            let mut body = vec![0; length.map_err(io::Error::other)?];
            self.0.read_exact(&mut body)?;
            body
        };
        answer.body = String::from_utf8_lossy(&body).into_owned();
        answer.bytes = body;
        Ok(answer)
    }

    fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let size = usize::from_str_radix(self.line()?.trim(), 16).map_err(io::Error::other)?;
            let begin = body.len();
            body.resize(begin + size, 0);
            self.0.read_exact(&mut body[begin..])?;
            self.line()?;
            if size == 0 {
                return Ok(body);
            }
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }

    /// Reads lines until one of them is `line`.
    pub(crate) fn wait_for_line(&mut self, line: &str) -> io::Result<()> {
        while self.line()? != line {}
        Ok(())
    }

    pub(crate) fn get(&mut self, path: &str) -> io::Result<Answer> {
        self.send(path)?;
        self.receive()
    }

    /// Sends a request as it is and waits for the response.
    pub(crate) fn ask(&mut self, request: impl AsRef<[u8]>) -> io::Result<Answer> {
        self.send_raw(request)?;
        self.receive()
    }

    /// Reads until the server ends the stream; a reset is an error.
    pub(crate) fn wait_for_end(&mut self) -> io::Result<Vec<u8>> {
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest)?;
        Ok(rest)
    }
}

/// One request on a connection of its own.
pub(crate) fn get(to: SocketAddr, path: &str) -> io::Result<Answer> {
    Client::connect(to)?.get(path)
}

/// One request, as it is, on a connection of its own.
pub(crate) fn ask(to: SocketAddr, request: impl AsRef<[u8]>) -> io::Result<Answer> {
    Client::connect(to)?.ask(request)
}
