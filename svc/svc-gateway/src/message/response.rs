//! An upstream's response made fit for the client.

use http::{
    HeaderMap, HeaderName, HeaderValue, StatusCode, Version,
    header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING, UPGRADE},
};
use http_body::Body as _;
use httpcache::storage;
use ron_transport::Response;
use types::{Reason, Refusal};

use super::{
    HeaderRules,
    fields::{Field, Fields},
    survey::tokens,
};
use crate::cache::Unstorable;

/// Makes an upstream's response fit for the client. `upgrade` is the protocol that was asked for, if one was.
///
/// # Errors
/// `bad_gateway` if the upstream changes to a protocol that nobody asked for.
pub(crate) fn back(
    response: &mut Response,
    rules: &HeaderRules,
    upgrade: Option<&HeaderValue>,
) -> Result<(), Refusal> {
    let status = response.status();
    let switched = status == StatusCode::SWITCHING_PROTOCOLS;
    if switched && !is_agreed(response.headers(), upgrade) {
        return Err(Refusal::new(Reason::BadGateway, "the upstream switched protocols without a request"));
    }
    let headers = response.headers_mut();
    let mut fields = Fields::default();
    for field in headers.keys().filter_map(Field::of) {
        fields = fields.with(field);
    }
    if fields.has(Field::Connection) {
        remove_named(headers);
    }
    // Of two framings the chunked one counts, and its length is not the one that was sent.
    if fields.has(Field::TransferEncoding) {
        headers.remove(CONTENT_LENGTH);
    }
    // It has no content, also in answer to HEAD, where a length would speak of some (RFC 9110, 8.6).
    if status == StatusCode::NO_CONTENT {
        headers.remove(CONTENT_LENGTH);
    }
    fields.remove_from(headers, Fields::HOP_BY_HOP);
    if let Some(protocol) = upgrade.filter(|_| switched) {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, protocol.clone());
    }
    rules.apply(headers);
    // The version is this connection's business, not the upstream's.
    *response.version_mut() = Version::HTTP_11;
    Ok(())
}

/// Marks a server's response that must not be stored: its body has no length, is not chunked, and ends with the connection,
/// so that nobody can tell whether it is complete; or its `Connection` names fields that could say for whom it is, which
/// [`back`] removes. To be called before [`back`].
pub(crate) fn mark_unstorable(response: &mut Response) {
    let headers = response.headers();
    let is_framed = response.version() > Version::HTTP_11
        || response.body().is_end_stream()
        || headers.contains_key(TRANSFER_ENCODING)
        || headers.contains_key(CONTENT_LENGTH);
    let hides = |name: &HeaderName| headers.contains_key(name) && storage::concerns_storing(name);
    let why = if named(headers).any(|name| hides(&name)) {
        Unstorable::NamesFields
    } else if is_framed {
        return;
    } else {
        Unstorable::EndsWithConnection
    };
    response.extensions_mut().insert(why);
}

fn is_agreed(headers: &HeaderMap, asked: Option<&HeaderValue>) -> bool {
    match (headers.get(UPGRADE), asked) {
        (Some(got), Some(asked)) => got.as_bytes().eq_ignore_ascii_case(asked.as_bytes()),
        _ => false,
    }
}

/// Removes what `Connection` names, except what frames the message.
fn remove_named(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = named(headers).collect();
    for name in named {
        headers.remove(name);
    }
}

/// The fields that `Connection` names, except those of which the gateway has an opinion of its own.
fn named(headers: &HeaderMap) -> impl Iterator<Item = HeaderName> {
    let tokens = headers.get_all(CONNECTION).iter().flat_map(tokens);
    tokens.filter_map(|token| HeaderName::from_bytes(token).ok()).filter(|name| Field::of(name).is_none())
}
