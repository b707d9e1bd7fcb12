//! A client's request made fit for an upstream.

use http::{
    HeaderMap, HeaderValue, Uri, Version,
    header::{CONNECTION, CONTENT_LENGTH, COOKIE, HOST, TE, TRANSFER_ENCODING, UPGRADE},
    uri::PathAndQuery,
};
use http_body::Body as _;
use ron_transport::Request;

use super::{
    GuardedFields, HeaderRules, Survey,
    fields::{Field, Fields},
    survey::tokens,
};
use crate::{client_addr::Client, trace::Trace};

/// What a request's way through the gateway adds to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Onward<'a> {
    pub(crate) survey: &'a Survey,
    pub(crate) client: &'a Client,
    pub(crate) trace: &'a Trace,
    pub(crate) rules: &'a HeaderRules,
    /// Fields that the client must not imitate.
    pub(crate) guarded: &'a GuardedFields,
    /// The tenant as servers are told; absent for tenants without a name.
    pub(crate) tenant: Option<&'a HeaderValue>,
    /// The protocol that the client may change to; see [`super::upgrade_wanted`].
    pub(crate) upgrade: Option<&'a HeaderValue>,
}

/// Fields that never go on as the client wrote them. An expectation is met here: the client is told to continue when its
/// body is first asked for.
const ENDS_HERE: Fields = Fields::HOP_BY_HOP.union(Fields::CLAIMS).with(Field::Expect).with(Field::Tenant);

/// More fields than this are not added to most requests; the room for them is made once.
const USUALLY_ADDED: usize = 5;

/// Makes a surveyed request fit for an upstream: origin form, HTTP/1.1, one `Host`, no hop-by-hop fields, and what this
/// node knows of the client instead of what the client says of itself. What the client has is removed first and the
/// gateway's own fields are written last, so that no request can remove or change them.
pub(crate) fn onward(request: &mut Request, way: &Onward<'_>) {
    let survey = way.survey;
    let wants_trailers = survey.fields.has(Field::Te) && wants_trailers(request.headers());
    let headers = request.headers_mut();
    survey.fields.remove_from(headers, ENDS_HERE);
    for name in &survey.doomed {
        headers.remove(name);
    }
    way.guarded.remove_alike(headers, survey.has_odd_names);
    headers.reserve(USUALLY_ADDED);
    to_origin_form(request, survey);
    *request.version_mut() = Version::HTTP_11;
    frame_body(request, survey);
    let headers = request.headers_mut();
    if survey.crumbs {
        join_cookies(headers);
    }
    if wants_trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    if let Some(protocol) = way.upgrade {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, protocol.clone());
    }
    way.client.write(headers, survey);
    way.trace.write(headers);
    way.rules.apply(headers);
    match way.tenant {
        Some(tenant) => drop(headers.insert(Field::Tenant.name(), tenant.clone())),
        // A rule cannot name a tenant where there is none; what the client says of one has gone above.
        None if way.rules.write_any() => drop(headers.remove(Field::Tenant.name())),
        None => {}
    }
}

/// Moves the authority of a whole URI into `Host`, and gives those an empty one that may go without.
fn to_origin_form(request: &mut Request, survey: &Survey) {
    if let Some(authority) = request.uri().authority() {
        let host = HeaderValue::from_str(authority.as_str()).ok();
        let path = path_of(request.uri());
        *request.uri_mut() = Uri::from(path);
        if let Some(host) = host {
            request.headers_mut().insert(HOST, host);
        }
    } else if !survey.fields.has(Field::Host) {
        request.headers_mut().insert(HOST, HeaderValue::from_static(""));
    }
}

/// The path and the query of a whole URI, which may have a query without a path.
fn path_of(uri: &Uri) -> PathAndQuery {
    let root = || PathAndQuery::from_static("/");
    match uri.path_and_query() {
        Some(path) if path.as_str().starts_with('?') => {
            format!("/{}", path.as_str()).parse().unwrap_or_else(|_| root())
        }
        Some(path) => path.clone(),
        None => root(),
    }
}

/// Says that a body of unknown length is chunked; without that word, the library sends none with a GET.
fn frame_body(request: &mut Request, survey: &Survey) {
    if survey.fields.has(Field::ContentLength) || request.body().is_end_stream() {
        return;
    }
    debug_assert!(!request.headers().contains_key(CONTENT_LENGTH), "the survey has seen it");
    request.headers_mut().insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
}

/// The cookies of a request as servers get them; empty if there are none.
pub(crate) fn joined_cookies(headers: &HeaderMap) -> Vec<u8> {
    let crumbs: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    crumbs.join(b"; ".as_slice())
}

/// HTTP/2 may split cookies over several fields; HTTP/1.1 knows only one.
fn join_cookies(headers: &mut HeaderMap) {
    if let Ok(whole) = HeaderValue::from_bytes(&joined_cookies(headers)) {
        headers.insert(COOKIE, whole);
    }
}

/// Whether the client takes trailers, without which there is no gRPC.
fn wants_trailers(headers: &HeaderMap) -> bool {
    headers.get_all(TE).iter().flat_map(tokens).any(|token| token.eq_ignore_ascii_case(b"trailers"))
}
