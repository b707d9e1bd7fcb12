//! What a proxy changes in a message on its way: hop-by-hop fields end here, the client's address is passed on.

use http::{
    HeaderMap, HeaderName, HeaderValue, Uri, Version,
    header::{CONNECTION, FORWARDED, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE},
    uri::PathAndQuery,
};
use ron_transport::{ConnInfo, Request, Response};

/// Fields that concern one connection, beyond those it names in `Connection`.
const HOP_BY_HOP: [HeaderName; 7] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Other ways to say where a request comes from. Servers believe them, and a client could say anything.
const CLAIMS: [HeaderName; 3] =
    [FORWARDED, HeaderName::from_static("x-real-ip"), HeaderName::from_static("x-forwarded-host")];

/// Makes a client's request fit for an upstream: origin form, HTTP/1.1, a `Host`, no hop-by-hop fields, and what this
/// node knows of the client instead of what the client says of itself.
pub(crate) fn request(conn: &ConnInfo, request: &mut Request) {
    to_origin_form(request);
    *request.version_mut() = Version::HTTP_11;
    let headers = request.headers_mut();
    strip_hop_by_hop(headers);
    for name in &CLAIMS {
        headers.remove(name);
    }
    match conn.client_header() {
        Some(address) => headers.insert(FORWARDED_FOR, address),
        None => headers.remove(FORWARDED_FOR),
    };
    let proto = if conn.tls.is_some() { "https" } else { "http" };
    headers.insert(FORWARDED_PROTO, HeaderValue::from_static(proto));
}

/// Makes an upstream's response fit for the client.
pub(crate) fn response(response: &mut Response) {
    strip_hop_by_hop(response.headers_mut());
    // The version is this connection's business, not the upstream's.
    *response.version_mut() = Version::HTTP_11;
}

/// Moves the authority of an absolute URI, as HTTP/2 and proxies send it, into `Host`.
fn to_origin_form(request: &mut Request) {
    let Some(authority) = request.uri().authority() else {
        return;
    };
    let host = HeaderValue::from_str(authority.as_str()).ok();
    let path = request.uri().path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    *request.uri_mut() = Uri::from(path);
    if let Some(host) = host {
        request.headers_mut().insert(HOST, host);
    }
}

fn strip_hop_by_hop(headers: &mut HeaderMap) {
    if headers.contains_key(CONNECTION) {
        let named: Vec<HeaderName> = headers
            .get_all(CONNECTION)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .filter_map(|name| name.trim().parse().ok())
            .collect();
        for name in named {
            headers.remove(name);
        }
    }
    for name in &HOP_BY_HOP {
        headers.remove(name);
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use ron_transport::{Body, stream::Peer};

    fn conn() -> ConnInfo {
        ConnInfo::new(Peer::tcp("192.0.2.7:5000".parse().unwrap()), 0)
    }

    #[test]
    fn hop_by_hop_fields_and_those_named_by_connection_end_here() {
        let mut message = http::Request::builder()
            .uri("/x")
            .header("connection", "close, X-Secret-Hop")
            .header("x-secret-hop", "1")
            .header("keep-alive", "5")
            .header("te", "trailers")
            .header("accept", "*/*")
            .body(Body::empty())
            .unwrap();
        request(&conn(), &mut message);
        let mut left: Vec<_> = message.headers().keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["accept", "x-forwarded-for", "x-forwarded-proto"]);
    }

    #[test]
    fn a_client_cannot_forge_where_it_comes_from() {
        let mut message = http::Request::builder()
            .uri("/x")
            .header("x-forwarded-for", "10.0.0.1")
            .header("x-forwarded-proto", "https")
            .header("x-forwarded-host", "elsewhere")
            .header("x-real-ip", "10.0.0.1")
            .header("forwarded", "for=10.0.0.1")
            .header("forwarded", "for=10.0.0.2;proto=https")
            .body(Body::empty())
            .unwrap();
        request(&conn(), &mut message);
        assert_eq!(message.headers()["x-forwarded-for"], "192.0.2.7");
        assert_eq!(message.headers()["x-forwarded-proto"], "http");
        assert_eq!(message.headers().len(), 2, "{:?}", message.headers());
    }

    #[test]
    fn an_absolute_uri_becomes_a_path_and_a_host() {
        let mut message = http::Request::builder()
            .uri("https://api.example/v1?q=1")
            .version(Version::HTTP_2)
            .body(Body::empty())
            .unwrap();
        request(&conn(), &mut message);
        assert_eq!(message.uri(), "/v1?q=1");
        assert_eq!(message.headers()["host"], "api.example");
        assert_eq!(message.version(), Version::HTTP_11);
    }
}
