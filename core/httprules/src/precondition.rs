//! Conditions on a request: whether it goes on, in the order of RFC 9110, 13.2.2, and what of the representation it gets.
//!
//! | field | does not count | holds |
//! |---|---|---|
//! | `If-Match` | – | `*`, or the tag is listed (strongly); a broken list holds never |
//! | `If-Unmodified-Since` | beside `If-Match`, without a date on either side | not modified after the date |
//! | `If-None-Match` | broken | the tag is not listed (weakly), nor `*` |
//! | `If-Modified-Since` | beside `If-None-Match`, for writes, without a date on either side | modified after the date |
//! | `If-Range` | without `Range` | the very tag (strongly), or the very date if dates are strong |
//!
//! The first two fail with 412; the next two with 304, and with 412 for writes; the last makes the whole of a part.

use http::{HeaderMap, HeaderName, Method, header};

use crate::{
    date,
    etag::{ETag, Listed, look_up},
    range,
};

/// What is known of the representation that a request would get.
#[derive(Clone, Copy, Debug)]
pub struct Current<'a> {
    /// The entity tag of the representation, if it has one.
    pub etag: Option<ETag<'a>>,
    /// When it was last modified, in seconds since 1970.
    pub last_modified: Option<u64>,
    /// Whether it was never two different things within the second of `last_modified` for anybody who was told of it, so
    /// that an equal date means equal bytes.
    pub dates_are_strong: bool,
    /// Length of the representation in bytes.
    pub len: u64,
}

/// The result of evaluating the preconditions (RFC 9110, 13.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The request is processed.
    Proceed,
    /// What the client has is good (304).
    NotModified,
    /// What the client insists on is not so (412).
    Failed,
}

/// What a request that is good otherwise gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The whole representation (200).
    Whole,
    /// These bytes of it (206).
    Part(std::ops::Range<u64>),
    /// What the client has is good (304).
    NotModified,
    /// What the client insists on is not so (412).
    Failed,
    /// It asks for a part that cannot be had (416).
    Unsatisfiable,
}

/// Decides all of it: the conditions, then the range. `now` is in seconds since 1970.
#[must_use]
pub fn decide(method: &Method, headers: &HeaderMap, current: &Current<'_>, now: u64) -> Outcome {
    match evaluate(method, headers, current, now) {
        Verdict::NotModified => return Outcome::NotModified,
        Verdict::Failed => return Outcome::Failed,
        Verdict::Proceed => {}
    }
    // Ranges are defined for GET alone.
    if *method != Method::GET || !headers.contains_key(header::RANGE) || !range_counts(headers, current, now)
    {
        return Outcome::Whole;
    }
    match single(headers, &header::RANGE).map(|value| range::judge(value, current.len)) {
        Some(range::Verdict::Whole) => Outcome::Whole,
        Some(range::Verdict::Part(part)) => Outcome::Part(part),
        // Two fields would be one value with two units in it.
        Some(range::Verdict::Unsatisfiable) | None => Outcome::Unsatisfiable,
    }
}

/// Judges the conditions of a request that would be answered with a representation if it had none. `now` is in seconds
/// since 1970.
#[must_use]
pub fn evaluate(method: &Method, headers: &HeaderMap, current: &Current<'_>, now: u64) -> Verdict {
    let reads = *method == Method::GET || *method == Method::HEAD;
    let unchanged = if reads { Verdict::NotModified } else { Verdict::Failed };
    if !if_match(headers, current).unwrap_or_else(|| is_unmodified(headers, current, now)) {
        return Verdict::Failed;
    }
    match if_none_match(headers, current) {
        Some(true) => Verdict::Proceed,
        Some(false) => unchanged,
        None if reads && !is_modified(headers, current, now) => Verdict::NotModified,
        None => Verdict::Proceed,
    }
}

/// Whether a `Range` in the request counts, as far as `If-Range` has a say. `now` is in seconds since 1970.
#[must_use]
pub fn range_counts(headers: &HeaderMap, current: &Current<'_>, now: u64) -> bool {
    if !headers.contains_key(header::IF_RANGE) {
        return true;
    }
    let Some(value) = single(headers, &header::IF_RANGE) else { return false };
    match (ETag::parse(value), current.etag) {
        (Some(tag), Some(ours)) => tag.strong_eq(&ours),
        (Some(_), None) => false,
        (None, _) => {
            let same = date::parse(value, now).is_some_and(|date| current.last_modified == Some(date));
            current.dates_are_strong && same
        }
    }
}

/// Whether `If-Match` holds, if it is there.
fn if_match(headers: &HeaderMap, current: &Current<'_>) -> Option<bool> {
    let listed = listed(headers, &header::IF_MATCH, current, |one, other| one.strong_eq(other))?;
    Some(matches!(listed, Listed::Any | Listed::Found))
}

/// Whether `If-None-Match` holds, if it is there. One that cannot be read is as one that names nothing the client has.
fn if_none_match(headers: &HeaderMap, current: &Current<'_>) -> Option<bool> {
    let listed = listed(headers, &header::IF_NONE_MATCH, current, |one, other| one.weak_eq(other))?;
    Some(matches!(listed, Listed::NotFound | Listed::Malformed))
}

fn listed(
    headers: &HeaderMap,
    name: &HeaderName,
    current: &Current<'_>,
    same: fn(&ETag<'_>, &ETag<'_>) -> bool,
) -> Option<Listed> {
    if !headers.contains_key(name) {
        return None;
    }
    let values = headers.get_all(name).iter().map(http::HeaderValue::as_bytes);
    Some(look_up(values, |tag| current.etag.is_some_and(|ours| same(tag, &ours))))
}

/// Whether `If-Unmodified-Since` holds or does not count.
fn is_unmodified(headers: &HeaderMap, current: &Current<'_>, now: u64) -> bool {
    dates(headers, &header::IF_UNMODIFIED_SINCE, current, now).is_none_or(|(modified, date)| modified <= date)
}

/// Whether `If-Modified-Since` holds or does not count.
fn is_modified(headers: &HeaderMap, current: &Current<'_>, now: u64) -> bool {
    dates(headers, &header::IF_MODIFIED_SINCE, current, now).is_none_or(|(modified, date)| modified > date)
}

/// Our date and the client's, if there are both.
fn dates(headers: &HeaderMap, name: &HeaderName, current: &Current<'_>, now: u64) -> Option<(u64, u64)> {
    Some((current.last_modified?, date::parse(single(headers, name)?, now)?))
}

/// The value of a field that may be there once.
fn single<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h [u8]> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.as_bytes();
    values.next().is_none().then_some(value)
}
