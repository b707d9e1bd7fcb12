//! What a 304 and the response to a HEAD change in a stored response (RFC 9111, 3.2, 4.3.4 and 4.3.5).

use http::{HeaderMap, HeaderName, header};
use httprules::etag::ETag;

/// Fields of a stored response that describe its stored bytes: no update changes them.
const OF_THE_BODY: [HeaderName; 4] = [
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONTENT_RANGE,
    HeaderName::from_static("content-digest"),
];

/// Whether a 304 is about the stored response: it names the same validator, or none at all.
#[must_use]
pub fn confirms(stored: &HeaderMap, not_modified: &HeaderMap) -> bool {
    match (tag(stored), tag(not_modified)) {
        (Some(ours), Some(theirs)) if ours.is_strong() && theirs.is_strong() => ours.strong_eq(&theirs),
        (Some(ours), Some(theirs)) => ours.weak_eq(&theirs),
        (None, Some(theirs)) => !theirs.is_strong(),
        (_, None) => match (stored.get(header::LAST_MODIFIED), not_modified.get(header::LAST_MODIFIED)) {
            (Some(ours), Some(theirs)) => ours == theirs,
            _ => true,
        },
    }
}

/// What the response to a HEAD says of a stored response to a GET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadSays {
    /// It is the same: the stored response takes the new fields.
    Same,
    /// It is another one: the stored response is no longer good.
    Changed,
}

/// Compares the fields of a response to a HEAD with those of a stored response of `len` bytes.
#[must_use]
pub fn compare_head(stored: &HeaderMap, len: u64, head: &HeaderMap) -> HeadSays {
    let differs = |name: HeaderName| {
        head.get(&name).is_some_and(|theirs| stored.get(&name).is_none_or(|ours| ours != theirs))
    };
    let length = head.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if differs(header::ETAG) || differs(header::LAST_MODIFIED) || length.is_some_and(|length| length != len) {
        HeadSays::Changed
    } else {
        HeadSays::Same
    }
}

/// The stored fields with those of an update in their place.
#[must_use]
pub fn freshened(stored: &HeaderMap, update: &HeaderMap) -> HeaderMap {
    let mut fresh = stored.clone();
    // What is not told again was said of the response before: its age, and when it was made.
    fresh.remove(header::AGE);
    fresh.remove(header::DATE);
    for name in update.keys().filter(|name| !OF_THE_BODY.contains(name)) {
        fresh.remove(name);
        for value in update.get_all(name) {
            fresh.append(name.clone(), value.clone());
        }
    }
    fresh
}

fn tag(headers: &HeaderMap) -> Option<ETag<'_>> {
    headers.get(header::ETAG).and_then(|value| ETag::parse(value.as_bytes()))
}
