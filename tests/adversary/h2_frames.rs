//! A small HTTP/2 client that writes frames as it is told, also those that no library would send.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
};

use crate::support::PATIENCE;

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const ACK: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
/// The entry `:status: 200` of HPACK's static table.
const STATUS_200: u8 = 0x88;

/// What a request came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A response with this status and this body. The status of a refusal is read from its document.
    Answered(u16, String),
    /// The stream was reset with this error code.
    Reset(u32),
}

impl Outcome {
    /// The status; `None` for a stream that was reset.
    pub(crate) fn status(&self) -> Option<u16> {
        match self {
            Self::Answered(status, _) => Some(*status),
            Self::Reset(_) => None,
        }
    }

    /// Whether the request was refused as malformed: by 400, or by a stream error, as RFC 9113 8.1.1 has it.
    pub(crate) fn is_malformed(&self) -> bool {
        matches!(self, Self::Answered(400, _) | Self::Reset(1))
    }

    #[track_caller]
    pub(crate) fn body(&self) -> &str {
        match self {
            Self::Answered(_, body) => body,
            Self::Reset(code) => panic!("the stream was reset: {code}"),
        }
    }
}

/// A connection in the clear, whose client knows that the server speaks HTTP/2.
pub(crate) struct H2Client {
    stream: TcpStream,
    next_stream: u32,
}

impl H2Client {
    pub(crate) fn connect(to: SocketAddr) -> io::Result<Self> {
        let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        stream.write_all(PREFACE)?;
        stream.write_all(&frame(SETTINGS, 0, 0, &[]))?;
        Ok(Self { stream, next_stream: 1 })
    }

    /// A GET of `path` at `authority` with these fields more.
    pub(crate) fn get(
        &mut self,
        authority: &str,
        path: &str,
        fields: &[(&str, &str)],
    ) -> io::Result<Outcome> {
        let pseudo = [(":method", "GET"), (":scheme", "http"), (":authority", authority), (":path", path)];
        self.ask(&[&pseudo, fields].concat())
    }

    /// A request of these fields in this order, without a body.
    pub(crate) fn ask(&mut self, fields: &[(&str, &str)]) -> io::Result<Outcome> {
        let stream = self.next_stream;
        self.next_stream += 2;
        self.stream.write_all(&frame(HEADERS, END_STREAM | END_HEADERS, stream, &block(fields)))?;
        self.outcome(stream)
    }

    /// A POST with a body and these trailers, of which a field block is given as bytes or as fields.
    pub(crate) fn post_with_trailers(&mut self, path: &str, trailers: &[u8]) -> io::Result<Outcome> {
        let stream = self.next_stream;
        self.next_stream += 2;
        let head = [(":method", "POST"), (":scheme", "http"), (":authority", "a"), (":path", path)];
        let head = frame(HEADERS, END_HEADERS, stream, &block(&head));
        let data = frame(DATA, 0, stream, b"body");
        let trailers = frame(HEADERS, END_HEADERS | END_STREAM, stream, trailers);
        self.stream.write_all(&[head, data, trailers].concat())?;
        self.outcome(stream)
    }

    fn outcome(&mut self, stream: u32) -> io::Result<Outcome> {
        let (mut is_200, mut body) = (false, Vec::new());
        loop {
            let (kind, flags, on, payload) = self.read_frame()?;
            match kind {
                SETTINGS if flags & ACK == 0 => self.stream.write_all(&frame(SETTINGS, ACK, 0, &[]))?,
                HEADERS if on == stream => is_200 = payload.first() == Some(&STATUS_200),
                DATA if on == stream => body.extend_from_slice(&payload),
                RST_STREAM if on == stream => {
                    let code = payload.try_into().map_err(|_| io::ErrorKind::InvalidData)?;
                    return Ok(Outcome::Reset(u32::from_be_bytes(code)));
                }
                GOAWAY => return Err(io::Error::other(format!("GOAWAY {payload:?}"))),
                _ => {}
            }
            if on == stream && matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0 {
                let body = String::from_utf8_lossy(&body).into_owned();
                let status = if is_200 { 200 } else { status_in(&body)? };
                return Ok(Outcome::Answered(status, body));
            }
        }
    }

    fn read_frame(&mut self) -> io::Result<(u8, u8, u32, Vec<u8>)> {
        read_frame(&mut self.stream)
    }
}

/// A frame: its kind, its flags, its stream, its payload.
pub(crate) fn read_frame(stream: &mut TcpStream) -> io::Result<(u8, u8, u32, Vec<u8>)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head)?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let on = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    let mut payload = vec![0; length as usize];
    stream.read_exact(&mut payload)?;
    Ok((head[3], head[4], on, payload))
}

/// A field block of these fields.
pub(crate) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    fields.iter().flat_map(|(name, value)| literal(name, value)).collect()
}

/// The status in a problem document.
fn status_in(body: &str) -> io::Result<u16> {
    let document: serde_json::Value = serde_json::from_str(body).map_err(io::Error::other)?;
    let status = document["status"].as_u64().and_then(|status| u16::try_from(status).ok());
    status.ok_or_else(|| io::Error::other(format!("no status in {body}")))
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// A field as HPACK has it without indexing and without Huffman's code.
fn literal(name: &str, value: &str) -> Vec<u8> {
    let text = |text: &str| {
        let mut bytes = length(text.len());
        bytes.extend_from_slice(text.as_bytes());
        bytes
    };
    [vec![0], text(name), text(value)].concat()
}

/// An HPACK integer with a prefix of seven bits.
fn length(mut n: usize) -> Vec<u8> {
    if n < 127 {
        return vec![u8::try_from(n).unwrap()];
    }
    let mut bytes = vec![127];
    n -= 127;
    while n >= 128 {
        bytes.push(u8::try_from(n % 128 + 128).unwrap());
        n /= 128;
    }
    bytes.push(u8::try_from(n).unwrap());
    bytes
}
