//! What a proxy changes in a message on its way: hop-by-hop fields end here, the client's address is passed on.

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, Version,
    header::{CONNECTION, CONTENT_LENGTH, COOKIE, FORWARDED, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE},
    uri::PathAndQuery,
};
use http_body::Body as _;
use ron_transport::{ConnInfo, Request, Response};
use types::{Reason, Refusal};

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

/// Makes a client's request fit for an upstream: origin form, HTTP/1.1, one `Host`, no hop-by-hop fields, and what this
/// node knows of the client instead of what the client says of itself.
///
/// # Errors
/// `malformed` for what cannot be passed on: a tunnel, or a request that does not say which host it is for.
pub(crate) fn request(conn: &ConnInfo, request: &mut Request) -> Result<(), Refusal> {
    if request.method() == Method::CONNECT {
        return Err(Refusal::new(
            Reason::Malformed,
            "CONNECT asks for a tunnel, and this is no forward proxy",
        ));
    }
    strip_hop_by_hop(request.headers_mut());
    to_origin_form(request);
    one_host(request)?;
    *request.version_mut() = Version::HTTP_11;
    frame_body(request);
    let headers = request.headers_mut();
    join_cookies(headers);
    for name in &CLAIMS {
        headers.remove(name);
    }
    match conn.client_header() {
        Some(address) => headers.insert(FORWARDED_FOR, address),
        None => headers.remove(FORWARDED_FOR),
    };
    let proto = if conn.tls.is_some() { "https" } else { "http" };
    headers.insert(FORWARDED_PROTO, HeaderValue::from_static(proto));
    Ok(())
}

/// Makes an upstream's response fit for the client.
///
/// # Errors
/// `bad_gateway` if the upstream changes the protocol, which nobody asked it to: the wish ends here with `Upgrade`.
pub(crate) fn response(response: &mut Response) -> Result<(), Refusal> {
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Err(Refusal::new(Reason::BadGateway, "the upstream switched protocols unasked"));
    }
    let headers = response.headers_mut();
    // Of two framings the chunked one counts, and its length is not the one that was sent.
    if headers.contains_key(TRANSFER_ENCODING) {
        headers.remove(CONTENT_LENGTH);
    }
    strip_hop_by_hop(headers);
    // The version is this connection's business, not the upstream's.
    *response.version_mut() = Version::HTTP_11;
    Ok(())
}

/// Moves the authority of an absolute URI, as HTTP/2 and proxies send it, into `Host`, without credentials.
fn to_origin_form(request: &mut Request) {
    let Some(authority) = request.uri().authority() else {
        return;
    };
    let bare = authority.as_str().rsplit('@').next().unwrap_or_default();
    let host = HeaderValue::from_str(bare).ok();
    let path = request.uri().path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    *request.uri_mut() = Uri::from(path);
    if let Some(host) = host {
        request.headers_mut().insert(HOST, host);
    }
}

/// HTTP/1.1 needs exactly one `Host`: two servers must not read two different ones out of one request.
fn one_host(request: &mut Request) -> Result<(), Refusal> {
    match request.headers().get_all(HOST).iter().count() {
        1 => Ok(()),
        0 if request.version() == Version::HTTP_10 => {
            request.headers_mut().insert(HOST, HeaderValue::from_static(""));
            Ok(())
        }
        _ => Err(Refusal::new(Reason::Malformed, "a request needs exactly one Host")),
    }
}

