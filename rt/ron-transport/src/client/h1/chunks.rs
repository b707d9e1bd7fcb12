//! A body in chunks, taken apart (RFC 9112, 7.1).

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::inbox::Inbox;

/// The longest line that begins a chunk: sixteen digits, and extensions nobody reads.
const MAX_LINE: usize = 1024;
/// The most that may follow the last chunk.
const MAX_TRAILERS: usize = 8 * 1024;
/// The most fields that may follow the last chunk.
const MAX_TRAILER_FIELDS: usize = 32;

/// Why chunks are none.
#[derive(Debug, thiserror::Error)]
#[error("the server's chunks are malformed")]
pub(super) struct Malformed;

/// What is next in a chunked body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Chunks {
    /// The line that tells a chunk's length.
    #[default]
    Line,
    /// So many bytes of a chunk.
    Data(u64),
    /// The end of a chunk's line.
    DataEnd,
    /// What follows the last chunk.
    Trailers,
    /// Nothing.
    Ended,
}

/// What was found next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Data(Bytes),
    Trailers(HeaderMap),
    /// Not enough is there yet.
    Nothing,
    /// The end of the body.
    End,
}

impl Chunks {
    /// Looks at the first chunk, as far as it is in `inbox`.
    pub(super) fn begin(&mut self, inbox: &mut Inbox) -> Result<(), Malformed> {
        if let Some(length) = take_length(inbox)? {
            *self = if length == 0 { Self::Trailers } else { Self::Data(length) };
        }
        let Self::Data(length) = *self else { return Ok(()) };
        let behind = usize::try_from(length).ok().and_then(|length| inbox.bytes().get(length..));
        match behind {
            None | Some([] | [b'\r'] | [b'\r', b'\n', ..]) => Ok(()),
            Some(_) => Err(Malformed),
        }
    }

    /// Takes what is next out of `inbox`.
    pub(super) fn next(&mut self, inbox: &mut Inbox) -> Result<Found, Malformed> {
        loop {
            match *self {
                Self::Line => {
                    *self = match take_length(inbox)? {
                        None => return Ok(Found::Nothing),
                        Some(0) => Self::Trailers,
                        Some(length) => Self::Data(length),
                    };
                }
                Self::Data(left) => {
                    let here = inbox.bytes().len();
                    if here == 0 {
                        return Ok(Found::Nothing);
                    }
                    let taken = usize::try_from(left).unwrap_or(usize::MAX).min(here);
                    let left = left - taken as u64;
                    *self = if left == 0 { Self::DataEnd } else { Self::Data(left) };
                    return Ok(Found::Data(inbox.take(taken)));
                }
                Self::DataEnd => {
                    match inbox.bytes() {
                        [b'\r', b'\n', ..] => inbox.skip(2),
                        [] | [b'\r'] => return Ok(Found::Nothing),
                        _ => return Err(Malformed),
                    }
                    *self = Self::Line;
                }
                Self::Trailers => {
                    let Some(found) = take_trailers(inbox)? else { return Ok(Found::Nothing) };
                    *self = Self::Ended;
                    return Ok(if found.is_empty() { Found::End } else { Found::Trailers(found) });
                }
                Self::Ended => return Ok(Found::End),
            }
        }
    }
}

/// Takes the line out that begins a chunk, and tells the chunk's length.
fn take_length(inbox: &mut Inbox) -> Result<Option<u64>, Malformed> {
    let Some(end) = memchr::memchr(b'\n', inbox.bytes()) else {
        return if inbox.bytes().len() > MAX_LINE { Err(Malformed) } else { Ok(None) };
    };
    let line = inbox.bytes()[..end].strip_suffix(b"\r").filter(|line| line.len() <= MAX_LINE);
    let length = read_length(line.ok_or(Malformed)?)?;
    inbox.skip(end + 1);
    Ok(Some(length))
}

/// The length at the front of a chunk's line; what may follow is an extension.
fn read_length(line: &[u8]) -> Result<u64, Malformed> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let (digits, rest) = line.split_at(digits);
    let rest = rest.trim_ascii_start();
    if digits.is_empty() || digits.len() > 16 || !(rest.is_empty() || rest.starts_with(b";")) {
        return Err(Malformed);
    }
    let digits = std::str::from_utf8(digits).map_err(|_| Malformed)?;
    u64::from_str_radix(digits, 16).map_err(|_| Malformed)
}

/// Takes the fields that follow the last chunk out, and the empty line after them.
fn take_trailers(inbox: &mut Inbox) -> Result<Option<HeaderMap>, Malformed> {
    if inbox.bytes().starts_with(b"\r\n") {
        inbox.skip(2);
        return Ok(Some(HeaderMap::new()));
    }
    let mut space = [httparse::EMPTY_HEADER; MAX_TRAILER_FIELDS];
    let (length, trailers) = match httparse::parse_headers(inbox.bytes(), &mut space) {
        Ok(httparse::Status::Complete((length, fields))) if length <= MAX_TRAILERS => {
            let read = |field: &httparse::Header<'_>| {
                let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
                Some((name, HeaderValue::from_bytes(field.value).ok()?))
            };
            (length, fields.iter().map(read).collect::<Option<HeaderMap>>().ok_or(Malformed)?)
        }
        Ok(httparse::Status::Partial) if inbox.bytes().len() <= MAX_TRAILERS => return Ok(None),
        _ => return Err(Malformed),
    };
    inbox.skip(length);
    Ok(Some(trailers))
}

#[cfg(test)]
mod tests;
