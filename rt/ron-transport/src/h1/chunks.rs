//! A body in chunks, taken apart (RFC 9112, 7.1).

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::{Flaw, find_end, inbox::Inbox};

/// The longest line that begins a chunk: sixteen digits, and extensions nobody reads.
const MAX_LINE: usize = 1024;
/// The most that may follow the last chunk.
const MAX_TRAILERS: usize = 8 * 1024;
/// The most fields that may follow the last chunk.
const MAX_TRAILER_FIELDS: usize = 32;

/// What is next in a chunked body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Chunks {
    /// The line that tells a chunk's length.
    #[default]
    Line,
    /// So many bytes of a chunk.
    Data(u64),
    /// The end of a chunk's line.
    DataEnd,
    /// The trailer section after the last chunk.
    Trailers,
    /// The body has ended.
    Ended,
}

/// The next part that was found in a chunked body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Data(Bytes),
    Trailers(HeaderMap),
    /// Not enough is there yet.
    Nothing,
    /// The end of the body.
    End,
}

impl Chunks {
    /// Looks at the first chunk, as far as it is in `inbox`.
    pub(crate) fn begin(&mut self, inbox: &mut Inbox) -> Result<(), Flaw> {
        if let Some(length) = take_length(inbox)? {
            *self = if length == 0 { Self::Trailers } else { Self::Data(length) };
        }
        let Self::Data(length) = *self else { return Ok(()) };
        let behind = usize::try_from(length).ok().and_then(|length| inbox.bytes().get(length..));
        match behind {
            None | Some([] | [b'\r'] | [b'\r', b'\n', ..]) => Ok(()),
            Some(_) => Err(Flaw::Chunk),
        }
    }

    /// Takes what is next out of `inbox`.
    pub(crate) fn next(&mut self, inbox: &mut Inbox) -> Result<Found, Flaw> {
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
                        _ => return Err(Flaw::Chunk),
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
fn take_length(inbox: &mut Inbox) -> Result<Option<u64>, Flaw> {
    let Some(end) = memchr::memchr(b'\n', inbox.bytes()) else {
        return if inbox.bytes().len() > MAX_LINE { Err(Flaw::Chunk) } else { Ok(None) };
    };
    let line = inbox.bytes()[..end].strip_suffix(b"\r").ok_or(Flaw::BareLineFeed)?;
    let length = read_length(line)?;
    inbox.skip(end + 1);
    Ok(Some(length))
}

/// The length at the front of a chunk's line; what may follow is an extension.
fn read_length(line: &[u8]) -> Result<u64, Flaw> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let (digits, rest) = line.split_at(digits);
    let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let extension = &rest[blanks..];
    let is_extension = extension.is_empty() || extension.starts_with(b";");
    let has_control = extension.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t');
    if line.len() > MAX_LINE || digits.is_empty() || digits.len() > 16 || !is_extension || has_control {
        return Err(Flaw::Chunk);
    }
    Ok(digits.iter().fold(0, |length, digit| length << 4 | u64::from(hex(*digit))))
}

/// The value of a hexadecimal digit.
const fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

/// Takes the fields that follow the last chunk out, and the empty line after them.
fn take_trailers(inbox: &mut Inbox) -> Result<Option<HeaderMap>, Flaw> {
    let end = find_end(inbox.bytes(), 0)?;
    if end.unwrap_or(inbox.bytes().len()) > MAX_TRAILERS {
        return Err(Flaw::Chunk);
    }
    let Some(end) = end else { return Ok(None) };
    let mut space = [httparse::EMPTY_HEADER; MAX_TRAILER_FIELDS];
    let trailers = match httparse::parse_headers(&inbox.bytes()[..end], &mut space) {
        Ok(httparse::Status::Complete((_, fields))) => {
            let read = |field: &httparse::Header<'_>| {
                let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
                Some((name, HeaderValue::from_bytes(field.value).ok()?))
            };
            fields.iter().map(read).collect::<Option<HeaderMap>>()
        }
        _ => None,
    };
    let trailers = trailers.ok_or(Flaw::Chunk)?;
    inbox.skip(end);
    Ok(Some(trailers))
}

#[cfg(test)]
mod tests;
