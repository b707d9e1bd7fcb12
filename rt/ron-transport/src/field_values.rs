//! Values of fields that HTTP/2 carries though it must not: blanks around them, which HTTP/1.1 would cut off.

use http::{HeaderMap, HeaderValue};

/// Whether a value begins or ends with a blank, which makes a message malformed (RFC 9113, 8.2.1).
pub(crate) fn have_blanks(fields: &HeaderMap) -> bool {
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    let has_blanks =
        |value: &HeaderValue| is_blank(value.as_bytes().first()) || is_blank(value.as_bytes().last());
    fields.values().any(has_blanks)
}
