//! Whether a shared cache stores a response (RFC 9111, 3), and which of its fields (3.1).
//!
//! Stricter than the RFC in three ways, because a shared response that was meant for one client is the worst mistake of a
//! cache: a response with `Set-Cookie` is stored only if the operator says so; the response to a request with a cookie or an
//! `Authorization` only if it says for how long it is fresh, and that is not zero; and what could never be reused is not stored.

use std::fmt;

use http::{HeaderMap, HeaderName, StatusCode, header};
use httprules::{
    cache_control::RequestDirectives,
    freshness::{Stored, Time},
};

use crate::{
    control::{Control, TARGETS},
    tags,
    variant::Vary,
};

/// What of a GET request decides about storing its response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// What the request's `Cache-Control` and `Pragma` ask of a cache.
    pub directives: RequestDirectives,
    /// Whether the request has an `Authorization` field.
    pub is_authorized: bool,
    /// Whether the request has a `Cookie` field.
    pub has_cookie: bool,
    /// Whether its client set conditions or a deadline, or sent a large head, by which it can provoke an error that others would
    /// not get.
    pub has_conditions: bool,
}

impl Asked {
    /// Whether the request tells who sent it, so that its response may be for its sender alone.
    #[must_use]
    pub const fn is_personal(&self) -> bool {
        self.is_authorized || self.has_cookie
    }
}

/// What the operator says about a route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Whether answers with `Set-Cookie` may be stored, cookie and all.
    pub store_set_cookie: bool,
    /// Freshness in seconds where the origin says nothing and there is nothing to compute it from.
    pub default_lifetime: u64,
    /// The longest freshness in seconds; `None` for any.
    pub max_lifetime: Option<u64>,
    /// For how many seconds a stale response answers when its origin cannot, unless the origin forbids it.
    pub grace: u64,
    /// Whether clients get the fields that name a response's tags.
    pub keep_tags: bool,
}

/// Why a response is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotStored {
    /// Its status is not final, or not one to be stored.
    Status,
    /// The request or the response has `no-store`.
    NoStore,
    /// The response is `private`.
    Private,
    /// The response sets a cookie.
    SetCookie,
    /// The request was authorized, and the response does not say that others may see it.
    Authorization,
    /// It depends on more than can be told from requests.
    Vary,
    /// Its `Connection` names fields that are for one connection alone, so that what the response says of itself is not complete.
    Connection,
    /// It is a stream of events, which is meant for one client and may never end.
    EventStream,
    /// It could never be reused: it is not fresh for any time and cannot be validated.
    Useless,
}

impl NotStored {
    /// Whether the response could not be stored for any request. Otherwise it is for the request that it is not
    /// stored, and says nothing about what is stored for others.
    ///
    /// A request with a credential or a cookie may be answered for its sender alone.
    #[must_use]
    pub const fn is_for_everybody(self, asked: &Asked) -> bool {
        if asked.is_personal() {
            return false;
        }
        match self {
            Self::Private | Self::Vary | Self::Connection | Self::EventStream | Self::Useless => true,
            Self::NoStore => !asked.directives.no_store,
            Self::Status => !asked.has_conditions,
            Self::SetCookie | Self::Authorization => false,
        }
    }

    /// A word for `Cache-Status` and logs.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::NoStore => "no-store",
            Self::Private => "private",
            Self::SetCookie => "set-cookie",
            Self::Authorization => "authorization",
            Self::Vary => "vary",
            Self::Connection => "connection",
            Self::EventStream => "event-stream",
            Self::Useless => "no-lifetime",
        }
    }
}

impl fmt::Display for NotStored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// What is known of a response that may be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storable {
    /// The lifetime of the response.
    pub freshness: Stored,
    /// The fields that select it.
    pub vary: Vec<HeaderName>,
}

