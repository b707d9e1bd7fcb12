//! Whether a client wants to change to another protocol, and may.

use http::{
    HeaderValue, Method, Version,
    header::{CONNECTION, UPGRADE},
};
use http_body::Body as _;
use ron_transport::Request;

use super::{Field, Survey, survey::tokens};

/// The protocol that a request asks to change to, as `allowed` spells it; `None` if it does not ask, may not, or asks in a
/// way that is not to be trusted. The wish of such a request ends here, and the rest of it goes on.
pub(crate) fn upgrade_wanted<'a>(
    request: &Request,
    survey: &Survey,
    allowed: &'a [HeaderValue],
) -> Option<&'a HeaderValue> {
    if !survey.fields.has(Field::Upgrade) || !survey.fields.has(Field::Connection) || allowed.is_empty() {
        return None;
    }
    let headers = request.headers();
    // A body would be followed by the other protocol, and servers disagree about where the one ends.
    let asks = request.method() == Method::GET
        && request.version() == Version::HTTP_11
        && request.body().is_end_stream()
        && headers.get_all(CONNECTION).iter().flat_map(tokens).any(|it| it.eq_ignore_ascii_case(b"upgrade"));
    let mut wanted = headers.get_all(UPGRADE).iter();
    match (wanted.next(), wanted.next()) {
        (Some(only), None) if asks => {
            allowed.iter().find(|name| name.as_bytes().eq_ignore_ascii_case(only.as_bytes()))
        }
        _ => None,
    }
}
