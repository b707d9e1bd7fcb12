//! What both sides of HTTP/1.1 share (RFC 9112): buffers for reading and writing, chunks, and the head of a request.
//!
//! Heads are split into tokens by the `httparse` library. Where a message ends is decided here, and strictly: two servers
//! that read the same bytes in two ways are how requests are smuggled, so only what every server reads in the same way is
//! accepted.

pub(crate) mod chunks;
pub(crate) mod inbox;
pub(crate) mod outbox;
pub(crate) mod request;

use memchr::memchr_iter;

/// Why a message cannot be told apart from the next one with certainty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Flaw {
    /// A line feed without a carriage return before it.
    #[error("a line ends in a bare line feed")]
    BareLineFeed,
    /// Both framings in one head.
    #[error("a request has either Content-Length or Transfer-Encoding")]
    TwoFramings,
    /// A length that is not a number, or several lengths that differ.
    #[error("Content-Length is not one number")]
    Length,
    /// Chunks whose sizes or ends are malformed.
    #[error("the body's chunks are broken")]
    Chunk,
}

/// The length of the lines at the front of `bytes` up to and with an empty one; `None` if no line is empty yet. The first
/// `seen` bytes were looked at before.
///
/// # Errors
/// [`Flaw::BareLineFeed`].
fn find_end(bytes: &[u8], seen: usize) -> Result<Option<usize>, Flaw> {
    for at in memchr_iter(b'\n', &bytes[seen..]).map(|at| seen + at) {
        if at == 0 || bytes[at - 1] != b'\r' {
            return Err(Flaw::BareLineFeed);
        }
        if at == 1 || bytes[at - 2] == b'\n' {
            return Ok(Some(at + 1));
        }
    }
    Ok(None)
}
