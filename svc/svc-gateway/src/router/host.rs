//! Which host a request is for, and whether a pattern covers it.

use std::str::FromStr;

use http::{HeaderMap, Uri, header::HOST};
pub(crate) use httprules::host::is_sound;

use super::pattern::Pattern;

/// The longest name of a host, in bytes.
const MAX_HOST: usize = 255;

/// The host a request is for, without port and final dot; `None` if it does not say.
pub(crate) fn of<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    let host = match uri.host() {
        Some(host) => host,
        None => without_port(headers.get(HOST)?.to_str().ok()?),
    };
    Some(host.strip_suffix('.').unwrap_or(host))
}

/// A host name with its port, if any, cut off; an IPv6 address keeps its brackets.
pub(crate) fn without_port(host: &str) -> &str {
    let after_address = host.rfind(']').map_or(0, |bracket| bracket + 1);
    host[after_address..].find(':').map_or(host, |colon| &host[..after_address + colon])
}

/// Hosts that a route is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HostPattern {
    /// Exactly this host.
    Exact(Box<str>),
    /// Those of one label before this, which begins with a dot.
    Wildcard(Box<str>),
    /// Those that match, in any case.
    Matching(Pattern),
}

impl HostPattern {
    /// Whether it covers a host, in any case.
    pub(crate) fn covers(&self, host: &str) -> bool {
        match self {
            Self::Exact(name) => name.eq_ignore_ascii_case(host),
            // No name of a host is longer, and short texts are always compared.
            Self::Matching(pattern) => {
                host.len() <= MAX_HOST && pattern.is_match(host.as_bytes()) == Ok(true)
            }
            Self::Wildcard(suffix) => {
                host.find('.').is_some_and(|dot| dot > 0 && host[dot..].eq_ignore_ascii_case(suffix))
            }
        }
    }
}

impl FromStr for HostPattern {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.to_ascii_lowercase();
        let name = text.strip_prefix("*.").unwrap_or(&text);
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let address =
            bare != name && bare.bytes().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.'));
        if bare.is_empty() || !(address || name.bytes().all(is_name)) {
            return Err("must be a host name without a port, or `*.` and a host name");
        }
        Ok(match text.strip_prefix('*') {
            Some(suffix) => Self::Wildcard(suffix.into()),
            None => Self::Exact(text.into()),
        })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_taken_from_the_target_or_the_field_without_its_port() {
        for (uri, field, expected) in [
            ("/", "a.example:8080", "a.example"),
            ("/", "a.example.", "a.example"),
            ("/", "[::1]:80", "[::1]"),
            ("/", "[::1]", "[::1]"),
            ("http://b.example:81/", "a.example", "b.example"),
        ] {
            let headers = HeaderMap::from_iter([(HOST, field.parse().unwrap())]);
            let uri: Uri = uri.parse().unwrap();
            assert_eq!(of(&uri, &headers), Some(expected), "{uri} {field}");
        }
        assert_eq!(of(&Uri::from_static("/"), &HeaderMap::new()), None);
    }

    #[test]
    fn a_wildcard_covers_exactly_one_label() {
        for (pattern, host, expected) in [
            ("a.example", "A.Example", true),
            ("a.example", "b.example", false),
            ("*.example", "a.EXAMPLE", true),
            ("*.example", "a.b.example", false),
            ("*.example", "example", false),
            ("*.example", ".example", false),
            ("[::1]", "[::1]", true),
        ] {
            assert_eq!(pattern.parse::<HostPattern>().unwrap().covers(host), expected, "{pattern} {host}");
        }
        for bad in ["", "*", "*.", "a b", "a:80", "a/b", "*a.example", "a.*.example", "[x]", "::1"] {
            assert!(bad.parse::<HostPattern>().is_err(), "{bad}");
        }
    }
}
