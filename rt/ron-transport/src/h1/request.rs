//! The head of a request: where it ends, what it says, and how its body is framed.

use std::{borrow::Cow, mem::MaybeUninit};

use bytes::Bytes;
use http::{
    HeaderName, HeaderValue, Method, StatusCode, Uri, Version,
    header::{CONNECTION, CONTENT_LENGTH, EXPECT, TRANSFER_ENCODING, UPGRADE},
    request,
};
use httparse::{ParserConfig, Status};

use super::{
    Flaw,
    chunks::{Chunks, Found},
    find_end,
    inbox::Inbox,
};

/// Fields of a request for which there is room on the stack.
const USUAL_FIELDS: usize = 100;
/// Fields that a proxy adds to most requests.
const USUALLY_ADDED: usize = 6;
/// The longest body that can be announced. Nobody sends more, and everybody can count so far.
const LONGEST: u64 = i64::MAX as u64;

/// What a head may be at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeadLimits {
    pub(crate) bytes: usize,
    pub(crate) fields: usize,
}

/// Why a head cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadHead {
    /// More bytes or fields than allowed.
    TooLarge,
    /// The bytes are not an HTTP/1.1 request.
    NotHttp,
    /// HTTP/1.1 that two servers could read in two ways.
    Flawed(Flaw),
}

impl BadHead {
    /// The status of the response that says so.
    pub(crate) const fn status(self) -> StatusCode {
        match self {
            Self::TooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::NotHttp | Self::Flawed(_) => StatusCode::BAD_REQUEST,
        }
    }

    /// What exactly is wrong, for the person reading.
    pub(crate) fn detail(self) -> Cow<'static, str> {
        match self {
            Self::TooLarge => "the request's head has more bytes or fields than it may have".into(),
            Self::NotHttp => "the request's head is not HTTP/1.1".into(),
            Self::Flawed(flaw) => flaw.to_string().into(),
        }
    }
}

impl From<Flaw> for BadHead {
    fn from(flaw: Flaw) -> Self {
        Self::Flawed(flaw)
    }
}

/// How the body that follows a head is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyFraming {
    /// By its length; 0 if there is none.
    Sized(u64),
    Chunked,
}

/// What is still to come of a body.
#[derive(Debug)]
pub(crate) enum Rest {
    /// The body has this many bytes.
    Sized(u64),
    Chunked(Chunks),
    /// Nothing that could be relied on.
    Broken,
}

impl From<BodyFraming> for Rest {
    fn from(framing: BodyFraming) -> Self {
        match framing {
            BodyFraming::Sized(length) => Self::Sized(length),
            BodyFraming::Chunked => Self::Chunked(Chunks::default()),
        }
    }
}

impl Rest {
    pub(crate) const ENDED: Self = Self::Sized(0);

    /// Whether all of the body has been taken.
    pub(crate) const fn has_ended(&self) -> bool {
        matches!(self, Self::Sized(0) | Self::Chunked(Chunks::Ended))
    }

    /// Takes what is next out of `inbox`.
    ///
    /// # Errors
    /// [`Flaw`]: nothing on the connection can be relied on from here.
    pub(crate) fn next(&mut self, inbox: &mut Inbox) -> Result<Found, Flaw> {
        match self {
            Self::Broken => Err(Flaw::Chunk),
            Self::Sized(0) => Ok(Found::End),
            Self::Chunked(chunks) => chunks.next(inbox),
            Self::Sized(_) if inbox.bytes().is_empty() => Ok(Found::Nothing),
            Self::Sized(left) => {
                let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(inbox.bytes().len());
                *left -= taken as u64;
                Ok(Found::Data(inbox.take(taken)))
            }
        }
    }
}

/// The head of a request.
#[derive(Debug)]
pub(crate) struct RequestHead {
    pub(crate) parts: request::Parts,
    pub(crate) body: BodyFraming,
    /// Whether the client may send another request after this one.
    pub(crate) keep_alive: bool,
    /// Whether the client waits for `100 Continue` before it sends the body.
    pub(crate) expects_continue: bool,
    /// Whether the client offers to switch protocols.
    pub(crate) may_switch: bool,
}

