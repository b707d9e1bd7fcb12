//! Routes with `forward_auth`: a server of the operator's decides about each request before it is passed on.
//!
//! It is asked with the client's fields and without its body. What it answers with a status from 200 to 299 lets the request
//! pass; everything else is the client's answer. If it cannot be asked, nothing passes.

use std::time::Duration;

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Uri,
    header::{
        CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, IF_MATCH, IF_MODIFIED_SINCE,
        IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
    },
    uri::PathAndQuery,
};
use ron_transport::{Body, Request};

use crate::{config::ForwardAuthConfig, message::identity};

/// The client's method, for the server that decides; it is asked by GET.
static METHOD: HeaderName = HeaderName::from_static("x-forwarded-method");
/// The path and the query that the client asked for.
static URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
/// The host that the client asked for.
static FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// The fields of a client's request that speak of its body, of its connection, or of what is stored under its target.
static LEFT_OUT: [HeaderName; 14] = [
    CONNECTION,
    CONTENT_ENCODING,
    CONTENT_LENGTH,
    CONTENT_TYPE,
    IF_MATCH,
    IF_MODIFIED_SINCE,
    IF_NONE_MATCH,
    IF_RANGE,
    IF_UNMODIFIED_SINCE,
    RANGE,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Who decides about the requests of a route.
#[derive(Debug)]
pub(crate) struct ForwardAuth {
    /// The name of the upstream.
    pub(crate) upstream: String,
    path: PathAndQuery,
    copied: Box<[HeaderName]>,
    /// Timeout of the authorization server.
    pub(crate) timeout: Duration,
}

/// A request as its client sent it, which the server that decides is told.
#[derive(Debug)]
pub(crate) struct AsSent {
    method: HeaderValue,
    target: HeaderValue,
}

impl ForwardAuth {
    /// What the configuration's check refuses is left out.
    pub(crate) fn new(config: &ForwardAuthConfig) -> Self {
        Self {
            upstream: config.upstream.clone(),
            path: config.path.parse().unwrap_or(PathAndQuery::from_static("/")),
            copied: config.copy_headers.iter().filter_map(|name| name.parse().ok()).collect(),
            timeout: config.timeout.as_duration(),
        }
    }

    /// The fields that a client must not be able to imitate: those that are copied, and those that the decision is made by.
    pub(crate) fn guarded(&self) -> impl Iterator<Item = &HeaderName> {
        self.copied.iter().chain([&METHOD, &URI, &FORWARDED_HOST])
    }

    /// Notes how the client put its request, before it is made fit for a server.
    pub(crate) fn note(request: &Request) -> AsSent {
        let target = request.uri().path_and_query().map_or("/", PathAndQuery::as_str);
        let value = |text: &str| HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""));
        AsSent { method: value(request.method().as_str()), target: value(target) }
    }

    /// The question about a request whose fields were made fit for a server. What clients ordinarily show of themselves is
    /// left in it, also if the answer replaces it.
    pub(crate) fn question(&self, sent: AsSent, mut headers: HeaderMap) -> Request {
        let mut question = Request::new(Body::empty());
        *question.method_mut() = Method::GET;
        *question.uri_mut() = Uri::from(self.path.clone());
        let imitated = self.copied.iter().filter(|name| !identity::is_clients_own(name));
        for name in LEFT_OUT.iter().chain(imitated) {
            headers.remove(name);
        }
        if let Some(host) = headers.get(HOST).cloned() {
            headers.insert(&FORWARDED_HOST, host);
        }
        headers.insert(&METHOD, sent.method);
        headers.insert(&URI, sent.target);
        *question.headers_mut() = headers;
        question
    }

    /// Gives the request what was said of its client, instead of what the client says of itself.
    pub(crate) fn copy(&self, answer: &HeaderMap, request: &mut HeaderMap) {
        for name in &self.copied {
            request.remove(name);
            for value in answer.get_all(name) {
                request.append(name, value.clone());
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn auth() -> ForwardAuth {
        ForwardAuth::new(&ForwardAuthConfig {
            upstream: "auth".to_owned(),
            path: "/verify?app=1".to_owned(),
            copy_headers: vec!["X-User".to_owned()],
            timeout: Duration::from_secs(1).into(),
        })
    }

    #[test]
    fn the_question_has_the_clients_fields_and_neither_its_body_nor_its_claims() {
        let request = http::Request::builder()
            .method("POST")
            .uri("/orders?id=7")
            .header("host", "shop.test")
            .header("cookie", "session=1")
            .header("content-length", "9")
            .header("x-user", "admin")
            .header("if-none-match", "*")
            .header("x-forwarded-uri", "/public")
            .body(Body::from("some text"))
            .unwrap();
        let question = auth().question(ForwardAuth::note(&request), request.headers().clone());
        assert_eq!((question.method(), question.uri().to_string().as_str()), (&Method::GET, "/verify?app=1"));
        let headers = question.headers();
        assert_eq!(headers["cookie"], "session=1");
        assert_eq!(headers[&FORWARDED_HOST], "shop.test");
        assert_eq!(headers[&METHOD], "POST");
        assert_eq!(headers[&URI], "/orders?id=7");
        for name in ["x-user", "content-length", "if-none-match"] {
            assert!(!headers.contains_key(name), "{name}");
        }
    }

    #[test]
    fn what_the_client_says_of_itself_goes_even_if_nothing_comes_in_its_place() {
        let mut request = HeaderMap::new();
        request.insert("x-user", HeaderValue::from_static("admin"));
        auth().copy(&HeaderMap::new(), &mut request);
        assert!(request.is_empty());
        let answer =
            HeaderMap::from_iter([(HeaderName::from_static("x-user"), HeaderValue::from_static("ann"))]);
        auth().copy(&answer, &mut request);
        assert_eq!(request["x-user"], "ann");
    }
}