/// Judges the response to a GET, asked for, in seconds since 1970, and received at these times.
///
/// # Errors
/// The first reason against storing it.
pub fn judge(
    asked: &Asked,
    rules: &Rules,
    status: StatusCode,
    headers: &HeaderMap,
    (requested_at, received_at): (u64, impl Into<Time>),
) -> Result<Storable, NotStored> {
    let control = Control::of(headers);
    let said = &control.directives;
    let understood = !said.must_understand || is_understood(status);
    if !is_final(status) || !understood || is_provoked(asked, status) {
        return Err(NotStored::Status);
    }
    if asked.directives.no_store || said.no_store && !said.must_understand {
        return Err(NotStored::NoStore);
    }
    if said.private {
        return Err(NotStored::Private);
    }
    if is_event_stream(headers) {
        return Err(NotStored::EventStream);
    }
    let sets_cookie =
        headers.contains_key(header::SET_COOKIE) && !control.unstored_fields.contains(&header::SET_COOKIE);
    if sets_cookie && !rules.store_set_cookie {
        return Err(NotStored::SetCookie);
    }
    if asked.is_authorized && !(said.public || said.must_revalidate || said.s_maxage.is_some()) {
        return Err(NotStored::Authorization);
    }
    let Vary::Fields(vary) = Vary::of(headers) else { return Err(NotStored::Vary) };
    let mut freshness = control.freshness(status, headers, requested_at, received_at);
    let is_personal = sets_cookie || asked.is_personal();
    freshness.unsaid = if is_personal || !takes_default(status) { 0 } else { rules.default_lifetime };
    freshness.at_most = rules.max_lifetime.unwrap_or(u64::MAX);
    if is_personal && freshness.told_lifetime().unwrap_or(0) == 0 {
        return Err(NotStored::Useless);
    }
    let has_validator = headers.contains_key(header::ETAG) || headers.contains_key(header::LAST_MODIFIED);
    let is_of_use = freshness.lifetime() > 0 || has_validator && takes_default(status);
    if is_of_use { Ok(Storable { freshness, vary }) } else { Err(NotStored::Useless) }
}

/// Whether a response may be an error that others would not get: its client set conditions, or showed a cookie or a credential that
/// its server does not like. That there is nothing is about the resource, whoever asks.
fn is_provoked(asked: &Asked, status: StatusCode) -> bool {
    let is_error = status.is_client_error() || status.is_server_error();
    let is_absent = matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE);
    is_error && (asked.has_conditions || asked.is_personal() && !is_absent)
}

/// Whether a response is a stream of server-sent events.
fn is_event_stream(headers: &HeaderMap) -> bool {
    let media_type = headers.get(header::CONTENT_TYPE).map(|value| value.as_bytes());
    let media_type = media_type.and_then(|value| value.split(|byte| *byte == b';').next());
    media_type.is_some_and(|name| name.trim_ascii().eq_ignore_ascii_case(b"text/event-stream"))
}

/// Whether a field can say for whom a response is, whether and for how long it is stored, or what its bytes are. If such a field
/// was removed, nobody can tell whether the response may be stored.
#[must_use]
pub fn concerns_storing(name: &HeaderName) -> bool {
    let name = name.as_str();
    let is_known =
        ["age", "date", "etag", "last-modified", "pragma", "location", "refresh", "www-authenticate"];
    let words = ["cache", "control", "cookie", "auth", "expires", "vary", "digest", "surrogate"];
    is_known.contains(&name) || name.starts_with("content-") || words.iter().any(|word| name.contains(word))
}

/// Removes what is not stored: fields that `no-cache` and `private` name, and those that are for this cache alone.
pub fn strip(headers: &mut HeaderMap) {
    for name in Control::of(headers).unstored_fields {
        headers.remove(name);
    }
    for name in ["proxy-authenticate", "proxy-authentication-info", "proxy-authorization"] {
        headers.remove(name);
    }
}

/// Removes the fields that are for this cache alone from an answer to a client.
pub fn strip_targeted(headers: &mut HeaderMap, rules: &Rules) {
    headers.remove(&TARGETS[0]);
    if !rules.keep_tags {
        tags::strip(headers);
    }
}

/// Whether a response with this status can be stored as a whole. Not those that are about one request and not about
/// its target, whatever they say of their freshness: requests that are too large or too many, lack a credential,
/// set conditions that do not hold, or came too early. A client that provokes one could have it sent to all other
/// clients.
fn is_final(status: StatusCode) -> bool {
    let is_about_the_request = matches!(
        status.as_u16(),
        401 | 406..=408 | 411..=413 | 415..=417 | 421 | 425 | 426 | 428 | 429 | 431 | 511
    );
    !status.is_informational() && !is_about_the_request && !matches!(status.as_u16(), 206 | 304)
}

/// Whether the operator's lifetime holds for a response with this status. Not for those that a client can provoke at a good
/// target by an odd request, such as 405 and 414.
fn takes_default(status: StatusCode) -> bool {
    matches!(status.as_u16(), 200 | 203 | 204 | 300 | 301 | 308 | 404 | 410)
}

/// Whether the cache knows what the status means (RFC 9110, 15).
fn is_understood(status: StatusCode) -> bool {
    matches!(
        status.as_u16(),
        200 | 203 | 204 | 300 | 301 | 302 | 303 | 307 | 308 | 400 | 403 | 404 | 405 | 410 | 414 | 451 | 500
            ..=505
    )
}
