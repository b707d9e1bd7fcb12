//! Whether a shared cache may keep a response at all (RFC 9111, 3).

use std::fmt;

use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::stored::is_guessable;
use crate::{
    cache_control::{RequestDirectives, ResponseDirectives},
    list::elements,
};

/// Why a response is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unstorable {
    /// It is not final, or a part, or says that what we have is still good.
    Status,
    /// The request or the response has `no-store`.
    NoStore,
    /// It is for one user alone: it has `private`, or sets a cookie.
    Private,
    /// The request was authorised, and the response does not say that others may see it.
    Authorization,
    /// It would have been another for other requests.
    Vary,
    /// It does not say how long it is good, and its status does not let us guess.
    NoLifetime,
}

impl fmt::Display for Unstorable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Status => "its status is not one that can be kept",
            Self::NoStore => "it is not to be stored",
            Self::Private => "it is private",
            Self::Authorization => "it was given to somebody authorised",
            Self::Vary => "it varies with the request",
            Self::NoLifetime => "it does not say how long it is good",
        })
    }
}

/// Judges the response to a GET. `authorized` tells whether the request had an `Authorization`.
///
/// # Errors
/// The first reason against keeping it, in the order of [`Unstorable`].
pub fn may_store(
    request: &RequestDirectives,
    authorized: bool,
    status: StatusCode,
    headers: &HeaderMap,
) -> Result<(), Unstorable> {
    let said = ResponseDirectives::of(headers);
    let final_and_whole = !status.is_informational() && !matches!(status.as_u16(), 206 | 304);
    let understood = is_guessable(status) || !said.must_understand;
    let forbidden = said.no_store && !(said.must_understand && understood);
    let for_others = said.public || said.must_revalidate || said.s_maxage.is_some();
    let told =
        said.public || said.max_age.or(said.s_maxage).is_some() || headers.contains_key(header::EXPIRES);
    let checks = [
        (final_and_whole && understood, Unstorable::Status),
        (!forbidden && !request.no_store, Unstorable::NoStore),
        (!said.private && !headers.contains_key(header::SET_COOKIE), Unstorable::Private),
        (!authorized || for_others, Unstorable::Authorization),
        (!varies(headers), Unstorable::Vary),
        (told || is_guessable(status), Unstorable::NoLifetime),
    ];
    checks.into_iter().find(|(passed, _)| !passed).map_or(Ok(()), |(_, why)| Err(why))
}

/// Whether the response depends on anything but the coding, for which we always ask in the same way.
fn varies(headers: &HeaderMap) -> bool {
    elements(headers.get_all(header::VARY).iter().map(HeaderValue::as_bytes))
        .any(|name| !name.eq_ignore_ascii_case(b"accept-encoding"))
}
