//! Asks an origin for an object, and follows it where it sends us, as long as that is on the list.

use std::sync::Arc;

use http::{HeaderMap, StatusCode, header};
use httprules::{
    date,
    freshness::{Stored, Time},
};
use ron_kernel::Clock;
use ron_transport::Response;
use types::Reason;

use super::{
    OriginUrl,
    client::{Client, Validators},
    failure::Failure,
    pool::WayHome,
    settings::FillSettings,
};

/// Redirects that are followed.
const MAX_REDIRECTS: u32 = 3;

/// What an origin answers, its body still to come.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) response: Response,
    pub(super) home: Arc<WayHome>,
    /// Whose answer it is: the origin's, or that of where it sent us.
    pub(super) from: OriginUrl,
    /// In seconds since 1970, when the last of the requests was sent and its answer came.
    pub(super) requested_at: u64,
    pub(super) received_at: Time,
    /// For how many seconds it holds that the object is there, going by the redirects.
    pub(super) at_most: u64,
    /// Whether the origin redirected the request.
    pub(super) redirected: bool,
}

impl Answer {
    /// What tells how long the answer may be reused.
    pub(super) fn stored(&self, unsaid: u64) -> Stored {
        let of =
            Stored::of(self.response.status(), self.response.headers(), self.requested_at, self.received_at);
        Stored { unsaid, at_most: self.at_most, ..of }
    }
}

/// Asks for an object; the validators are shown to its own origin alone.
///
/// Cancel safe: dropping the future closes the connection it uses.
pub(super) async fn ask(
    client: &Client,
    settings: &FillSettings,
    clock: Clock,
    url: &OriginUrl,
    validators: &Validators,
) -> Result<Answer, Failure> {
    let none = Validators::default();
    let (mut from, mut at_most, mut redirects) = (url.clone(), u64::MAX, 0);
    loop {
        let shown = if redirects == 0 { validators } else { &none };
        let requested_at = clock.unix().as_secs();
        let (response, home) = client.get(&from, shown, settings.connect_timeout).await?;
        let received_at = time(clock);
        let status = response.status();
        if !is_redirect(status) {
            let redirected = redirects > 0;
            return Ok(Answer { response, home, from, requested_at, received_at, at_most, redirected });
        }
        redirects += 1;
        if redirects > MAX_REDIRECTS {
            return Err(Failure::refused(Reason::BadGateway, "the origin redirects too often"));
        }
        let hop = Stored::of(status, response.headers(), requested_at, received_at);
        at_most = at_most.min(lifetime_of_redirect(&hop));
        let to = location(response.headers()).ok_or(Failure::Status { status, retry_after: None })?;
        from = settings.redirected(&from, to)?;
    }
}

/// Returns the current time.
pub(super) fn time(clock: Clock) -> Time {
    Time { unix: clock.unix().as_secs(), steady: clock.steady_unix().as_secs() }
}

/// Those that lead to another place for a GET.
fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// For how many seconds from now a redirect may be relied on: a permanent one as long as it does not say otherwise.
fn lifetime_of_redirect(hop: &Stored) -> u64 {
    let permanent = matches!(hop.status.as_u16(), 301 | 308);
    let lifetime = hop.told_lifetime().unwrap_or(if permanent { u64::MAX } else { 0 });
    if hop.directives.no_store || hop.directives.no_cache {
        return 0;
    }
    lifetime.saturating_sub(hop.age_when_received())
}

fn location(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::LOCATION)?.to_str().ok()
}

/// How many seconds an answer asks to be left alone.
pub(super) fn retry_after(headers: &HeaderMap, now: u64) -> Option<u64> {
    date::delay(headers.get(header::RETRY_AFTER)?.as_bytes(), now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn a_temporary_redirect_is_relied_on_only_as_long_as_it_says() {
        let lifetime = |status: u16, cache_control: &'static str| {
            let mut headers = HeaderMap::new();
            if !cache_control.is_empty() {
                headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache_control));
            }
            let status = StatusCode::from_u16(status).expect("a status");
            lifetime_of_redirect(&Stored::of(status, &headers, 1000, 1000))
        };
        assert_eq!(lifetime(302, ""), 0);
        assert_eq!(lifetime(307, "max-age=60"), 60);
        assert_eq!(lifetime(301, ""), u64::MAX);
        assert_eq!(lifetime(308, "max-age=60"), 60);
        assert_eq!(lifetime(301, "no-store"), 0);
        assert_eq!(lifetime(301, "no-cache, max-age=60"), 0);
    }
}
