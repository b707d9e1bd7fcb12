//! Which part of a stored response a request gets: all of it, a range, or the news that it has it (RFC 9110, 13 and 14).

use std::ops::Range;

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use httprules::{
    date,
    etag::ETag,
    precondition::{Current, Outcome, decide},
    range::ContentRange,
};

/// The bytes that are stored of a representation, if not all of them are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The bytes of the representation that the part contains.
    pub range: Range<u64>,
    /// How many it has in all.
    pub len: u64,
}

impl Part {
    /// What a 206 with one part says of its bytes, of which there are `len`; `None` if it is unclear or wrong.
    #[must_use]
    pub fn of(headers: &HeaderMap, len: u64) -> Option<Self> {
        let mut values = headers.get_all(header::CONTENT_RANGE).iter();
        let value = values.next()?.to_str().ok()?;
        if values.next().is_some() {
            return None;
        }
        let (range, whole) = value.strip_prefix("bytes ")?.split_once('/')?;
        let (first, last) = range.split_once('-')?;
        let number =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok());
        let (first, last, whole) = (number(first)??, number(last)??, number(whole)??);
        let end = last.checked_add(1)?;
        (first < end && end <= whole && end - first == len).then_some(Self { range: first..end, len: whole })
    }
}

/// What a request gets of a stored response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The response as it is stored.
    Whole,
    /// These bytes of what is stored, and where they are in the representation (206).
    Part(Range<u64>, ContentRange),
    /// What the client has is good (304).
    NotModified,
    /// What the client insists on is not so (412).
    Failed,
    /// No part that was asked for is there (416), of so many bytes.
    Unsatisfiable(u64),
    /// What is stored is not enough.
    NotStored,
}

/// Decides what a request gets of a response that is stored with this status and these fields. `stored` is what is stored
/// of its bytes; `now` is in seconds since 1970.
#[must_use]
pub fn decide_answer(
    (method, request): (&Method, &HeaderMap),
    (status, headers): (StatusCode, &HeaderMap),
    (len, part): (u64, Option<&Part>),
    now: u64,
) -> Answer {
    if let Some(part) = part {
        return of_part((method, request), headers, part, now);
    }
    if status != StatusCode::OK {
        return Answer::Whole;
    }
    match decide(method, request, &current(headers, len, now), now) {
        Outcome::Whole => Answer::Whole,
        Outcome::NotModified => Answer::NotModified,
        Outcome::Failed => Answer::Failed,
        Outcome::Unsatisfiable => Answer::Unsatisfiable(len),
        Outcome::Part(range) => Answer::Part(range.clone(), ContentRange { part: Some(range), len }),
    }
}

/// Of a part that is stored only ranges inside it can be answered, and only without further conditions.
fn of_part((method, request): (&Method, &HeaderMap), headers: &HeaderMap, part: &Part, now: u64) -> Answer {
    match decide(method, request, &current(headers, part.len, now), now) {
        Outcome::Part(asked) if asked.start >= part.range.start && asked.end <= part.range.end => {
            let inside = asked.start - part.range.start..asked.end - part.range.start;
            Answer::Part(inside, ContentRange { part: Some(asked), len: part.len })
        }
        _ => Answer::NotStored,
    }
}

fn current(headers: &HeaderMap, len: u64, now: u64) -> Current<'_> {
    let field = |name: header::HeaderName| headers.get(name).map(HeaderValue::as_bytes);
    let date_of = |name| field(name).and_then(|value| date::parse(value, now));
    let last_modified = date_of(header::LAST_MODIFIED);
    Current {
        etag: field(header::ETAG).and_then(ETag::parse),
        // A response without a date of its own has not changed since it was made.
        last_modified: last_modified
            .or_else(|| date_of(header::DATE).filter(|_| !headers.contains_key(header::ETAG))),
        dates_are_strong: false,
        len,
    }
}
