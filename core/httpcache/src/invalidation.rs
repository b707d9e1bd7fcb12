//! What a successful write invalidates (RFC 9111, 4.4): its own target, and what its answer names on the same origin.

use http::{HeaderMap, Method, StatusCode, Uri, header};

/// Whether an answer to a request with this method invalidates what is stored of its target.
#[must_use]
pub fn invalidates(method: &Method, status: StatusCode) -> bool {
    !method.is_safe() && (status.is_success() || status.is_redirection())
}

/// The path and query of each further target that an answer names by `Location` and `Content-Location`, if it is on the
/// same origin. `base` is the request's own path.
#[must_use]
pub fn named_targets(headers: &HeaderMap, scheme: &str, host: &str, base: &str) -> Vec<String> {
    let named = [header::LOCATION, header::CONTENT_LOCATION];
    let values = named.iter().filter_map(|name| headers.get(name)?.to_str().ok());
    values.filter_map(|value| on_origin(value, scheme, host, base)).collect()
}

fn on_origin(reference: &str, scheme: &str, host: &str, base: &str) -> Option<String> {
    let reference = reference.split('#').next().unwrap_or_default();
    if reference.starts_with("//") {
        return on_origin(&format!("{scheme}:{reference}"), scheme, host, base);
    }
    if reference.starts_with('/') {
        return Some(reference.to_owned());
    }
    if reference.contains("://") {
        let uri: Uri = reference.parse().ok()?;
        let same = uri.scheme_str().is_some_and(|named| named.eq_ignore_ascii_case(scheme))
            && uri.authority().is_some_and(|named| named.as_str().eq_ignore_ascii_case(host));
        return same.then(|| uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string));
    }
    if reference.is_empty() || reference.contains(':') || reference.contains("..") {
        return None;
    }
    let folder = base.rsplit_once('/').map_or("", |(folder, _)| folder);
    Some(format!("{folder}/{reference}"))
}
