//! The message rules as fuzz targets and property tests reach them: any head goes in, and what comes out is checked.

use http::{HeaderMap, HeaderValue, Request as Head};
use ron_transport::{Body, ConnInfo, Request, proxy_protocol::TrustedSources, stream::Peer};

use crate::{
    client_addr::Client,
    message::{self, GuardedFields, HeaderRules, Onward, Survey},
    router::{Rewrite, path},
    trace::Tracer,
};

/// Fields that no upstream sees.
const GONE: [&str; 10] = [
    "x-omnigate-tenant",
    "keep-alive",
    "proxy-connection",
    "http2-settings",
    "expect",
    "forwarded",
    "x-real-ip",
    "x-original-url",
    "x-rewrite-url",
    "proxy",
];

/// Passes a request through the message rules and checks what an upstream would see of it.
///
/// # Panics
/// If that breaks a rule.
pub fn check_header_rules(mut request: Request, trusts_peer: bool) {
    let mut survey = Survey::of(&request);
    if survey.check(&request).is_err() {
        return;
    }
    let sources = if trusts_peer { vec!["0.0.0.0/0".parse().expect("a network")] } else { Vec::new() };
    let conn = ConnInfo::new(Peer::tcp(([192, 0, 2, 7], 5000).into()), 0);
    let client = Client::of(&conn, request.headers(), &survey, &TrustedSources::new(sources));
    let trace = Tracer::default().trace(request.headers(), &survey);
    let allowed = [HeaderValue::from_static("websocket")];
    let upgrade = message::upgrade_wanted(&request, &survey, &allowed);
    let rules = HeaderRules::default();
    let way = Onward {
        survey: &survey,
        client: &client,
        trace: &trace,
        rules: &rules,
        guarded: &GuardedFields::default(),
        tenant: None,
        upgrade,
    };
    let path_was_clear = path::check(request.uri().path()).is_ok();
    message::onward(&mut request, &way);
    if Rewrite::new("/a", "/b").apply(request.uri_mut()).is_err() {
        return;
    }
    assert_one_of_each(request.headers());
    assert_hop_by_hop(request.headers(), upgrade.is_some());
    assert!(request.uri().authority().is_none(), "origin form: {}", request.uri());
    let target = request.uri().path_and_query().map_or("", |path| path.as_str());
    assert!(target.starts_with('/') || target == "*", "{target}");
    if !trusts_peer {
        let claims = ["x-forwarded-user", "x-http-method"];
        assert!(claims.iter().all(|name| !request.headers().contains_key(*name)), "{:?}", request.headers());
    }
    assert!(!path_was_clear || path::check(request.uri().path()).is_ok(), "rewritten to {}", request.uri());
}

fn assert_one_of_each(headers: &HeaderMap) {
    for name in ["host", "x-forwarded-for", "x-forwarded-proto", "x-corr-id", "traceparent"] {
        assert_eq!(headers.get_all(name).iter().count(), 1, "{name} in {headers:?}");
    }
    for name in ["content-length", "transfer-encoding", "te", "cookie", "upgrade"] {
        assert!(headers.get_all(name).iter().count() <= 1, "{name} in {headers:?}");
    }
    let framings = [headers.contains_key("content-length"), headers.contains_key("transfer-encoding")];
    assert_ne!(framings, [true, true], "{headers:?}");
}

fn assert_hop_by_hop(headers: &HeaderMap, upgrades: bool) {
    for name in headers.keys() {
        let dashed = name.as_str().replace(['_', '.'], "-");
        assert!(!GONE.contains(&dashed.as_str()), "{name} in {headers:?}");
    }
    let is = |name: &str, value: &str| headers.get(name).is_none_or(|found| found == value);
    assert!(is("te", "trailers") && is("transfer-encoding", "chunked"), "{headers:?}");
    assert_eq!(headers.contains_key("upgrade"), upgrades, "{headers:?}");
    assert_eq!(headers.contains_key("connection"), upgrades, "{headers:?}");
    assert!(is("upgrade", "websocket") && is("connection", "upgrade"), "{headers:?}");
}

/// A request of the lines of a text: a method, a target, then fields as `name: value`. Lines that are none are left out.
#[must_use]
pub fn request_of(text: &str) -> Option<Request> {
    let mut lines = text.lines();
    let mut request = Head::new(Body::empty());
    *request.method_mut() = lines.next()?.parse().ok()?;
    *request.uri_mut() = lines.next()?.parse().ok()?;
    for (name, value) in lines.take(100).filter_map(|line| line.split_once(':')) {
        if let (Ok(name), Ok(value)) = (name.parse::<http::HeaderName>(), value.trim().parse()) {
            request.headers_mut().append(name, value);
        }
    }
    if text.ends_with('.') {
        *request.body_mut() = Body::from("body");
    }
    Some(request)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NAMES: &str = "connection|keep-alive|te|transfer[-_]encoding|upgrade|expect|host|content-length|cookie|\
                         forwarded|x[-_]forwarded[-_]for|x-forwarded-proto|x-real-ip|proxy|x-corr-id|traceparent|\
                         tracestate|x[-_.]omnigate[-_]tenant|x[-_]forwarded[-_]user|x-http-method|authorization|x-[ab]";
    const VALUES: &str = "a|close|keep-alive, x-a|upgrade|websocket|h2c|chunked|gzip, chunked|trailers|100-continue|5|\
                          for=1.1.1.1|1.1.1.1, 10.0.0.1|host|content-length|[ -~]{0,12}";

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn no_head_leaves_what_must_not_go_on(
            method in "GET|POST|OPTIONS",
            target in "/|/a|/a/b\\?c|http://a/a|/a%2f%2f[a-z.%2;/]{0,6}|[!-~]{1,12}",
            fields in proptest::collection::vec((NAMES, VALUES), 0..12),
            with_host in any::<bool>(),
            ending in "|\\.",
            trusts_peer in any::<bool>(),
        ) {
            let mut text = format!("{method}\n{target}\n");
            let host = with_host.then(|| ("host".to_owned(), "a".to_owned()));
            for (name, value) in fields.into_iter().filter(|(name, _)| !with_host || name != "host").chain(host) {
                text.push_str(&format!("{name}: {value}\n"));
            }
            text.push_str(&ending);
            if let Some(request) = request_of(&text) {
                check_header_rules(request, trusts_peer);
            }
        }
    }
}