/// The most empty lines before a request. RFC 9112 (2.2) wants one of servers.
const MAX_EMPTY_LINES: usize = 8;

/// How far a head has been looked at that has not arrived as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeadScan {
    /// Empty lines that were thrown away.
    empty_lines: usize,
    /// Bytes without an empty line among them.
    seen: usize,
    /// Bytes that were found to be the beginning of a request.
    checked: usize,
}

impl HeadScan {
    /// Takes a head out of `inbox`; `None` if it is not there as a whole.
    ///
    /// A few empty lines before it are thrown away.
    ///
    /// # Errors
    /// [`BadHead`]: nothing on the connection can be relied on from here.
    pub(crate) fn take(
        &mut self,
        inbox: &mut Inbox,
        limits: HeadLimits,
    ) -> Result<Option<RequestHead>, BadHead> {
        if self.seen == 0 {
            self.skip_empty_lines(inbox)?;
        }
        let bytes = inbox.bytes();
        if bytes == b"\r" {
            // It may become an empty line.
            return Ok(None);
        }
        let Some(end) = find_end(bytes, self.seen)? else {
            self.seen = bytes.len();
            return self.check_beginning(bytes, limits).map(|()| None);
        };
        if end > limits.bytes {
            return Err(BadHead::TooLarge);
        }
        *self = Self::default();
        read(&inbox.take(end), limits.fields).map(Some)
    }

    /// Whether anything has arrived since the request before.
    pub(crate) fn has_begun(self) -> bool {
        self != Self::default()
    }

    fn skip_empty_lines(&mut self, inbox: &mut Inbox) -> Result<(), BadHead> {
        let lines = inbox.bytes().chunks_exact(2).take(MAX_EMPTY_LINES + 1);
        let empty = lines.take_while(|line| *line == b"\r\n").count();
        self.empty_lines += empty;
        if self.empty_lines > MAX_EMPTY_LINES {
            return Err(BadHead::NotHttp);
        }
        if empty > 0 {
            inbox.skip(2 * empty);
        }
        Ok(())
    }

    /// Finds out early that what has arrived is not the beginning of a request, or too much of one. Looks only when it has
    /// doubled since the last time, so that a head that arrives byte by byte costs no more than its length.
    fn check_beginning(&mut self, bytes: &[u8], limits: HeadLimits) -> Result<(), BadHead> {
        if bytes.len() >= limits.bytes {
            return Err(BadHead::TooLarge);
        }
        if bytes.len() < self.checked * 2 || bytes.is_empty() {
            return Ok(());
        }
        self.checked = bytes.len();
        let mut space = vec![httparse::EMPTY_HEADER; limits.fields];
        match httparse::Request::new(&mut space).parse(bytes) {
            Ok(_) => Ok(()),
            Err(error) => Err(of_parser(error)),
        }
    }
}

/// Maps an error of the parser to a reason.
const fn of_parser(error: httparse::Error) -> BadHead {
    match error {
        httparse::Error::TooManyHeaders => BadHead::TooLarge,
        _ => BadHead::NotHttp,
    }
}

/// Reads a whole head.
fn read(head: &Bytes, most: usize) -> Result<RequestHead, BadHead> {
    if most <= USUAL_FIELDS {
        let mut usual = [const { MaybeUninit::uninit() }; USUAL_FIELDS];
        return read_within(head, &mut usual[..most]);
    }
    read_within(head, &mut vec![const { MaybeUninit::uninit() }; most])
}

