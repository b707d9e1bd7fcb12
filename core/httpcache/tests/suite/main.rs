//! The cache's decisions, as tables of what is said and what follows.
#![expect(clippy::unwrap_used, reason = "tests")]

mod answers;
mod controls;
mod partials;
mod records;
mod storage;
mod updates;
mod variants;

use http::{HeaderMap, HeaderName, HeaderValue};

/// The fields of a message, written one to a line.
pub(crate) fn fields(text: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').unwrap();
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.append(name, HeaderValue::from_str(value.trim()).unwrap());
    }
    headers
}
