//! `Content-Length` of a response, read the same on both protocols (RFC 9110, 8.6).

use http::{HeaderMap, HeaderValue, header::CONTENT_LENGTH};

/// A length that is none, or several that differ.
#[derive(Debug, thiserror::Error)]
#[error("the server's answer does not say clearly how long its body is")]
pub(super) struct UnclearLength;

/// A length that agrees with what was said before. A list of equal ones is one.
pub(super) fn read(before: Option<u64>, value: &HeaderValue) -> Result<u64, UnclearLength> {
    let mut length = before;
    for number in value.as_bytes().split(|&b| b == b',') {
        let number = number.trim_ascii();
        let digits = !number.is_empty() && number.iter().all(u8::is_ascii_digit);
        let number = std::str::from_utf8(number).ok().filter(|_| digits).and_then(|n| n.parse().ok());
        let number = number.ok_or(UnclearLength)?;
        if length.is_some_and(|length| length != number) {
            return Err(UnclearLength);
        }
        length = Some(number);
    }
    length.ok_or(UnclearLength)
}

/// The length that a head tells, in however many fields; `None` if there is none.
pub(super) fn read_all(headers: &HeaderMap) -> Result<Option<u64>, UnclearLength> {
    let mut values = headers.get_all(CONTENT_LENGTH).iter();
    values.try_fold(None, |before, value| read(before, value).map(Some))
}

/// Makes several equal lengths one, as fields and as a list.
pub(super) fn make_one(headers: &mut HeaderMap, length: u64) {
    let mut values = headers.get_all(CONTENT_LENGTH).iter();
    let is_one =
        values.next().is_some_and(|value| !value.as_bytes().contains(&b',')) && values.next().is_none();
    if !is_one {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
}
