//! Who may ask for what: bearers of capabilities, or, where there are no root keys, whoever sits at this machine.

use captoken::TokenError;
use http::{HeaderMap, Uri, header, request::Parts, uri::Authority};
use ron_transport::ConnInfo;
use types::{Reason, Refusal};

use crate::settings;

/// The right to have epochs computed and to put policies.
pub(super) const RUN: &str = "rewarder.run";
/// The right to look.
pub(super) const INSPECT: &str = "rewarder.inspect";

/// Lets a request pass that has the right it needs.
pub(crate) fn admit(
    authority: &settings::Authority,
    conn: &ConnInfo,
    request: &Parts,
    right: &'static str,
    unix: u64,
) -> Result<(), Refusal> {
    if authority.ring.is_empty() {
        return admit_local(conn, &request.uri, &request.headers);
    }
    let asked = captoken::Request {
        path: request.uri.path(),
        method: request.method.as_str(),
        ip: conn.client().map(|addr| addr.ip()),
        now: unix,
        tenant: None,
        scope: Some(right),
        session: None,
    };
    let missing = || {
        Refusal::new(Reason::Unauth, format!("send `Authorization: Bearer` with a capability for {right}"))
    };
    let token = bearer(&request.headers).ok_or_else(missing)?;
    let refused = |error: TokenError| {
        Refusal::new(error.reason(), format!("the capability is refused: {}", error.as_str()))
    };
    captoken::verify(token, &authority.ring, &authority.revoked, &asked).map(drop).map_err(refused)
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

/// Without root keys: a client on this machine that is no web page of somebody else's.
fn admit_local(conn: &ConnInfo, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
    let local = conn.peer.unix || conn.client().is_some_and(|addr| addr.ip().is_loopback());
    if !local {
        let detail = "without root keys this is for the machine itself: set `auth.root_keys`";
        return Err(Refusal::new(Reason::Forbidden, detail));
    }
    let asked = uri.authority().map(|authority| authority.as_str()).or_else(|| text(headers, &header::HOST));
    // A browser says where a page that changes something comes from.
    let from =
        text(headers, &header::ORIGIN).map(|origin| origin.split_once("://").map_or("", |(_, host)| host));
    if [asked, from].into_iter().flatten().all(is_here) {
        return Ok(());
    }
    let detail = "without root keys ask by address or as localhost, so that no web page can ask in your name";
    Err(Refusal::new(Reason::Forbidden, detail))
}

/// A field as text; what is not text is nobody's name.
fn text<'a>(headers: &'a HeaderMap, name: &http::HeaderName) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap_or_default())
}

fn is_here(authority: &str) -> bool {
    authority.parse::<Authority>().is_ok_and(|authority| {
        let host = authority.host();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        bare.parse::<std::net::IpAddr>().is_ok() || host.eq_ignore_ascii_case("localhost")
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use ron_transport::stream::Peer;

    fn reason(peer: &str, fields: &[(&str, &str)]) -> Option<Reason> {
        let conn = ConnInfo::new(Peer::tcp(peer.parse().unwrap()), 0);
        let mut request = http::Request::builder().uri("/rewarder/epochs");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let authority = settings::Authority {
            ring: captoken::KeyRing::new(Vec::new()).unwrap(),
            revoked: captoken::RevocationList::default(),
        };
        admit(&authority, &conn, &parts, RUN, 0).err().map(|refusal| refusal.reason)
    }

    #[test]
    fn without_root_keys_only_this_machine_may_ask() {
        assert_eq!(reason("127.0.0.1:9", &[("host", "127.0.0.1:8082")]), None);
        assert_eq!(reason("[::1]:9", &[("host", "localhost:8082")]), None);
        assert_eq!(reason("10.0.0.1:9", &[("host", "127.0.0.1:8082")]), Some(Reason::Forbidden));
    }

    #[test]
    fn without_root_keys_no_web_page_may_ask() {
        for host in ["evil.example", "localhost.evil.example", ""] {
            assert_eq!(reason("127.0.0.1:9", &[("host", host)]), Some(Reason::Forbidden), "{host}");
        }
        let with = |origin| reason("127.0.0.1:9", &[("host", "localhost"), ("origin", origin)]);
        assert_eq!((with("http://localhost:3000"), with("http://127.0.0.1")), (None, None));
        for origin in ["http://evil.example", "null", "é"] {
            assert_eq!(with(origin), Some(Reason::Forbidden), "{origin}");
        }
    }
}
