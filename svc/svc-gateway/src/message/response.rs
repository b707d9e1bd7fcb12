//! An upstream's response made fit for the client.

use http::{
    HeaderMap, HeaderName, HeaderValue, StatusCode, Version,
    header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING, UPGRADE},
};
use http_body::Body as _;
use ron_transport::Response;
use types::{Reason, Refusal};

use super::{
    HeaderRules,
    fields::{Field, Fields},
    survey::tokens,
};
use crate::cache::EndsWithConnection;

/// Makes an upstream's response fit for the client. `upgrade` is the protocol that was asked for, if one was.
///
/// # Errors
/// `bad_gateway` if the upstream changes to a protocol that nobody asked for.
pub(crate) fn back(
    response: &mut Response,
    rules: &HeaderRules,
    upgrade: Option<&HeaderValue>,
) -> Result<(), Refusal> {
    let switched = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    if switched && !is_agreed(response.headers(), upgrade) {
        return Err(Refusal::new(Reason::BadGateway, "the upstream switched protocols unasked"));
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

/// Marks a server's response of which nobody can tell whether it is complete: its body has no length, is not chunked, and
/// ends with the connection. To be called before [`back`], which takes the framing out.
pub(crate) fn mark_unframed(response: &mut Response) {
    let headers = response.headers();
    let is_framed = response.version() > Version::HTTP_11
        || response.body().is_end_stream()
        || headers.contains_key(TRANSFER_ENCODING)
        || headers.contains_key(CONTENT_LENGTH);
    if !is_framed {
        response.extensions_mut().insert(EndsWithConnection);
    }
}

fn is_agreed(headers: &HeaderMap, asked: Option<&HeaderValue>) -> bool {
    match (headers.get(UPGRADE), asked) {
        (Some(got), Some(asked)) => got.as_bytes().eq_ignore_ascii_case(asked.as_bytes()),
        _ => false,
    }
}

/// Removes what `Connection` names, except what frames the message.
fn remove_named(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .flat_map(tokens)
        .filter_map(|token| HeaderName::from_bytes(token).ok())
        .filter(|name| Field::of(name).is_none())
        .collect();
    for name in named {
        headers.remove(name);
    }
}
