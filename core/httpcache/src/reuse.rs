//! Whether a stored response answers a request (RFC 9111, 4), and how it is validated (4.3.1).

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use httprules::{
    cache_control::RequestDirectives,
    freshness::{self, Stored, Time, Verdict},
};

/// Judges a stored response for a request at `now`. For `grace` seconds after it became stale it
/// answers when its origin cannot be asked, unless the origin or the request forbids that.
///
/// What was never fresh is stored to be validated, and may be meant for one client only. It answers without validation
/// only if its origin allows that, whatever a client would put up with.
#[must_use]
pub fn judge(stored: &Stored, request: &RequestDirectives, grace: u64, now: impl Into<Time>) -> Verdict {
    let now = now.into();
    // Not what an operator has purged softly, which has no time left but had some.
    let was_fresh = Stored { at_most: u64::MAX, ..*stored }.lifetime() > 0;
    let strict = RequestDirectives { max_stale: None, stale_if_error: None, ..*request };
    let request = if was_fresh { request } else { &strict };
    let verdict = freshness::judge(stored, request, now);
    if verdict != (Verdict::Validate { if_error: false }) {
        return verdict;
    }
    let said = &stored.directives;
    let forbids = said.no_cache
        || said.must_revalidate
        || said.proxy_revalidate
        || said.s_maxage.is_some()
        || said.stale_if_error.is_some()
        || request.no_cache;
    let stale_by = stored.age_at(now).saturating_sub(stored.lifetime());
    Verdict::Validate { if_error: was_fresh && !forbids && stale_by < grace }
}

/// The fields that make a request validate a stored response with these fields, instead of any such that it has.
#[must_use]
pub fn conditions(stored: &HeaderMap) -> Vec<(HeaderName, HeaderValue)> {
    let copy = |from: HeaderName, to: HeaderName| stored.get(from).map(|value| (to, value.clone()));
    let tag = copy(header::ETAG, header::IF_NONE_MATCH);
    let date = copy(header::LAST_MODIFIED, header::IF_MODIFIED_SINCE);
    tag.into_iter().chain(date).collect()
}

/// The fields by which a client asks under a condition, or for a part.
pub const CONDITIONS: [HeaderName; 6] = [
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_UNMODIFIED_SINCE,
    header::IF_RANGE,
    header::RANGE,
];

/// Whether an answer with this status says that the origin cannot answer now (RFC 5861, 4).
#[must_use]
pub fn is_error(status: StatusCode) -> bool {
    matches!(status.as_u16(), 500 | 502 | 503 | 504)
}