/// Reads a whole head with at most as many fields as there is space for.
fn read_within<'h>(
    head: &'h Bytes,
    space: &mut [MaybeUninit<httparse::Header<'h>>],
) -> Result<RequestHead, BadHead> {
    let mut parsed = httparse::Request::new(&mut []);
    let status = ParserConfig::default().parse_request_with_uninit_headers(&mut parsed, head, space);
    let Status::Complete(_) = status.map_err(of_parser)? else { return Err(BadHead::NotHttp) };
    let (Some(method), Some(target), Some(minor)) = (parsed.method, parsed.path, parsed.version) else {
        return Err(BadHead::NotHttp);
    };
    let (mut parts, ()) = http::Request::new(()).into_parts();
    parts.method = Method::from_bytes(method.as_bytes()).map_err(|_| BadHead::NotHttp)?;
    parts.uri = read_target(head.slice_ref(target.as_bytes()))?;
    parts.version = if minor == 0 { Version::HTTP_10 } else { Version::HTTP_11 };
    // With room for what a proxy adds, so that the map need not grow for it.
    let room = parts.headers.try_reserve(parsed.headers.len() + USUALLY_ADDED);
    room.map_err(|_| BadHead::TooLarge)?;
    let mut told = Told::new(minor, &parts.method);
    for field in parsed.headers {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| BadHead::NotHttp)?;
        let value = HeaderValue::from_maybe_shared(head.slice_ref(field.value));
        let value = value.map_err(|_| BadHead::NotHttp)?;
        // Equal lengths are one.
        let is_repeated = name == CONTENT_LENGTH && told.length.is_some();
        told.hear(&name, value.as_bytes())?;
        if !is_repeated {
            parts.headers.try_append(name, value).map_err(|_| BadHead::TooLarge)?;
        }
    }
    let body = told.body()?;
    Ok(RequestHead {
        parts,
        body,
        keep_alive: told.keep_alive && !told.closes,
        expects_continue: told.expects_continue && body != BodyFraming::Sized(0),
        may_switch: told.may_switch,
    })
}

fn read_target(target: Bytes) -> Result<Uri, BadHead> {
    // The library's longest.
    const LONGEST_TARGET: usize = u16::MAX as usize - 1;
    if target.len() > LONGEST_TARGET {
        return Err(BadHead::TooLarge);
    }
    Uri::from_maybe_shared(target.clone()).or_else(|_| {
        let target = with_encoded_query(&target).ok_or(BadHead::NotHttp)?;
        if target.len() > LONGEST_TARGET {
            return Err(BadHead::TooLarge);
        }
        Uri::from_maybe_shared(target).map_err(|_| BadHead::NotHttp)
    })
}

/// A target with the bytes of its query encoded that a query must not have and some clients send as they are: `"`, `<` and `>`.
/// Browsers encode the same (URL Standard, query percent-encode set), and servers decode it, so nobody reads another query. `None`
/// if there is nothing of the kind.
fn with_encoded_query(target: &[u8]) -> Option<Bytes> {
    let is_path = target.starts_with(b"/") || target.windows(3).any(|three| three == b"://");
    let query = target.iter().position(|byte| *byte == b'?').filter(|_| is_path)?;
    let encoded = |byte: u8| match byte {
        b'"' => Some(b"%22"),
        b'<' => Some(b"%3C"),
        b'>' => Some(b"%3E"),
        _ => None,
    };
    if !target[query..].iter().any(|byte| encoded(*byte).is_some()) {
        return None;
    }
    let mut written = target[..query].to_vec();
    for byte in &target[query..] {
        match encoded(*byte) {
            Some(three) => written.extend_from_slice(three),
            None => written.push(*byte),
        }
    }
    Some(written.into())
}

/// What the fields of a head tell about its body and its connection.
struct Told {
    minor: u8,
    length: Option<u64>,
    /// Whether the last coding of the last `Transfer-Encoding` is `chunked`, if there is one.
    chunked: Option<bool>,
    keep_alive: bool,
    /// `Connection: close` was sent; it takes precedence over `keep_alive`.
    closes: bool,
    expects_continue: bool,
    may_switch: bool,
}

impl Told {
    fn new(minor: u8, method: &Method) -> Self {
        Self {
            minor,
            length: None,
            chunked: None,
            keep_alive: minor == 1,
            closes: false,
            expects_continue: false,
            may_switch: method == Method::CONNECT,
        }
    }