/// Says that a body of unknown length is chunked; without that word, the library sends none with a GET.
fn frame_body(request: &mut Request) {
    if !request.body().is_end_stream() && !request.headers().contains_key(CONTENT_LENGTH) {
        request.headers_mut().insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
}

/// HTTP/2 may split cookies over several fields; HTTP/1.1 knows only one.
fn join_cookies(headers: &mut HeaderMap) {
    if headers.get_all(COOKIE).iter().nth(1).is_none() {
        return;
    }
    let crumbs: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if let Ok(whole) = HeaderValue::from_bytes(&crumbs.join(b"; ".as_slice())) {
        headers.insert(COOKIE, whole);
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
            .header("host", "test")
            .header("connection", "close, X-Secret-Hop")
            .header("x-secret-hop", "1")
            .header("keep-alive", "5")
            .header("te", "trailers")
            .header("accept", "*/*")
            .body(Body::empty())
            .unwrap();
        request(&conn(), &mut message).unwrap();
        let mut left: Vec<_> = message.headers().keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["accept", "host", "x-forwarded-for", "x-forwarded-proto"]);
    }

    #[test]
    fn a_client_cannot_forge_where_it_comes_from() {
        let mut message = http::Request::builder()
            .uri("/x")
            .header("host", "test")
            .header("x-forwarded-for", "10.0.0.1")
            .header("x-forwarded-proto", "https")
            .header("x-forwarded-host", "elsewhere")
            .header("x-real-ip", "10.0.0.1")
            .header("forwarded", "for=10.0.0.1")
            .header("forwarded", "for=10.0.0.2;proto=https")
            .body(Body::empty())
            .unwrap();
        request(&conn(), &mut message).unwrap();
        assert_eq!(message.headers()["x-forwarded-for"], "192.0.2.7");
        assert_eq!(message.headers()["x-forwarded-proto"], "http");
        assert_eq!(message.headers().len(), 3, "{:?}", message.headers());
    }

    #[test]
    fn an_absolute_uri_becomes_a_path_and_a_host() {
        let mut message = http::Request::builder()
            .uri("https://api.example/v1?q=1")
            .version(Version::HTTP_2)
            .body(Body::empty())
            .unwrap();
        request(&conn(), &mut message).unwrap();
        assert_eq!(message.uri(), "/v1?q=1");
        assert_eq!(message.headers()["host"], "api.example");
        assert_eq!(message.version(), Version::HTTP_11);
    }

    fn of(builder: http::request::Builder) -> Request {
        builder.body(Body::empty()).unwrap()
    }

    fn refused(mut message: Request) -> Reason {
        request(&conn(), &mut message).unwrap_err().reason
    }

    #[test]
    fn what_is_not_for_one_host_or_asks_for_a_tunnel_is_refused() {
        let get = || http::Request::builder().uri("/");
        assert_eq!(refused(of(get())), Reason::Malformed);
        assert_eq!(refused(of(get().header("host", "a").header("host", "b"))), Reason::Malformed);
        assert_eq!(refused(of(get().method("CONNECT").header("host", "a"))), Reason::Malformed);
        assert!(request(&conn(), &mut of(get().version(Version::HTTP_10))).is_ok());
    }

    #[test]
    fn credentials_in_the_authority_do_not_become_the_host() {
        let mut message =
            of(http::Request::builder().uri("http://me:secret@api.example/").header("connection", "host"));
        request(&conn(), &mut message).unwrap();
        assert_eq!(message.headers()["host"], "api.example");
    }

    #[test]
    fn cookies_split_over_fields_are_joined() {
        let mut message = of(http::Request::builder()
            .uri("/")
            .header("host", "a")
            .header("cookie", "a=1")
            .header("cookie", "b=2"));
        request(&conn(), &mut message).unwrap();
        let cookies: Vec<_> = message.headers().get_all("cookie").iter().collect();
        assert_eq!(cookies, ["a=1; b=2"]);
    }

    #[test]
    fn an_upstream_cannot_switch_protocols_or_state_two_lengths() {
        let mut switching = http::Response::builder().status(101).body(Body::empty()).unwrap();
        assert_eq!(response(&mut switching).unwrap_err().reason, Reason::BadGateway);
        let mut twice = http::Response::builder()
            .header("transfer-encoding", "chunked")
            .header("content-length", "5")
            .body(Body::empty())
            .unwrap();
        response(&mut twice).unwrap();
        assert!(twice.headers().is_empty(), "{:?}", twice.headers());
    }
}
