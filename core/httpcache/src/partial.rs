//! Parts of a representation that are stored one by one, combined, and completed (RFC 9111, 3.3 and 3.4; RFC 9110,
//! 15.3.7.3).
//!
//! Two responses are parts of the same representation only if both have the same strong validator. Parts that overlap are
//! compared as well: if their bytes differ, the validator cannot be believed, and the newer part alone is kept.

use std::ops::Range;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use httprules::{etag::ETag, range::ContentRange};

use crate::{answer::Part, update};

/// Most parts of one representation that are stored beside each other, with gaps between them.
pub const MAX_PARTS: usize = 8;

/// What is longer than this is joined only if the shorter part is at least a [`WORTH`]th of both, or nothing is missing then. What
/// is joined is copied and hashed as a whole, which a client could otherwise cause by asking for one more byte at a time.
const SHORT: u64 = 64 * 1024;
const WORTH: u64 = 16;

/// Fields that describe the content of one message and not the representation that it is a part of.
const OF_THE_CONTENT: [HeaderName; 2] =
    [HeaderName::from_static("content-digest"), HeaderName::from_static("content-md5")];

/// What came of joining two parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Joined {
    /// They are one part now, with these bytes.
    One(Part, Vec<u8>),
    /// There is a gap between them, together they would be too long, or it is not worth while.
    Apart,
    /// They cannot be of the same representation.
    Contradiction,
}

/// Whether two responses are known to be of the same representation: they have the same strong validator, and do not
/// name different content codings.
#[must_use]
pub fn are_same(stored: &HeaderMap, new: &HeaderMap) -> bool {
    let tags = validator(stored).zip(validator(new));
    // A response to a conditional request for a range may leave out what describes the representation.
    let coding = new.get(header::CONTENT_ENCODING);
    tags.is_some_and(|(stored, new)| stored.strong_eq(&new))
        && coding.is_none_or(|coding| stored.get(header::CONTENT_ENCODING) == Some(coding))
}

/// Joins a new part and a stored one of the same representation. The result has at most `most` bytes.
#[must_use]
pub fn join((new, new_bytes): (&Part, &[u8]), (old, old_bytes): (&Part, &[u8]), most: u64) -> Joined {
    let is_sound = |part: &Part, bytes: &[u8]| part.range.end - part.range.start == bytes.len() as u64;
    if new.len != old.len || !is_sound(new, new_bytes) || !is_sound(old, old_bytes) {
        return Joined::Contradiction;
    }
    if new.range.start > old.range.end || old.range.start > new.range.end {
        return Joined::Apart;
    }
    let common = new.range.start.max(old.range.start)..new.range.end.min(old.range.end);
    if bytes_at(new, new_bytes, &common) != bytes_at(old, old_bytes, &common) {
        return Joined::Contradiction;
    }
    let range = new.range.start.min(old.range.start)..new.range.end.max(old.range.end);
    let len = range.end - range.start;
    let shorter = new_bytes.len().min(old_bytes.len()) as u64;
    let is_worth_it = len <= SHORT || len == new.len || shorter.saturating_mul(WORTH) >= len;
    if len > most || !is_worth_it {
        return Joined::Apart;
    }
    // What the stored part has before and behind the new one.
    let before = bytes_at(old, old_bytes, &(range.start..new.range.start));
    let behind = bytes_at(old, old_bytes, &(new.range.end..range.end));
    let bytes = [before.unwrap_or_default(), new_bytes, behind.unwrap_or_default()].concat();
    Joined::One(Part { range, len: new.len }, bytes)
}

/// The bytes of a part at this range of its representation; `None` if the range is empty or not within the part.
fn bytes_at<'b>(part: &Part, bytes: &'b [u8], range: &Range<u64>) -> Option<&'b [u8]> {
    if range.start >= range.end {
        return None;
    }
    let from = usize::try_from(range.start.checked_sub(part.range.start)?).ok()?;
    let to = usize::try_from(range.end.checked_sub(part.range.start)?).ok()?;
    bytes.get(from..to)
}

/// The fields of a stored response combined with those of a newer part, for what both make together. `None` for the part
/// if that is the whole representation.
#[must_use]
pub fn combined(stored: &HeaderMap, new: &HeaderMap, part: Option<&Part>, len: u64) -> HeaderMap {
    let mut headers = update::freshened(stored, new);
    strip_content(&mut headers);
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(len));
    headers.remove(header::CONTENT_RANGE);
    if let Some(part) = part {
        let range = ContentRange { part: Some(part.range.clone()), len: part.len };
        headers.extend(
            HeaderValue::from_str(&range.to_string()).ok().map(|value| (header::CONTENT_RANGE, value)),
        );
    }
    headers
}

/// Removes what describes the content of another message than the one that is made of these fields: a part has another
/// digest of its content than the whole.
pub fn strip_content(headers: &mut HeaderMap) {
    for name in &OF_THE_CONTENT {
        headers.remove(name);
    }
}

/// The bytes that a part lacks of its representation, if they are one range: all behind it or all before it.
#[must_use]
pub fn missing(part: &Part) -> Option<Range<u64>> {
    match (part.range.start, part.range.end) {
        (0, end) if end < part.len => Some(end..part.len),
        (start, end) if start > 0 && end == part.len => Some(0..start),
        _ => None,
    }
}

/// The fields of a request for what a stored part lacks, which its server answers with that range only if the
/// representation has not changed. `None` if the part has no strong validator.
#[must_use]
pub fn conditions(stored: &HeaderMap, missing: &Range<u64>) -> Option<[(HeaderName, HeaderValue); 2]> {
    validator(stored)?;
    let last = missing.end.checked_sub(1)?;
    let range = HeaderValue::from_str(&format!("bytes={}-{last}", missing.start)).ok()?;
    Some([(header::RANGE, range), (header::IF_RANGE, stored.get(header::ETAG)?.clone())])
}

/// The strong validator of a response, which names one.
fn validator(headers: &HeaderMap) -> Option<ETag<'_>> {
    let mut values = headers.get_all(header::ETAG).iter();
    let tag = ETag::parse(values.next()?.as_bytes()).filter(ETag::is_strong)?;
    values.next().is_none().then_some(tag)
}
