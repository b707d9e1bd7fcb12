//! What a successful write invalidates (RFC 9111, 4.4): its own target, and what its answer names on the same origin.

use http::{HeaderMap, Method, StatusCode, Uri, header};

/// Whether an answer to a request with this method invalidates what is stored of its target.
#[must_use]
pub fn invalidates(method: &Method, status: StatusCode) -> bool {
    !method.is_safe() && (status.is_success() || status.is_redirection())
}

/// The path and query of each further target that an answer names by `Location` and `Content-Location`, if it is on the
/// same origin. `base` is the request's own path. A path that is written with dot segments is named as it is written, too.
#[must_use]
pub fn named_targets(headers: &HeaderMap, scheme: &str, host: &str, base: &str) -> Vec<String> {
    let named = [header::LOCATION, header::CONTENT_LOCATION];
    let values = named.iter().filter_map(|name| headers.get(name)?.to_str().ok());
    let mut targets = Vec::new();
    for value in values {
        // A reference to a part of the target itself names nothing further.
        let reference = value.split('#').next().unwrap_or_default();
        match local(reference, scheme, host) {
            Some(Local::Absolute(target)) => {
                let resolved = without_dots(&target);
                if resolved != target {
                    targets.push(target);
                }
                targets.push(resolved);
            }
            Some(Local::Relative(reference)) => targets.push(merged(base, reference)),
            None => {}
        }
    }
    targets
}

/// A reference to something on the same origin.
enum Local<'r> {
    /// A whole path and query.
    Absolute(String),
    /// One that is relative to the path of the request.
    Relative(&'r str),
}

fn local<'r>(reference: &'r str, scheme: &str, host: &str) -> Option<Local<'r>> {
    if reference.starts_with("//") {
        return absolute(&format!("{scheme}:{reference}"), scheme, host);
    }
    if reference.starts_with('/') {
        return Some(Local::Absolute(reference.to_owned()));
    }
    let first_segment = reference.split(['/', '?']).next().unwrap_or_default();
    match first_segment.contains(':') {
        true => absolute(reference, scheme, host),
        false => (!reference.is_empty()).then_some(Local::Relative(reference)),
    }
}

fn absolute<'r>(reference: &str, scheme: &str, host: &str) -> Option<Local<'r>> {
    let uri: Uri = reference.parse().ok()?;
    let is_same = uri.scheme_str().is_some_and(|named| named.eq_ignore_ascii_case(scheme))
        && uri.authority().is_some_and(|named| is_same_host(named.as_str(), host, scheme));
    let target = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    is_same.then(|| Local::Absolute(target.to_owned()))
}

/// Whether two authorities name the same host and port, which may be left out if it is the usual one.
fn is_same_host(one: &str, other: &str, scheme: &str) -> bool {
    let usual = if scheme.eq_ignore_ascii_case("https") { ":443" } else { ":80" };
    let bare = |host| {
        let host: &str = host;
        host.strip_suffix(usual).or_else(|| host.strip_suffix(':')).unwrap_or(host).to_ascii_lowercase()
    };
    bare(one) == bare(other)
}

/// What a relative reference means beside the path of the request (RFC 3986, 5.2).
fn merged(base: &str, reference: &str) -> String {
    if reference.starts_with('?') {
        return format!("{base}{reference}");
    }
    let folder = base.rsplit_once('/').map_or("", |(folder, _)| folder);
    without_dots(&format!("{folder}/{reference}"))
}

/// A path and query without dot segments in the path (RFC 3986, 5.2.4).
fn without_dots(target: &str) -> String {
    let path_end = target.find('?').unwrap_or(target.len());
    let (path, query) = target.split_at(path_end);
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    kept.pop();
                }
                if is_last {
                    kept.push("");
                }
            }
            segment => kept.push(segment),
        }
    }
    format!("/{}{query}", kept.join("/"))
}