    fn hear(&mut self, name: &HeaderName, value: &[u8]) -> Result<(), BadHead> {
        if name == CONTENT_LENGTH {
            let length = read_length(value)?;
            if self.length.replace(length).is_some_and(|before| before != length) {
                return Err(Flaw::Length.into());
            }
        } else if name == TRANSFER_ENCODING {
            let last = value.rsplit(|byte| *byte == b',').next().unwrap_or_default();
            self.chunked = Some(last.trim_ascii().eq_ignore_ascii_case(b"chunked"));
        } else if name == CONNECTION {
            self.closes |= has_token(value, b"close");
            self.keep_alive |= has_token(value, b"keep-alive");
        } else if name == EXPECT {
            self.expects_continue = self.minor == 1 && value.eq_ignore_ascii_case(b"100-continue");
        } else if name == UPGRADE {
            self.may_switch |= self.minor == 1;
        }
        Ok(())
    }

    /// RFC 9112, 6.3, without what is there for old clients.
    fn body(&self) -> Result<BodyFraming, BadHead> {
        match (self.chunked, self.length) {
            (Some(_), Some(_)) => Err(Flaw::TwoFramings.into()),
            (Some(true), None) if self.minor == 1 => Ok(BodyFraming::Chunked),
            (Some(_), None) => Err(BadHead::NotHttp),
            (None, length) => Ok(BodyFraming::Sized(length.unwrap_or(0))),
        }
    }
}

/// Whether a list of tokens has this one.
pub(crate) fn has_token(list: &[u8], token: &[u8]) -> bool {
    list.split(|byte| *byte == b',').any(|one| one.trim_ascii().eq_ignore_ascii_case(token))
}

/// A length: digits and nothing else.
fn read_length(value: &[u8]) -> Result<u64, Flaw> {
    if value.is_empty() {
        return Err(Flaw::Length);
    }
    value.iter().try_fold(0_u64, |length, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0')).ok_or(Flaw::Length)?;
        let longer = length.checked_mul(10).and_then(|tens| tens.checked_add(digit));
        longer.filter(|longer| *longer <= LONGEST).ok_or(Flaw::Length)
    })
}

/// Reads requests as a connection does, out of bytes that arrive in these pieces.
#[cfg(any(test, fuzzing))]
pub(crate) mod replay {
    use super::{BadHead, Found, HeadLimits, HeadScan, Inbox, Rest};

    /// A request that was read as a whole.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) struct Read {
        /// The request's method and target.
        pub(crate) line: String,
        pub(crate) body: Vec<u8>,
        /// How many bytes it took, with the empty lines before it.
        pub(crate) length: usize,
        /// Whether it is the client's last.
        pub(crate) is_last: bool,
    }

    const LIMITS: HeadLimits = HeadLimits { bytes: 16 * 1024, fields: 100 };

    /// The requests in bytes that come in pieces, and what is wrong behind them.
    pub(crate) fn requests<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Read>, Option<BadHead>) {
        let mut reads = Vec::new();
        let (mut inbox, mut scan, mut begun) = (Inbox::new(), HeadScan::default(), None::<(Read, Rest)>);
        let (mut pushed, mut before) = (0, 0);
        let mut pieces = pieces.into_iter();
        loop {
            let step = match &mut begun {
                None => scan.take(&mut inbox, LIMITS).map(|head| {
                    head.map(|head| {
                        let line = format!("{} {}", head.parts.method, head.parts.uri);
                        let read = Read { line, body: Vec::new(), length: 0, is_last: !head.keep_alive };
                        begun = Some((read, head.body.into()));
                    })
                }),
                Some((read, rest)) => match rest.next(&mut inbox) {
                    Ok(Found::Nothing) => Ok(None),
                    Ok(Found::Trailers(_)) => Ok(Some(())),
                    Ok(Found::Data(data)) => {
                        read.body.extend_from_slice(&data);
                        Ok(Some(()))
                    }
                    Ok(Found::End) => {
                        let taken = pushed - inbox.bytes().len();
                        read.length = taken - before;
                        before = taken;
                        reads.extend(begun.take().map(|(read, _)| read));
                        Ok(Some(()))
                    }
                    Err(flaw) => Err(flaw.into()),
                },
            };
            match step {
                Ok(Some(())) => {}
                Ok(None) => {
                    let Some(piece) = pieces.next() else { return (reads, None) };
                    inbox.push(piece);
                    pushed += piece.len();
                }
                Err(bad) => return (reads, Some(bad)),
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
