//! The smallest HTTP client that can put a gateway under load: one connection, one prepared request, one answer at a time.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};

/// The longest head that is read.
const MAX_HEAD: usize = 16 * 1024;

/// A connection to the gateway.
pub(crate) struct LoadConn {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// The parts of a response that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// When to come back, if it says so.
    pub(crate) retry_after: Option<Duration>,
}

/// The speed at which a response is read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    /// As fast as it comes.
    Fast,
    /// One piece of 16 KiB, then a pause.
    Slow(Duration),
}

/// Connects to `to` from the loopback address `from`.
///
/// Cancel safe: dropping the future closes the socket.
pub(crate) async fn connect(from: IpAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(from, 0))?;
    let stream = socket.connect(to).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

impl LoadConn {
    /// Connects to `to` from the loopback address `from`.
    ///
    /// Cancel safe: dropping the future closes the socket.
    pub(crate) async fn open(from: IpAddr, to: SocketAddr) -> io::Result<Self> {
        Ok(Self { stream: connect(from, to).await?, buffer: Vec::with_capacity(4096) })
    }

    /// Sends a whole request and reads its whole response.
    ///
    /// Not cancel safe: a connection whose exchange was dropped is of no more use.
    pub(crate) async fn exchange(&mut self, request: &[u8], pace: Pace) -> io::Result<Answer> {
        self.stream.write_all(request).await?;
        let head = self.read_head().await?;
        let mut missing = head.body_len.saturating_sub(self.buffer.len());
        self.buffer.clear();
        while missing > 0 {
            if let Pace::Slow(pause) = pace {
                tokio::time::sleep(pause).await;
            }
            missing = missing.saturating_sub(self.read_some().await?);
            self.buffer.clear();
        }
        Ok(head.answer)
    }

    /// Reads up to the end of the head and leaves what follows in the buffer.
    async fn read_head(&mut self) -> io::Result<Head> {
        self.buffer.clear();
        loop {
            self.read_some().await?;
            if let Some(end) = find_head_end(&self.buffer) {
                let head = Head::parse(&self.buffer[..end]).ok_or(io::ErrorKind::InvalidData)?;
                self.buffer.drain(..end);
                return Ok(head);
            }
            if self.buffer.len() > MAX_HEAD {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
    }

    async fn read_some(&mut self) -> io::Result<usize> {
        self.buffer.reserve(MAX_HEAD);
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            n => Ok(n),
        }
    }
}

/// What counts of a response's head.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    answer: Answer,
    body_len: usize,
}

impl Head {
    fn parse(head: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(head).ok()?;
        let mut lines = text.split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let (mut body_len, mut retry_after) = (0, None);
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            if name.eq_ignore_ascii_case("content-length") {
                body_len = value.trim().parse().ok()?;
            } else if name.eq_ignore_ascii_case("retry-after") {
                retry_after = Some(Duration::from_secs(value.trim().parse().ok()?));
            }
        }
        Some(Self { answer: Answer { status, retry_after }, body_len })
    }
}

fn find_head_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(status: u16, retry_after: Option<u64>, body_len: usize) -> Option<Head> {
        let retry_after = retry_after.map(Duration::from_secs);
        Some(Head { answer: Answer { status, retry_after }, body_len })
    }

    #[test]
    fn a_head_gives_its_status_when_to_come_back_and_the_length_of_what_follows() {
        let refusal = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 12\r\nretry-after: 1\r\n\r\n";
        assert_eq!(find_head_end(refusal), Some(refusal.len()));
        assert_eq!(Head::parse(refusal), head(429, Some(1), 12));
        assert_eq!(Head::parse(b"HTTP/1.1 204 No Content\r\n\r\n"), head(204, None, 0));
        assert_eq!(Head::parse(b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n"), None);
        assert_eq!(find_head_end(b"HTTP/1.1 200 OK\r\n"), None);
    }
}
