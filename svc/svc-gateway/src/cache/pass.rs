//! A request's way through the cache, before it is admitted.

use std::sync::Arc;

use http::{HeaderMap, Method, Uri};
use httpcache::{
    invalidation,
    reuse::{CONDITIONS, conditions},
    status::{CacheStatus, Forwarded},
};
use ron_transport::{Body, Request, Response};
use types::{Deadline, Reason, Refusal};

use super::{
    Entry, Found, ResponseCache, RouteCache,
    absorb::{Absorbed, Fetch, not_cached},
    ask::{self, Ask, Who},
    entry::tell,
    flights::{self, Flight, Flights, Landed, Turn},
};
use crate::{caller::Caller, passage::Passage, router::Route};

/// How often a request waits for another's answer, if that other's client leaves.
const MAX_TURNS: u32 = 3;

/// What came of looking a request up.
enum LookedUp {
    /// An answer.
    Answer(Response),
    /// A server has to be asked: about this stored response, which answers if the server cannot, if so; and why.
    Ask(Option<Arc<Entry>>, bool, Forwarded),
}

/// What came of looking for another request for the same.
enum Joined {
    /// This one asks, and others may wait for it.
    Alone(Option<Flight>),
    /// The other one's answer.
    Answer(Response),
    /// The other one has its answer, or none.
    LookAgain,
}

/// How a request has waited for others.
struct Wait {
    /// How often it may yet.
    turns: u32,
    /// Whether what it waited for was stored.
    waited: bool,
}

/// What a request was, for when it is sent a second time.
struct Original {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
}

impl Original {
    fn of(request: &Request) -> Self {
        let (method, uri, headers) =
            (request.method().clone(), request.uri().clone(), request.headers().clone());
        Self { method, uri, headers }
    }

    fn restore(&self, request: &mut Request) {
        *request = Request::new(Body::empty());
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
    }
}

impl Passage<'_> {
    /// Answers a request of a route with a cache: from what is stored, or by asking a server.
    pub(crate) async fn pass_cached(
        &mut self,
        caller: &Arc<Caller>,
        (route, cached): (&Arc<Route>, &RouteCache),
        request: &mut Request,
        deadline: Deadline,
    ) -> Result<Response, Refusal> {
        let Some(cache) = self.proxy.shared.cache.get().cloned() else {
            return self.pass_on(caller, route, request, deadline).await;
        };
        let caller = &self.judged(caller, route, request, deadline).await?;
        let ask = {
            let tenant = caller.tenant_field.as_ref().map(http::HeaderValue::as_bytes);
            let who = Who { client: &self.client, survey: &self.survey, tenant };
            Ask::of(cached.route, &who, request)
        };
        let Some(ask) = ask.filter(|ask| !ask.asked.directives.no_store) else {
            return self.pass_by(&cache, caller, route, request, deadline).await;
        };
        let mut wait = Wait { turns: MAX_TURNS, waited: false };
        let (stored, if_error, why, flight) = loop {
            let (stored, if_error, why) =
                match self.look_up(&cache, &ask, cached, (route, caller), request, &wait) {
                    LookedUp::Answer(response) => return Ok(response),
                    LookedUp::Ask(stored, if_error, why) => (stored, if_error, why),
                };
            if ask.asked.directives.only_if_cached {
                return Ok(not_cached());
            }
            match self.join(&cache, &ask, caller, request, &mut wait, deadline).await? {
                Joined::Alone(flight) => break (stored, if_error, why, flight),
                Joined::Answer(response) => return Ok(response),
                Joined::LookAgain => {}
            }
        };
        let fetch = Fetch {
            generation: cache.index.generation(&ask.key),
            sent: request.headers().clone(),
            rules: cached.rules,
            tenant: Arc::clone(&caller.tenant),
            requested_at: cache.now(),
            validates: false,
            stored,
            if_error,
            flight,
            why: if ask.asked.directives.no_cache { Forwarded::Request } else { why },
            ask,
        };
        self.fetch(&cache, fetch, (caller, route), request, deadline).await
    }

    /// Answers from what is stored, or says why that cannot be.
    fn look_up(
        &self,
        cache: &Arc<ResponseCache>,
        ask: &Ask,
        cached: &RouteCache,
        (route, caller): (&Arc<Route>, &Arc<Caller>),
        request: &Request,
        wait: &Wait,
    ) -> LookedUp {
        let hit = |entry: &Arc<Entry>| hit(cache, ask, request, entry, caller, wait.waited);
        let gone = LookedUp::Ask(None, false, Forwarded::UriMiss);
        match cache.find(ask, request, &cached.rules, cache.now()) {
            Found::Fresh(entry) => hit(&entry).map_or(gone, LookedUp::Answer),
            Found::Stale(entry) => {
                self.revalidate(cache, ask, cached, (route, caller), request, &entry);
                hit(&entry).map_or(gone, LookedUp::Answer)
            }
            Found::Validate(entry, if_error) => LookedUp::Ask(Some(entry), if_error, Forwarded::Stale),
            Found::OtherVariants => LookedUp::Ask(None, false, Forwarded::VaryMiss),
            Found::Nothing => gone,
        }
    }

    /// Waits for the answer to another request for the same, if there is one and this one may.
    async fn join(
        &self,
        cache: &Arc<ResponseCache>,
        ask: &Ask,
        caller: &Caller,
        request: &mut Request,
        wait: &mut Wait,
        deadline: Deadline,
    ) -> Result<Joined, Refusal> {
        let may_wait = wait.turns > 0
            && ask.method == Method::GET
            && !ask.asked.directives.no_cache
            && !CONDITIONS.iter().any(|name| request.headers().contains_key(name))
            && !cache.is_known_unstorable(&ask.key, cache.now());
        if !may_wait {
            return Ok(Joined::Alone(None));
        }
        let landing = match Flights::turn(&cache.flights, &ask.key, &ask.partition) {
            Turn::Ours(flight) => return Ok(Joined::Alone(Some(flight))),
            Turn::Theirs(landing) => landing,
        };
        match self.proxy.shared.clock.by(deadline, flights::wait(landing)).await {
            None => return Err(Refusal::from(Reason::DownstreamTimeout)),
            Some(Landed::Stored) if !wait.waited => wait.waited = true,
            Some(Landed::Abandoned) => wait.turns -= 1,
            Some(Landed::Stored | Landed::NotStored) => wait.turns = 0,
            Some(Landed::Filling(fresh)) => {
                if let Some(answer) = cache.answer_filling(ask, request.headers(), &fresh) {
                    caller.tenant.book_request();
                    return Ok(Joined::Answer(answer));
                }
                wait.turns = 0;
            }
        }
        Ok(Joined::LookAgain)
    }

    /// Judges the credential of a request before anything stored is given out: at once if that costs no signature, and with a
    /// slot otherwise.
    async fn judged(
        &mut self,
        caller: &Arc<Caller>,
        route: &Route,
        request: &mut Request,
        deadline: Deadline,
    ) -> Result<Arc<Caller>, Refusal> {
        let _slot =
            if caller.credential.costs_a_signature() { self.admit(caller, 0, deadline).await? } else { None };
        self.authorize(caller, route, request)
    }

    /// Asks a server, and takes its answer in.
    async fn fetch(
        &mut self,
        cache: &Arc<ResponseCache>,
        mut fetch: Fetch,
        (caller, route): (&Arc<Caller>, &Arc<Route>),
        request: &mut Request,
        deadline: Deadline,
    ) -> Result<Response, Refusal> {
        let original = Original::of(request);
        loop {
            if fetch.ask.method == Method::GET
                && let Some(stored) = &fetch.stored
            {
                fetch.validates = put_conditions(request.headers_mut(), stored);
            }
            let response = match self.pass_on(caller, route, request, deadline).await {
                Ok(response) => response,
                Err(refusal) => {
                    let is_down = matches!(refusal.reason, Reason::BadGateway | Reason::DownstreamTimeout);
                    let stale = (is_down && fetch.if_error).then(|| cache.stale_for_error(&fetch, None));
                    return stale.flatten().ok_or(refusal);
                }
            };
            match cache.absorb(fetch, response) {
                Absorbed::Answer(response) => return Ok(response),
                Absorbed::AskAgain(again) => {
                    fetch = *again;
                    fetch.stored = None;
                    fetch.validates = false;
                    original.restore(request);
                }
            }
        }
    }

    /// Passes a request on that the cache has nothing to do with but to forget what it changes.
    async fn pass_by(
        &mut self,
        cache: &ResponseCache,
        caller: &Arc<Caller>,
        route: &Arc<Route>,
        request: &mut Request,
        deadline: Deadline,
    ) -> Result<Response, Refusal> {
        cache.counts.bypass.inc();
        let why = if request.method().is_safe() { Forwarded::Bypass } else { Forwarded::Method };
        let mut response = self.pass_on(caller, route, request, deadline).await?;
        tell(&mut response, &CacheStatus { forwarded: Some(why), ..CacheStatus::default() });
        Ok(response)
    }
}

