//! Trailers that may be passed on: those that cannot change how a message is framed, routed, authenticated or read.

use http::{HeaderMap, HeaderName};

/// Fields that have no place in trailers (RFC 9110, 6.5.1): framing, routing, authentication, conditions, the format of the
/// content, control of caches, and what belongs to a connection.
const FORBIDDEN: [&str; 46] = [
    "accept-ranges",
    "age",
    "allow",
    "authorization",
    "cache-control",
    "connection",
    "content-encoding",
    "content-length",
    "content-location",
    "content-range",
    "content-type",
    "cookie",
    "date",
    "expect",
    "expires",
    "forwarded",
    "grpc-timeout",
    "host",
    "http2-settings",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "keep-alive",
    "location",
    "max-forwards",
    "pragma",
    "proxy",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "range",
    "retry-after",
    "set-cookie",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "vary",
    "via",
    "warning",
    "www-authenticate",
    "x-real-ip",
];

/// Families of fields by which a gateway tells servers who a client is.
const FORBIDDEN_STARTS: [&str; 4] = ["x-forwarded-", "x-omnigate-", "x-original-", "x-rewrite-"];

/// Leaves only the trailers that may be passed on.
pub(crate) fn clean(trailers: &mut HeaderMap) {
    let dropped: Vec<HeaderName> = trailers.keys().filter(|name| is_forbidden(name)).cloned().collect();
    for name in dropped {
        trailers.remove(name);
    }
}

fn is_forbidden(name: &HeaderName) -> bool {
    // Some servers read `_` as `-`.
    let name = name.as_str().replace('_', "-");
    FORBIDDEN.binary_search(&name.as_str()).is_ok()
        || FORBIDDEN_STARTS.iter().any(|start| name.starts_with(start))
        || matches!(name.as_str(), "x-request-timeout-ms" | "request-timeout" | "deadline")
        || name == "x-corr-id"
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn the_list_is_in_order() {
        assert!(FORBIDDEN.is_sorted());
    }

    #[test]
    fn what_could_change_a_message_is_dropped_and_the_rest_stays() {
        let mut trailers = HeaderMap::new();
        let kept = ["grpc-status", "grpc-message", "server-timing", "x-checksum", "etag", "digest"];
        let dropped = [
            "content-length",
            "transfer-encoding",
            "authorization",
            "x-forwarded-for",
            "x-omnigate-tenant",
            "x_omnigate_tenant",
            "content_length",
            "host",
            "set-cookie",
            "x-corr-id",
        ];
        for name in kept.iter().chain(&dropped) {
            trailers.append(HeaderName::from_static(name), HeaderValue::from_static("1"));
            trailers.append(HeaderName::from_static(name), HeaderValue::from_static("2"));
        }
        clean(&mut trailers);
        let mut names: Vec<_> = trailers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        let mut kept = kept.to_vec();
        kept.sort_unstable();
        assert_eq!(names, kept);
        assert_eq!(trailers.get_all("etag").iter().count(), 2);
    }
}
