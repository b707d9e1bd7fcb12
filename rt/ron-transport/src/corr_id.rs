//! Correlation ids: what a client, this node and its servers call one request.

use std::hash::{BuildHasher, RandomState};

use http::{HeaderMap, HeaderName, HeaderValue};

/// The field that has a request's correlation id, in requests and responses.
pub const CORR_ID: HeaderName = HeaderName::from_static("x-corr-id");

/// The longest correlation id that is taken from a client, in bytes.
pub const MAX_LEN: usize = 128;

/// The correlation id that a client gave, if it gave one and that is well-formed: visible characters that need no escaping in
/// logs and documents.
#[must_use]
pub fn given(headers: &HeaderMap) -> Option<&HeaderValue> {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
    let mut values = headers.get_all(CORR_ID).iter();
    let given = values.next().filter(|_| values.next().is_none())?;
    let is_well_formed = (1..=MAX_LEN).contains(&given.len()) && given.as_bytes().iter().all(is_plain);
    is_well_formed.then_some(given)
}

/// What a request is called: as its client calls it, or by an id of its own.
#[must_use]
pub fn of(headers: &HeaderMap) -> HeaderValue {
    let own = || HeaderValue::try_from(fresh()).expect("hexadecimal digits");
    given(headers).cloned().unwrap_or_else(own)
}

/// An id that nothing else has.
pub(crate) fn fresh() -> String {
    // The keys of the standard library's hash maps are the system's random numbers.
    let random = RandomState::new();
    format!("{:016x}{:016x}", random.hash_one(0), random.hash_one(1))
}
