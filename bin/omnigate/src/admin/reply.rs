//! The forms an answer of the admin listener takes.

use http::{HeaderValue, StatusCode, header};
use ron_transport::{Body, Response, problem};
use serde_json::Value;
use types::{Reason, Refusal};

/// Makes a response with a JSON body.
pub(super) fn json(status: StatusCode, value: &Value) -> Response {
    with_type(status, "application/json", format!("{value:#}\n").into())
}

/// Makes a response of plain text.
pub(super) fn text(body: String) -> Response {
    with_type(StatusCode::OK, "text/plain; charset=utf-8", body.into())
}

/// A body of some type. What a node says of itself holds for this moment only.
pub(super) fn with_type(status: StatusCode, content_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Sends a browser elsewhere on this listener.
pub(super) fn see(path: &'static str) -> Response {
    let mut response = with_type(StatusCode::SEE_OTHER, "text/plain; charset=utf-8", Body::empty());
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_static(path));
    response
}

/// What a browser may do with an answer: nothing with most of them, and none inside the pages of others.
pub(super) fn protected(mut response: Response) -> Response {
    let headers = response.headers_mut();
    let unless_said = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(unless_said);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    response
}

/// A refusal. One for want of a token tells how to show one.
pub(super) fn refused(refusal: &Refusal) -> Response {
    let mut response = problem::response(refusal);
    if refusal.reason == Reason::Unauth {
        let challenge = HeaderValue::from_static("Bearer realm=\"omnigate\"");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    response
}

/// A path that is there, asked with a method it does not take.
pub(super) fn method_not_allowed(method: &http::Method, path: &str, allow: &'static str) -> Response {
    let detail = format!("{path} takes {allow}, not {method}");
    let mut response = problem::response(&Refusal::new(Reason::MethodNotAllowed, detail));
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
    response
}
