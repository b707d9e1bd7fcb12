//! Heads of requests as bytes, and bytes as heads of responses (RFC 9112).

use std::{io::Write, mem::MaybeUninit};

use bytes::Bytes;
use http::{
    HeaderName, HeaderValue, Method, StatusCode, Version,
    header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING},
    response,
};
use http_body::Body as HttpBody;
use httparse::{ParserConfig, Status};

use crate::{
    Body,
    client::length::{self, UnclearLength},
    h1::{
        chunks::Chunks,
        outbox::{Announced, put},
        request::has_token,
    },
};

/// Fields of a response for which there is room on the stack.
const USUAL_FIELDS: usize = 100;
/// The most fields a response may have.
pub(super) const MAX_FIELDS: usize = 1024;

/// The reason why a response is invalid.
#[derive(Debug, thiserror::Error)]
pub(super) enum Nonsense {
    /// It does not look like a response.
    #[error("the server's answer is not HTTP: {0}")]
    Malformed(#[from] httparse::Error),
    /// The response has more than [`MAX_FIELDS`] header fields.
    #[error("the server's answer has too many fields")]
    TooManyFields,
    /// A field that HTTP does not allow.
    #[error("the server's answer has a field that is not allowed")]
    Field,
    /// Nobody can tell where its body ends.
    #[error("the server's answer does not say clearly where its body ends")]
    Framing,
}

impl From<UnclearLength> for Nonsense {
    fn from(_: UnclearLength) -> Self {
        Self::Framing
    }
}

/// How the end of a response's body is found.
#[derive(Debug)]
pub(super) enum Ends {
    /// After so many bytes.
    After(u64),
    /// With its last chunk.
    WithChunks(Chunks),
    /// The body ends with the connection.
    WithConnection,
}

/// The head of a response.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) parts: response::Parts,
    pub(super) ends: Ends,
    /// Whether the server takes another request after this one.
    pub(super) stays: bool,
}

