//! An HTTP/1.1 client that sees every byte, and how a connection ends.

use std::io;

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::timeout,
};

use super::PATIENCE;

/// One connection, and what was read beyond the last response.
pub(crate) struct Client<S> {
    pub(crate) stream: S,
    ahead: Vec<u8>,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

/// How the server ended a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// In good order.
    Fin,
    /// A reset, or a truncated TLS session.
    Broken(io::ErrorKind),
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub(crate) fn closes(&self) -> bool {
        self.header("connection") == Some("close")
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, ahead: Vec::new() }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).await.unwrap();
    }

    pub(crate) async fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        let writing = async {
            self.stream.write_all(bytes.as_ref()).await?;
            self.stream.flush().await
        };
        timeout(PATIENCE, writing).await.expect("the server reads")
    }

    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        self.send(get(path)).await;
        self.answer().await
    }

    pub(crate) async fn post(&mut self, path: &str, body: &[u8]) -> Answer {
        self.send(post(path, body.len())).await;
        self.send(body).await;
        self.answer().await
    }

    pub(crate) async fn answer(&mut self) -> Answer {
        self.try_answer(false).await.expect("a response")
    }

    /// The answer to a HEAD request.
    pub(crate) async fn answer_to_head(&mut self) -> Answer {
        self.try_answer(true).await.expect("a response")
    }

    /// The next response; `None` if the connection ends first.
    pub(crate) async fn try_answer(&mut self, to_head: bool) -> Option<Answer> {
        let reading = async {
            let head = self.until(b"\r\n\r\n").await?;
            let head = String::from_utf8(head).unwrap();
            let status = head.split(' ').nth(1)?.parse().ok()?;
            let mut answer = Answer { status, head, body: Vec::new() };
            if !to_head && status >= 200 {
                answer.body = self.body(&answer).await?;
            }
            Some(answer)
        };
        timeout(PATIENCE, reading).await.expect("a response or an end")
    }

    async fn body(&mut self, answer: &Answer) -> Option<Vec<u8>> {
        if answer.header("transfer-encoding") == Some("chunked") {
            let mut body = Vec::new();
            loop {
                let size = String::from_utf8(self.until(b"\r\n").await?).unwrap();
                let size = usize::from_str_radix(size.trim(), 16).unwrap();
                body.extend(self.exactly(size).await?);
                assert_eq!(self.exactly(2).await?, b"\r\n");
                if size == 0 {
                    return Some(body);
                }
            }
        }
        let length = answer.header("content-length").map_or(0, |n| n.parse().unwrap());
        self.exactly(length).await
    }

    async fn until(&mut self, mark: &[u8]) -> Option<Vec<u8>> {
        loop {
            if let Some(at) = self.ahead.windows(mark.len()).position(|w| w == mark) {
                return Some(self.ahead.drain(..at + mark.len()).collect());
            }
            self.more().await?;
        }
    }

    async fn exactly(&mut self, len: usize) -> Option<Vec<u8>> {
        while self.ahead.len() < len {
            self.more().await?;
        }
        Some(self.ahead.drain(..len).collect())
    }

    async fn more(&mut self) -> Option<()> {
        let mut buf = [0; 16 * 1024];
        let n = self.stream.read(&mut buf).await.ok()?;
        self.ahead.extend(&buf[..n]);
        (n > 0).then_some(())
    }

    /// Reads to the end, which must come, and says how it came and what came before it.
    pub(crate) async fn rest_and_end(&mut self) -> (Vec<u8>, End) {
        let mut rest = std::mem::take(&mut self.ahead);
        let reading = timeout(PATIENCE, self.stream.read_to_end(&mut rest));
        let end = match reading.await.expect("the server closes") {
            Ok(_) => End::Fin,
            Err(error) => End::Broken(error.kind()),
        };
        (rest, end)
    }

    /// The end, with nothing before it.
    pub(crate) async fn end(&mut self) -> End {
        let (rest, end) = self.rest_and_end().await;
        assert!(rest.is_empty(), "before the end: {}", String::from_utf8_lossy(&rest));
        end
    }
}

pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: t\r\n\r\n")
}

pub(crate) fn post(path: &str, length: usize) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: t\r\ncontent-length: {length}\r\n\r\n")
}
