//! What goes on, what ends here, and what is refused.

#![expect(clippy::unwrap_used, reason = "tests")]

use http::{HeaderName, HeaderValue, Version};
use ron_transport::{Body, ConnInfo, Request, proxy_protocol::TrustedSources, stream::Peer};
use types::{Reason, Refusal};

use super::{GuardedFields, HeaderRules, Onward, Survey, back, onward, upgrade_wanted};
use crate::{client_addr::Client, trace::Tracer};

/// What the upstream sees of a request.
fn passed(request: Request) -> Result<Request, Refusal> {
    passed_with(request, &HeaderRules::default(), &[])
}

fn passed_with(
    mut request: Request,
    rules: &HeaderRules,
    upgrades: &[HeaderValue],
) -> Result<Request, Refusal> {
    let conn = ConnInfo::new(Peer::tcp("192.0.2.7:5000".parse().unwrap()), 0);
    let mut survey = Survey::of(&request);
    survey.check(&request)?;
    let client = Client::of(&conn, request.headers(), &survey, &TrustedSources::default());
    let trace = Tracer::default().trace(request.headers(), &survey);
    let upgrade = upgrade_wanted(&request, &survey, upgrades);
    let (survey, client, trace) = (&survey, &client, &trace);
    let (guarded, tenant) = (&GuardedFields::new(rules.guarded(), Box::default()), None);
    onward(&mut request, &Onward { survey, client, trace, rules, guarded, tenant, upgrade });
    Ok(request)
}

fn asked(fields: &[(&str, &str)]) -> Request {
    let builder = http::Request::builder().uri("/x");
    let builder = fields.iter().fold(builder, |builder, (name, value)| builder.header(*name, *value));
    builder.body(Body::empty()).unwrap()
}

/// The fields that the upstream sees, beyond those that the gateway adds to every request.
fn left(request: &Request) -> Vec<(&str, &str)> {
    let added = ["x-forwarded-for", "x-forwarded-proto", "x-corr-id", "traceparent", "host"];
    let fields = request.headers().iter().filter(|(name, _)| !added.contains(&name.as_str()));
    let mut left: Vec<_> = fields.map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
    left.sort_unstable();
    left
}

#[test]
fn hop_by_hop_fields_and_those_named_by_connection_end_here() {
    let request = asked(&[
        ("host", "test"),
        ("connection", "close, X-Secret-Hop"),
        ("connection", "keep-alive,,not a name"),
        ("x-secret-hop", "1"),
        ("keep-alive", "5"),
        ("proxy-connection", "close"),
        ("te", "gzip"),
        ("upgrade", "websocket"),
        ("http2-settings", "AAA"),
        ("expect", "100-Continue"),
        ("accept", "*/*"),
        ("trailer", "grpc-status"),
    ]);
    let request = passed(request).unwrap();
    assert_eq!(left(&request), [("accept", "*/*"), ("trailer", "grpc-status")]);
    assert_eq!(request.headers()["host"], "test");
}

#[test]
fn the_wish_for_trailers_goes_on() {
    for te in ["trailers", "gzip;q=0.5, Trailers"] {
        assert_eq!(left(&passed(asked(&[("host", "a"), ("te", te)])).unwrap()), [("te", "trailers")]);
    }
}

#[test]
fn a_client_cannot_forge_where_it_comes_from_or_which_path_it_wants() {
    let request = passed(asked(&[
        ("host", "test"),
        ("x-forwarded-for", "10.0.0.1"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "elsewhere"),
        ("x-forwarded-port", "1"),
        ("x-real-ip", "10.0.0.1"),
        ("forwarded", "for=10.0.0.1"),
        ("forwarded", "for=10.0.0.2;proto=https"),
        ("x-original-url", "/admin"),
        ("x-rewrite-url", "/admin"),
        ("proxy", "http://evil.example"),
        ("x_forwarded_for", "10.0.0.1"),
        ("x-forwarded_proto", "https"),
        ("transfer_encoding", "chunked"),
        ("my_field", "1"),
    ]))
    .unwrap();
    assert_eq!(left(&request), [("my_field", "1")]);
    assert_eq!(request.headers()["x-forwarded-for"], "192.0.2.7");
    assert_eq!(request.headers()["x-forwarded-proto"], "http");
}

