//! What a request says beyond its path: which page of a list, which inputs and policy it means.

use http::{header, request::Parts};
use rewards::Digest;
use serde::Deserialize;
use types::{Reason, Refusal};

/// Epochs in one answer, unless the client says how many.
const USUAL_LIMIT: u64 = 20;
/// Epochs in one answer at most.
const MAX_LIMIT: u64 = 100;
/// Numbers from here on cannot be carried by JSON exactly.
const EPOCHS: u64 = 1 << 53;

/// Which of the latest epochs a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) limit: u64,
    pub(crate) before: u64,
}

/// What a client says of the epoch that it means.
#[derive(Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ComputeBody {
    pub(crate) inputs: Option<String>,
    pub(crate) policy: Option<String>,
}

/// Parses the query `limit=…&before=…`.
pub(crate) fn page(query: &str) -> Result<Page, Refusal> {
    let wrong = || Refusal::new(Reason::Malformed, "write `limit` from 1 to 100 and `before` as an epoch");
    let mut page = Page { limit: USUAL_LIMIT, before: EPOCHS - 1 };
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').ok_or_else(wrong)?;
        let value: u64 = value.parse().map_err(|_| wrong())?;
        match name {
            "limit" if (1..=MAX_LIMIT).contains(&value) => page.limit = value,
            "before" if value < EPOCHS => page.before = value,
            _ => return Err(wrong()),
        }
    }
    Ok(page)
}

/// Reads the body of a request to compute an epoch.
pub(crate) fn compute_body(request: &Parts, body: &[u8]) -> Result<ComputeBody, Refusal> {
    if body.is_empty() {
        return Ok(ComputeBody::default());
    }
    if content_type(request) != Some("application/json") {
        return Err(Refusal::new(Reason::Unsupported, "send `Content-Type: application/json`, or no body"));
    }
    let wrong = |what: &dyn std::fmt::Display| Refusal::new(Reason::Malformed, format!("the body: {what}"));
    // The library would take the fields as a list too.
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(wrong(&"it is no JSON object"));
    }
    let read: ComputeBody = serde_json::from_slice(body).map_err(|error| wrong(&error))?;
    for (name, value) in [("inputs", &read.inputs), ("policy", &read.policy)] {
        if value.as_ref().is_some_and(|value| value.parse::<Digest>().is_err()) {
            return Err(wrong(&format!("`{name}` is no hash: write `b3k:` and 64 hexadecimal digits")));
        }
    }
    Ok(read)
}

/// Refuses a body where none is taken.
pub(super) fn no_body(body: &[u8]) -> Result<(), Refusal> {
    if body.is_empty() { Ok(()) } else { Err(Refusal::new(Reason::Malformed, "this takes no body")) }
}

/// Refuses a body that is said to be something else than JSON.
pub(super) fn json_if_said(request: &Parts) -> Result<(), Refusal> {
    match content_type(request) {
        None | Some("application/json") => Ok(()),
        Some(_) => Err(Refusal::new(Reason::Unsupported, "send `Content-Type: application/json`")),
    }
}

/// The kind of a body without its parameters, if the client says it; what is not text is an empty one.
fn content_type(request: &Parts) -> Option<&str> {
    let kind = request.headers.get(header::CONTENT_TYPE)?.to_str().unwrap_or_default();
    kind.split(';').next().map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_its_bounds() {
        let usual = Page { limit: 20, before: EPOCHS - 1 };
        for (query, expected) in [
            ("", Some(usual)),
            ("limit=1", Some(Page { limit: 1, ..usual })),
            ("limit=100&before=0", Some(Page { limit: 100, before: 0 })),
            ("before=9007199254740991", Some(usual)),
            ("limit=0", None),
            ("limit=101", None),
            ("before=9007199254740992", None),
            ("before=-1", None),
            ("before", None),
            ("after=1", None),
        ] {
            assert_eq!(page(query).ok(), expected, "{query}");
        }
    }
}
