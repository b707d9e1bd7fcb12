//! A stored response as far as its age and lifetime go (RFC 9111, 4.2).

use http::{HeaderMap, HeaderName, StatusCode, header};

use super::Time;
use crate::{
    cache_control::ResponseDirectives, cache_control::SECONDS_MAX, date, list::number, list::trimmed,
};

/// The longest lifetime that is guessed where the origin tells none, in seconds.
pub const HEURISTIC_MAX: u64 = 24 * 60 * 60;

/// What of a response tells how long it may be reused. All times are in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The status of the response.
    pub status: StatusCode,
    /// The response's `Cache-Control` directives.
    pub directives: ResponseDirectives,
    /// When the origin made it: its `Date`, else when it was received.
    pub date: u64,
    /// Its `Age`: how many seconds others had it before.
    pub age: u64,
    /// Its `Expires`; one that cannot be read is long past.
    pub expires: Option<u64>,
    /// The response's `Last-Modified`, in Unix seconds.
    pub last_modified: Option<u64>,
    /// When the request was sent, in Unix seconds.
    pub requested_at: u64,
    /// When the response was received.
    pub received_at: Time,
    /// For how many seconds it is fresh if nobody says or lets us guess, as far as its status allows that.
    pub unsaid: u64,
    /// For how many seconds it is fresh at most, whatever it says.
    pub at_most: u64,
}

impl Stored {
    /// Takes what is needed from a response that was asked for and received at these times.
    #[must_use]
    pub fn of(
        status: StatusCode,
        headers: &HeaderMap,
        requested_at: u64,
        received_at: impl Into<Time>,
    ) -> Self {
        let received_at = received_at.into();
        let field = |name: HeaderName| headers.get(name).map(|value| trimmed(value.as_bytes()));
        let date_of = |name| field(name).map(|value| date::parse(value, received_at.unix));
        Self {
            status,
            directives: ResponseDirectives::of(headers),
            date: date_of(header::DATE).flatten().unwrap_or(received_at.unix),
            age: field(header::AGE).and_then(first_number).unwrap_or(0).min(SECONDS_MAX),
            expires: date_of(header::EXPIRES).map(|date| date.unwrap_or(0)),
            last_modified: date_of(header::LAST_MODIFIED).flatten(),
            requested_at,
            received_at,
            unsaid: 0,
            at_most: u64::MAX,
        }
    }

    /// The same response after the origin has said that it is still good (304): its new values replace the old
    /// ones, the rest stays.
    #[must_use]
    pub fn validated(&self, headers: &HeaderMap, requested_at: u64, received_at: impl Into<Time>) -> Self {
        let told = Self::of(self.status, headers, requested_at, received_at);
        let tells = |name| headers.contains_key(name);
        Self {
            directives: if tells(header::CACHE_CONTROL) { told.directives } else { self.directives },
            expires: told.expires.or(self.expires),
            last_modified: told.last_modified.or(self.last_modified),
            unsaid: self.unsaid,
            at_most: self.at_most,
            ..told
        }
    }

    /// How old it is at `now`, in seconds: as old as others say or the clocks tell, whichever is more.
    #[must_use]
    pub fn age_at(&self, now: impl Into<Time>) -> u64 {
        self.age_when_received().saturating_add(now.into().since(self.received_at))
    }

    /// How old it was when it was received, in seconds.
    #[must_use]
    pub fn age_when_received(&self) -> u64 {
        let received_at = self.received_at.unix;
        let apparent = received_at.saturating_sub(self.date);
        let told = self.age.saturating_add(received_at.saturating_sub(self.requested_at));
        apparent.max(told)
    }

    /// For how many seconds of age it is fresh.
    #[must_use]
    pub fn lifetime(&self) -> u64 {
        self.told_lifetime().unwrap_or_else(|| self.guessed_lifetime()).min(self.at_most)
    }

    /// The lifetime that the origin tells, if it does.
    #[must_use]
    pub fn told_lifetime(&self) -> Option<u64> {
        let until = self.expires.map(|expires| expires.saturating_sub(self.date));
        self.directives.s_maxage.or(self.directives.max_age).or(until)
    }

    /// Whether it is fresh at `now`.
    #[must_use]
    pub fn is_fresh(&self, now: impl Into<Time>) -> bool {
        self.age_at(now) < self.lifetime()
    }

    /// A tenth of the time for which it had not changed: what is old changes rarely.
    fn guessed_lifetime(&self) -> u64 {
        if !is_guessable(self.status) && !self.directives.public {
            return 0;
        }
        let tenth = |modified| (self.date.saturating_sub(modified) / 10).min(HEURISTIC_MAX);
        self.last_modified.map_or(self.unsaid, tenth)
    }
}

/// The first number of a list: a field that has one value and got more from a cache on the way means the first (RFC 9111,
/// 5.1).
fn first_number(list: &[u8]) -> Option<u64> {
    list.split(|byte| *byte == b',').next().map(trimmed).and_then(number)
}

/// Whether responses with this status may be kept though nobody said for how long (RFC 9110, 15.1).
pub(super) fn is_guessable(status: StatusCode) -> bool {
    matches!(status.as_u16(), 200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}