#[test]
fn a_whole_uri_becomes_a_path_and_a_host() {
    for (uri, host, expected) in [
        ("https://api.example/v1?q=1", None, "api.example"),
        ("https://api.example:443/v1?q=1", Some("API.example"), "api.example:443"),
        ("http://api.example:8080/v1?q=1", Some("api.example:8080"), "api.example:8080"),
    ] {
        let mut builder = http::Request::builder().uri(uri).version(Version::HTTP_2);
        if let Some(host) = host {
            builder = builder.header("host", host);
        }
        let message = passed(builder.body(Body::empty()).unwrap()).unwrap();
        assert_eq!(message.uri(), "/v1?q=1");
        let hosts: Vec<_> = message.headers().get_all("host").iter().collect();
        assert_eq!(hosts, [expected]);
        assert_eq!(message.version(), Version::HTTP_11);
    }
}

/// A header as a test writes it.
type Fields<'a> = &'a [(&'a str, &'a str)];

#[test]
fn what_could_be_read_in_two_ways_is_refused() {
    let cases: &[(_, _, Fields<'_>)] = &[
        ("GET", "/", &[]),
        ("GET", "/", &[("host", "a"), ("host", "b")]),
        ("GET", "/", &[("host", "a"), ("host", "a")]),
        ("GET", "/", &[("host", "")]),
        ("GET", "/", &[("host", "a, b")]),
        ("GET", "/", &[("host", "a/b")]),
        ("GET", "/", &[("host", "u@a")]),
        ("CONNECT", "a:80", &[("host", "a:80")]),
        ("GET", "http://a/", &[("host", "b")]),
        ("GET", "http://a/", &[("host", "a:81")]),
        ("GET", "http://u:p@a/", &[("host", "a")]),
        ("GET", "ftp://a/", &[("host", "a")]),
        ("GET", "a", &[("host", "a")]),
        ("POST", "/", &[("host", "a"), ("content-length", "1"), ("content-length", "1")]),
        ("POST", "/", &[("host", "a"), ("content-length", "1"), ("transfer-encoding", "chunked")]),
        ("POST", "/", &[("host", "a"), ("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")]),
        ("POST", "/", &[("host", "a"), ("transfer-encoding", "gzip, chunked")]),
        ("POST", "/", &[("host", "a"), ("transfer-encoding", "identity")]),
        ("POST", "/", &[("host", "a"), ("expect", "y 100-continue")]),
        ("POST", "/", &[("host", "a"), ("expect", "100-continue"), ("expect", "100-continue")]),
        ("POST", "/", &[("host", "a"), ("connection", "close, Content-Length"), ("content-length", "1")]),
        ("GET", "/", &[("host", "a"), ("connection", "host")]),
        ("GET", "/", &[("host", "a"), ("authorization", "a"), ("authorization", "a")]),
        ("GET", "/", &[("host", "a"), ("authorization", "a"), ("connection", "authorization")]),
        ("GET", "/", &[("host", "a:80:80")]),
    ];
    for (method, uri, fields) in cases {
        let builder = http::Request::builder().method(*method).uri(*uri);
        let builder = fields.iter().fold(builder, |builder, (name, value)| builder.header(*name, *value));
        let refused =
            passed(builder.body(Body::empty()).unwrap()).expect_err(&format!("{method} {uri} {fields:?}"));
        assert_eq!(refused.reason, Reason::Malformed);
    }
}

#[test]
fn an_old_client_may_go_without_a_host() {
    let request = http::Request::builder().uri("/").version(Version::HTTP_10).body(Body::empty()).unwrap();
    assert_eq!(passed(request).unwrap().headers()["host"], "");
}

#[test]
fn cookies_split_over_fields_are_joined() {
    let message = passed(asked(&[("host", "a"), ("cookie", "a=1"), ("cookie", "b=2")])).unwrap();
    assert_eq!(left(&message), [("cookie", "a=1; b=2")]);
}

#[test]
fn a_body_of_unknown_length_is_chunked_and_one_of_known_length_keeps_it() {
    let with = |fields: &[(&str, &str)]| asked(fields).map(|_| Body::from("body"));
    assert_eq!(left(&passed(with(&[("host", "a")])).unwrap()), [("transfer-encoding", "chunked")]);
    let known = [("host", "a"), ("content-length", "4")];
    assert_eq!(left(&passed(with(&known)).unwrap()), [("content-length", "4")]);
}

#[test]
fn a_routes_changes_are_made_last() {
    let config = crate::HeaderRulesConfig {
        set: [("x-forwarded-proto".to_owned(), "https".to_owned())].into(),
        remove: vec!["accept".into()],
        ..Default::default()
    };
    let (rules, flaws) = HeaderRules::new(&config);
    assert_eq!(flaws, []);
    let request = asked(&[("host", "a"), ("accept", "*/*")]);
    let request = passed_with(request, &rules, &[]).unwrap();
    assert!(left(&request).is_empty());
    assert_eq!(request.headers()["x-forwarded-proto"], "https");
}

const WISH: [(&str, &str); 3] =
    [("host", "a"), ("connection", "keep-alive, Upgrade"), ("upgrade", "WebSocket")];

#[test]
fn a_protocol_may_be_changed_where_the_route_allows_it() {
    let allowed = [HeaderValue::from_static("websocket")];
    let pass = |request, allowed: &[_]| passed_with(request, &HeaderRules::default(), allowed).unwrap();
    assert_eq!(left(&pass(asked(&WISH), &allowed)), [("connection", "upgrade"), ("upgrade", "websocket")]);
    assert_eq!(left(&pass(asked(&WISH), &[])), []);
    let mut post = asked(&WISH);
    *post.method_mut() = http::Method::POST;
    let with_body = asked(&WISH).map(|_| Body::from("x"));
    let two = asked(&[WISH[0], WISH[1], WISH[2], ("upgrade", "h2c")]);
    let listed = asked(&[WISH[0], WISH[1], ("upgrade", "websocket, h2c")]);
    let not_named = asked(&[WISH[0], WISH[2]]);
    for request in [post, with_body, two, listed, not_named] {
        let request = pass(request, &allowed);
        assert!(!request.headers().contains_key("upgrade"), "{request:?}");
    }
}

fn answered(
    status: u16,
    fields: &[(&str, &str)],
    upgrade: Option<&HeaderValue>,
) -> Result<Vec<String>, Refusal> {
    let builder = http::Response::builder().status(status);
    let builder = fields.iter().fold(builder, |builder, (name, value)| builder.header(*name, *value));
    let mut response = builder.body(Body::empty()).unwrap();
    back(&mut response, &HeaderRules::default(), upgrade)?;
    Ok(response.headers().keys().map(HeaderName::to_string).collect())
}

#[test]
fn an_upstream_switches_protocols_only_to_what_was_asked_for() {
    let websocket = HeaderValue::from_static("websocket");
    let switching = [("upgrade", "WebSocket"), ("connection", "upgrade"), ("sec-websocket-accept", "x")];
    let mut kept = answered(101, &switching, Some(&websocket)).unwrap();
    kept.sort();
    assert_eq!(kept, ["connection", "sec-websocket-accept", "upgrade"]);
    for (fields, upgrade) in
        [(&switching[..], None), (&[("upgrade", "h2c")], Some(&websocket)), (&[], Some(&websocket))]
    {
        assert_eq!(answered(101, fields, upgrade).unwrap_err().reason, Reason::BadGateway);
    }
    assert_eq!(answered(200, &switching, Some(&websocket)).unwrap(), ["sec-websocket-accept"]);
}

#[test]
fn an_upstreams_hop_by_hop_fields_and_second_length_end_here() {
    let fields = [
        ("transfer-encoding", "chunked"),
        ("content-length", "5"),
        ("connection", "close, x-hop"),
        ("x-hop", "1"),
        ("keep-alive", "5"),
        ("trailer", "x-sum"),
        ("server", "s"),
    ];
    let mut kept = answered(200, &fields, None).unwrap();
    kept.sort();
    assert_eq!(kept, ["server", "trailer"]);
    let framed = [("connection", "content-length"), ("content-length", "5")];
    assert_eq!(answered(200, &framed, None).unwrap(), ["content-length"]);
}