/// Answers from what is stored; `None` if its body is gone.
fn hit(
    cache: &ResponseCache,
    ask: &Ask,
    request: &Request,
    entry: &Arc<Entry>,
    caller: &Caller,
    waited: bool,
) -> Option<Response> {
    let forwarded = waited.then_some(Forwarded::UriMiss);
    let said = CacheStatus { is_hit: !waited, is_collapsed: waited, forwarded, ..CacheStatus::default() };
    let response = cache.answer_from(ask, request.headers(), entry, said)?;
    caller.tenant.book_request();
    if waited {
        cache.counts.collapsed.inc();
    } else {
        cache.counts.hit.inc();
    }
    Some(response)
}

/// What a write would invalidate: its own target.
pub(crate) struct Written {
    is_https: bool,
    host: String,
    target: String,
    method: Method,
}

impl Written {
    /// The target of a request that may change something.
    pub(crate) fn of(request: &Request, is_https: bool) -> Self {
        let (host, target) = (ask::host(request), ask::target(request).to_owned());
        Self { is_https, host, target, method: request.method().clone() }
    }

    /// Invalidates what is stored of it and of what its answer names, if the write has succeeded.
    pub(crate) fn invalidate(&self, cache: &ResponseCache, response: &Response) {
        if !invalidation::invalidates(&self.method, response.status()) {
            return;
        }
        cache.invalidate(self.is_https, &self.host, &self.target);
        let path = self.target.split('?').next().unwrap_or_default();
        let scheme = ask::scheme(self.is_https);
        for target in invalidation::named_targets(response.headers(), scheme, &self.host, path) {
            cache.invalidate(self.is_https, &self.host, &target);
        }
    }
}

/// Makes a request validate a stored response, if that has a validator; whether it has.
pub(super) fn put_conditions(headers: &mut HeaderMap, stored: &Entry) -> bool {
    let ours = conditions(&stored.head.headers);
    if ours.is_empty() || stored.head.part.is_some() {
        return false;
    }
    for name in &CONDITIONS {
        headers.remove(name);
    }
    headers.extend(ours);
    true
}
