//! Where requests begin and end in the bytes of an HTTP/1.1 connection, read strictly.
//!
//! The HTTP library is lenient where RFC 9112 lets it be: it takes a bare line feed for the end of a line, and of a
//! length and chunks it believes the chunks without a word. A server in front or behind may read the same bytes
//! otherwise, and that difference is how requests are smuggled. [`Framing`] accepts only what every server reads in the
//! same way. What is inside a line is not its business: the library refuses what is wrong there.
//!
//! It looks at a byte of a head once and skips bodies by their lengths; it holds no bytes and does not allocate, and
//! what it finds does not depend on how the bytes are cut.

mod chunks;
mod head;

use chunks::Chunks;
use head::Head;
use memchr::memchr;

/// Follows the requests of one connection.
#[derive(Clone, Debug, Default)]
pub struct Framing {
    place: Place,
    heads: u32,
}

/// Where the next byte stands.
#[derive(Clone, Debug, Default)]
enum Place {
    /// Before a request.
    #[default]
    Between,
    /// In an empty line before a request, which RFC 9112 tells servers to bear with.
    EmptyLine,
    Head(Head),
    /// In a body of which so much is to come.
    Sized(u64),
    Chunks(Chunks),
}

/// How a body is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    Sized(u64),
    Chunked,
}

/// What two servers could read in two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// A line feed without a carriage return before it.
    #[error("a line ends in a bare line feed")]
    BareLineFeed,
    /// Both framings in one head.
    #[error("a request has either Content-Length or Transfer-Encoding")]
    TwoFramings,
    /// A length that is no number, or several that differ.
    #[error("Content-Length is not one number")]
    Length,
    /// Chunks whose sizes or ends are none.
    #[error("the body's chunks are broken")]
    Chunk,
}

impl Framing {
    /// Takes the next bytes of the connection, up to the end of a head or of a request. Returns how many those were; more
    /// than none, if there were any.
    ///
    /// # Errors
    /// [`Flaw`]: nothing on the connection can be relied on from here.
    pub fn take(&mut self, bytes: &[u8]) -> Result<usize, Flaw> {
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            match &mut self.place {
                Place::Between => match byte {
                    b'\n' => return Err(Flaw::BareLineFeed),
                    b'\r' => (self.place, at) = (Place::EmptyLine, at + 1),
                    _ => self.place = Place::Head(Head::default()),
                },
                Place::EmptyLine if *byte == b'\n' => (self.place, at) = (Place::Between, at + 1),
                // No line begins with a carriage return: the library says so.
                Place::EmptyLine => self.place = Place::Head(Head::default()),
                Place::Head(head) => {
                    let (taken, body) = head.take(&bytes[at..])?;
                    if let Some(body) = body {
                        self.head_ended(body);
                    }
                    return Ok(at + taken);
                }
                Place::Sized(rest) => {
                    let taken = usize::try_from(*rest).unwrap_or(usize::MAX).min(bytes.len() - at);
                    *rest -= taken as u64;
                    if *rest == 0 {
                        self.place = Place::Between;
                    }
                    return Ok(at + taken);
                }
                Place::Chunks(chunks) => {
                    let (taken, ended) = chunks.take(&bytes[at..])?;
                    if ended {
                        self.place = Place::Between;
                    }
                    return Ok(at + taken);
                }
            }
        }
        Ok(at)
    }

    /// Whether the next byte belongs to a new request.
    #[must_use]
    pub const fn is_between(&self) -> bool {
        matches!(self.place, Place::Between)
    }

    /// Whether part of a head has been taken.
    #[must_use]
    pub const fn is_in_head(&self) -> bool {
        matches!(self.place, Place::EmptyLine | Place::Head(_))
    }

    /// How many heads were taken whole; wraps around.
    #[must_use]
    pub const fn heads(&self) -> u32 {
        self.heads
    }

    fn head_ended(&mut self, body: Body) {
        self.heads = self.heads.wrapping_add(1);
        self.place = match body {
            Body::Sized(0) => Place::Between,
            Body::Sized(length) => Place::Sized(length),
            Body::Chunked => Place::Chunks(Chunks::default()),
        };
    }
}

/// The rest of a line whose content does not matter.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    /// Whether the last byte was a carriage return.
    after_cr: bool,
}

impl Line {
    /// A line of which the first byte was taken.
    const fn after(byte: u8) -> Self {
        Self { after_cr: byte == b'\r' }
    }

    /// Takes bytes up to the line's end; returns how many, and whether it ended.
    fn take(&mut self, bytes: &[u8]) -> Result<(usize, bool), Flaw> {
        let Some(feed) = memchr(b'\n', bytes) else {
            self.after_cr = bytes.last().map_or(self.after_cr, |byte| *byte == b'\r');
            return Ok((bytes.len(), false));
        };
        let before = feed.checked_sub(1).map_or(self.after_cr, |before| bytes[before] == b'\r');
        if before { Ok((feed + 1, true)) } else { Err(Flaw::BareLineFeed) }
    }
}
