//! The reading of requests as fuzz targets and property tests reach it: anything goes in, and what comes out is checked.

use captoken::{KeyRing, RevocationList};
use http::request::Parts;
use rewards::{Dispute, SignedCorrection, SignedOrder, SignedPayees, SignedPolicy, SnapshotSeal};
use ron_transport::{ConnInfo, stream::Peer};

use crate::{
    Authority, files,
    http::{Route, admit, compute_body, page},
};

/// A request of the lines of a text: a method, a target, then fields as `name: value`, until an empty line; what follows
/// is its body. Lines that are none are left out.
#[must_use]
pub fn request_of(text: &[u8]) -> Option<(Parts, &[u8])> {
    let end = text.windows(2).position(|two| two == b"\n\n");
    let (head, body) = end.map_or((text, &[][..]), |end| (&text[..end], &text[end + 2..]));
    let mut lines = str::from_utf8(head).ok()?.lines();
    let (mut parts, ()) = http::Request::new(()).into_parts();
    parts.method = lines.next()?.parse().ok()?;
    parts.uri = lines.next()?.parse().ok()?;
    for (name, value) in lines.take(100).filter_map(|line| line.split_once(':')) {
        if let (Ok(name), Ok(value)) = (name.parse::<http::HeaderName>(), value.trim().parse()) {
            parts.headers.append(name, value);
        }
    }
    Some((parts, body))
}

/// Reads a request as the rewarder does, up to where it would ask its store, and checks what it makes of it.
///
/// # Panics
/// If that breaks a rule.
pub fn check_request(request: &Parts, body: &[u8]) {
    let nobody = KeyRing::new(Vec::new()).expect("no keys are no bad keys");
    let authority = Authority { ring: nobody, revoked: RevocationList::default() };
    let conn = ConnInfo::new(Peer::tcp(([127, 0, 0, 1], 5000).into()), 0);
    let _ = admit(&authority, &conn, request, "rewarder.run", 1);
    if let Some(route) = Route::find(request.uri.path()) {
        check_route(&route);
        assert!(route.methods().split(", ").count() >= 1 && Route::NAMES.contains(&route.name()));
    }
    if let Ok(page) = page(request.uri.query().unwrap_or_default()) {
        assert!((1..=100).contains(&page.limit) && page.before < 1 << 53, "{page:?}");
    }
    let _ = compute_body(request, body);
    check_documents(body);
}

/// Numbers are those that JSON carries, and names of files lead nowhere else.
fn check_route(route: &Route) {
    match route {
        Route::Epoch(epoch)
        | Route::Compute(epoch)
        | Route::Reconcile(epoch)
        | Route::Order(epoch)
        | Route::Disputes(epoch)
        | Route::Lines(epoch, _)
        | Route::Proof(epoch, _) => {
            assert!(*epoch < 1 << 53, "{epoch}");
            assert_eq!(Route::find(&format!("/rewarder/epochs/{epoch}")), Some(Route::Epoch(*epoch)));
        }
        Route::File(epoch, name) => {
            assert!(*epoch < 1 << 53 && files::can_be(name), "{name}");
            let parts: Vec<&str> = name.split('/').collect();
            assert!(
                parts.len() <= 2 && parts.iter().all(|part| !part.is_empty() && !part.starts_with('.')),
                "{name}"
            );
        }
        Route::OpenApi
        | Route::Epochs
        | Route::Corrections
        | Route::Payees
        | Route::Actor(_)
        | Route::Policy(_) => {}
    }
}

/// A document that is read is written as the bytes that it was read from: it has one hash.
fn check_documents(body: &[u8]) {
    if let Ok(policy) = SignedPolicy::read(body) {
        assert_eq!(policy.to_bytes(), body, "another text of the same policy");
    }
    if let Ok(correction) = SignedCorrection::read(body) {
        assert_eq!(correction.to_bytes(), body, "another text of the same correction");
    }
    if let Ok(payees) = SignedPayees::read(body) {
        assert_eq!(payees.to_bytes(), body, "another text of the same registry");
    }
    if let Ok(order) = SignedOrder::read(body) {
        assert_eq!(order.to_bytes(), body, "another text of the same order");
    }
    if let Ok(dispute) = Dispute::read(body) {
        assert_eq!(dispute.to_bytes(), body, "another text of the same objection");
    }
    if let Ok(seal) = SnapshotSeal::read(body) {
        assert_eq!(seal.to_bytes(), body, "another text of the same seal");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn no_request_leads_where_it_must_not(
            method in "GET|HEAD|POST|PUT|DELETE",
            path in "/rewarder/(epochs|policy|openapi\\.json)(/([0-9]{1,20}|\\.\\.|%2e|[a-z.%/]{1,8}))?(/(compute|proof|files)(/[a-z./%2]{0,12})?)?",
            query in "(\\?(limit|before)=-?[0-9]{0,20})?",
            fields in "(content-type: application/json\n|origin: http://[a-z]{1,3}\n|host: [a-z:0-9]{1,9}\n){0,3}",
            body in "(\\{\"inputs\":\"b3k:[0-9a-f]{0,4}\"\\}|[ -~]{0,20})",
        ) {
            let text = format!("{method}\n{path}{query}\n{fields}\n{body}");
            if let Some((request, body)) = request_of(text.as_bytes()) {
                check_request(&request, body);
            }
        }
    }
}