/// Writes a request's head, and tells how its body is to follow; `None` if there is none.
pub(super) fn write(request: &http::Request<Body>, out: &mut Vec<u8>) -> Option<Announced> {
    put(out, &[request.method().as_str().as_bytes(), b" "]);
    write_target(request, out);
    put(out, &[b" HTTP/1.1\r\n"]);
    for (name, value) in request.headers() {
        // Where the body ends is told below, from the body itself.
        if name != CONTENT_LENGTH && name != TRANSFER_ENCODING {
            put(out, &[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"]);
        }
    }
    let announced = announced(request);
    let framed = match &announced {
        Some(Announced::Length(length)) => write!(out, "content-length: {length}\r\n"),
        Some(Announced::Chunked(_)) => out.write_all(b"transfer-encoding: chunked\r\n"),
        Some(Announced::Connection) | None => Ok(()),
    };
    framed.expect("memory can be written to");
    put(out, &[b"\r\n"]);
    announced.filter(|_| !request.body().is_end_stream())
}

fn write_target(request: &http::Request<Body>, out: &mut Vec<u8>) {
    let uri = request.uri();
    if let (None, Some(path)) = (uri.authority(), uri.path_and_query()) {
        return out.extend_from_slice(path.as_str().as_bytes());
    }
    write!(out, "{uri}").expect("memory can be written to");
}

/// How a request's body is announced. One that is empty is only where somebody might wait for it.
fn announced(request: &http::Request<Body>) -> Option<Announced> {
    let (body, headers) = (request.body(), request.headers());
    if body.is_end_stream() {
        let may_have_one = matches!(*request.method(), Method::POST | Method::PUT | Method::PATCH);
        return (may_have_one || headers.contains_key(CONTENT_LENGTH)).then_some(Announced::Length(0));
    }
    let told = || length::read(None, headers.get(CONTENT_LENGTH)?).ok();
    let length = body.size_hint().exact().or_else(told);
    Some(length.map_or(Announced::Chunked(None), Announced::Length))
}

/// The length of the head at the front of `bytes`, if it is there as a whole; `seen` of them were looked at before.
pub(super) fn find_end(bytes: &[u8], seen: usize) -> Option<usize> {
    // The end of the line before may be among those seen.
    let from = seen.saturating_sub(2);
    memchr::memchr_iter(b'\n', &bytes[from..]).map(|at| from + at + 1).find_map(|next| match &bytes[next..] {
        [b'\n', ..] => Some(next + 1),
        [b'\r', b'\n', ..] => Some(next + 2),
        _ => None,
    })
}

/// Reads a whole head, the answer to a request by `method`.
pub(super) fn read(head: &Bytes, method: &Method) -> Result<Head, Nonsense> {
    let mut usual = [const { MaybeUninit::uninit() }; USUAL_FIELDS];
    match read_within(head, method, &mut usual) {
        Err(Nonsense::TooManyFields) => {
            read_within(head, method, &mut vec![const { MaybeUninit::uninit() }; MAX_FIELDS])
        }
        read => read,
    }
}

/// Reads a whole head with as many fields as there is space for.
fn read_within<'h>(
    head: &'h Bytes,
    method: &Method,
    space: &mut [MaybeUninit<httparse::Header<'h>>],
) -> Result<Head, Nonsense> {
    let mut parsed = httparse::Response::new(&mut []);
    let status = ParserConfig::default().parse_response_with_uninit_headers(&mut parsed, head, space);
    let status = status.map_err(|error| match error {
        httparse::Error::TooManyHeaders => Nonsense::TooManyFields,
        error => Nonsense::Malformed(error),
    })?;
    let (Status::Complete(_), Some(code), Some(minor)) = (status, parsed.code, parsed.version) else {
        return Err(Nonsense::Malformed(httparse::Error::Status));
    };
    let (mut parts, ()) = http::Response::new(()).into_parts();
    parts.status = StatusCode::from_u16(code).map_err(|_| httparse::Error::Status)?;
    parts.version = if minor == 0 { Version::HTTP_10 } else { Version::HTTP_11 };
    // With room for what a proxy adds.
    parts.headers.reserve(parsed.headers.len() + 2);
    let mut told = Told::new(minor);
    for field in parsed.headers {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| Nonsense::Field)?;
        let value =
            HeaderValue::from_maybe_shared(head.slice_ref(field.value)).map_err(|_| Nonsense::Field)?;
        told.hear(&name, &value)?;
        parts.headers.append(name, value);
    }
    if told.chunked.is_some() {
        // Two ends of one body: only the chunks count, and nobody else is to be misled.
        parts.headers.remove(CONTENT_LENGTH);
    } else if let Some(length) = told.length {
        length::make_one(&mut parts.headers, length);
    }
    let ends = told.ends(method, parts.status)?;
    let stays = told.stays && !told.closes && !matches!(ends, Ends::WithConnection);
    Ok(Head { parts, ends, stays })
}

/// What the fields of a head tell about its body and its connection.
struct Told {
    minor: u8,
    length: Option<u64>,
    /// Whether chunked is the coding, if there is one.
    chunked: Option<bool>,
    stays: bool,
    /// `Connection: close` was sent; it takes precedence over `stays`.
    closes: bool,
}

impl Told {
    fn new(minor: u8) -> Self {
        Self { minor, length: None, chunked: None, stays: minor == 1, closes: false }
    }

    fn hear(&mut self, name: &HeaderName, value: &HeaderValue) -> Result<(), Nonsense> {
        if name == CONTENT_LENGTH {
            self.length = Some(length::read(self.length, value)?);
        } else if name == TRANSFER_ENCODING {
            // Only one coding, and that once: whoever sends more is not to be guessed at.
            self.chunked = Some(self.chunked.is_none() && value.as_bytes().eq_ignore_ascii_case(b"chunked"));
        } else if name == CONNECTION {
            self.closes |= has_token(value.as_bytes(), b"close");
            self.stays |= has_token(value.as_bytes(), b"keep-alive");
        }
        Ok(())
    }

    /// Determines the end of the body (RFC 9112, 6.3).
    fn ends(&mut self, method: &Method, status: StatusCode) -> Result<Ends, Nonsense> {
        let bodiless = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        if *method == Method::HEAD || status.is_informational() || bodiless {
            return Ok(Ends::After(0));
        }
        match (self.chunked, self.length) {
            (Some(true), length) if self.minor == 1 => {
                // Both is how one answer is made to look like two.
                self.stays &= length.is_none();
                Ok(Ends::WithChunks(Chunks::default()))
            }
            (Some(_), _) => Err(Nonsense::Framing),
            (None, Some(length)) => Ok(Ends::After(length)),
            (None, None) => Ok(Ends::WithConnection),
        }
    }
}

#[cfg(test)]
mod tests;
