//! How long a stored response may be reused, and by whom (RFC 9111, 3 and 4; RFC 5861), as a shared cache sees it.
//!
//! | the response says | while fresh | stale |
//! |---|---|---|
//! | `no-cache` | validated first | validated first |
//! | `must-revalidate`, `proxy-revalidate` | reused | validated first |
//! | `stale-while-revalidate=n` | reused | reused within n seconds, while it is validated |
//! | `stale-if-error=n` | reused | validated first; reused within n seconds if that fails |
//! | none of these | reused | validated first, unless the request has `max-stale` and the response no `s-maxage` |
//!
//! A request's `no-cache` has everything validated; its `max-age` and `min-fresh` what does not suit it, and they turn
//! `stale-while-revalidate` off. `s-maxage` alone forbids to reuse what is stale, but an origin that gives a window beside
//! it means the window.

mod storable;
mod stored;
mod time;

pub use storable::{Unstorable, may_store};
pub use stored::{HEURISTIC_MAX, Stored};
pub use time::Time;

use crate::cache_control::RequestDirectives;

/// Whether a stored response answers a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The stored response is fresh.
    Fresh,
    /// It does for now; it is to be validated meanwhile.
    Stale,
    /// It has to be validated first.
    Validate {
        /// Whether it answers all the same if the origin cannot be asked.
        if_error: bool,
    },
}

/// Judges a stored response for a request at `now`.
#[must_use]
pub fn judge(stored: &Stored, request: &RequestDirectives, now: impl Into<Time>) -> Verdict {
    let said = &stored.directives;
    if said.no_cache || request.no_cache {
        return Verdict::Validate { if_error: false };
    }
    let (age, lifetime) = (stored.age_at(now), stored.lifetime());
    let young = request.max_age.is_none_or(|most| age <= most);
    if age < lifetime {
        let lasting = request.min_fresh.is_none_or(|least| lifetime - age >= least);
        // What is fresh is better than nothing, whatever the request would rather have.
        return if young && lasting { Verdict::Fresh } else { Verdict::Validate { if_error: true } };
    }
    if said.must_revalidate || said.proxy_revalidate {
        return Verdict::Validate { if_error: false };
    }
    let stale_by = age - lifetime;
    let within = |window: Option<u64>| window.is_some_and(|window| stale_by < window);
    let asks_for_fresh = request.max_age.is_some() || request.min_fresh.is_some();
    let tolerated = young
        && request.min_fresh.is_none()
        && said.s_maxage.is_none()
        && request.max_stale.is_some_and(|most| stale_by <= most);
    if tolerated || !asks_for_fresh && within(said.stale_while_revalidate) {
        return Verdict::Stale;
    }
    Verdict::Validate { if_error: within(said.stale_if_error) || within(request.stale_if_error) }
}
