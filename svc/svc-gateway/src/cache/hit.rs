//! Answers from what is stored.

use std::sync::Arc;

use http::HeaderValue;
use httpcache::status::{CacheStatus, Forwarded};
use ron_transport::{Request, Response};
use types::Refusal;

use super::{
    Entry, Found, ResponseCache, RouteCache,
    absorb::Asker,
    ask::{Ask, Who},
    load::Loaded,
};
use crate::{caller::Caller, passage::Passage, router::Route};

/// The result of a lookup in memory.
pub(crate) enum AtOnce {
    /// The response for the client.
    Answer(Response),
    /// There is more to do than that. What the cache knows the request by, if that was found out.
    Later(Option<Ask>),
}

impl Passage<'_> {
    /// Answers a request with a fresh response that is in memory, for which nothing has to be waited for: most requests of a
    /// busy cache need no more than this.
    ///
    /// # Errors
    /// If the request may not be answered.
    pub(crate) fn answer_at_once(
        &mut self,
        caller: &Arc<Caller>,
        (route, cached): (&Route, &RouteCache),
        request: &Request,
    ) -> Result<AtOnce, Refusal> {
        let Some(cache) = self.proxy.shared.cache.get() else { return Ok(AtOnce::Later(None)) };
        if caller.credential.costs_a_signature() {
            return Ok(AtOnce::Later(None));
        }
        let caller = self.authorize(caller, route, request)?;
        let Some(ask) = self.ask(&caller, cached, request) else { return Ok(AtOnce::Later(None)) };
        if ask.asked.directives.no_store {
            return Ok(AtOnce::Later(Some(ask)));
        }
        let Found::Fresh(entry) = cache.find(&ask, request, &cached.rules, cache.now()) else {
            return Ok(AtOnce::Later(Some(ask)));
        };
        let asker = Asker { ask: &ask, headers: request.headers(), rules: &cached.rules };
        let answer = hit(cache, (&asker, &caller), &entry, None, false);
        Ok(answer.map_or_else(|| AtOnce::Later(Some(ask)), AtOnce::Answer))
    }

    /// What the cache knows a request by; `None` if it is none of its business.
    pub(super) fn ask(&self, caller: &Caller, cached: &RouteCache, request: &Request) -> Option<Ask> {
        let tenant = caller.tenant_field.as_ref().map(HeaderValue::as_bytes);
        let who = Who { client: &self.client, survey: &self.survey, tenant };
        Ask::of(cached, &who, request)
    }
}

/// Answers from what is stored, whose body is `held` if it is not in memory by itself; `None` if it cannot be had. `waited`
/// says whether it was stored while the request waited for it.
pub(super) fn hit(
    cache: &ResponseCache,
    (asker, caller): (&Asker<'_>, &Caller),
    entry: &Arc<Entry>,
    held: Option<&Loaded>,
    waited: bool,
) -> Option<Response> {
    let forwarded = waited.then_some(Forwarded::UriMiss);
    let said = CacheStatus { is_hit: !waited, is_collapsed: waited, forwarded, ..CacheStatus::default() };
    let response = cache.answer_from(asker, entry, held, said)?;
    caller.tenant.book_request();
    if waited {
        cache.counts.collapsed.inc();
    } else {
        cache.counts.hit.inc();
    }
    Some(response)
}
