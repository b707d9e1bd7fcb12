//! A request's way through the cache, before it is admitted.

use std::{ops::Range, sync::Arc};

use http::{HeaderMap, Method, Uri, Version};
use httpcache::{
    reuse::{CONDITIONS, conditions},
    status::{CacheStatus, Forwarded},
    storage::Rules,
};
use ron_transport::{Body, Request, Response};
use types::{Deadline, Reason, Refusal};

use super::{
    Entry, Found, ResponseCache, RouteCache,
    absorb::{Absorbed, Asker, Fetch, not_cached},
    ask::Ask,
    entry::tell,
    flights::{self, Flights, Landed, Place, Turn},
    hit::hit,
    lead::Lead,
    load::Loaded,
    parts::put_gap,
};
use crate::{
    caller::Caller,
    passage::Passage,
    router::{GoesTo, Route},
};

/// How often a request waits for another's answer, if that other gets none. More would have a client wait several times as long
/// as its server may take.
const MAX_TURNS: u32 = 1;
/// How often a request waits for another of its own queue to be admitted.
const MAX_QUEUES: u32 = 8;

/// A longer head can be what its server refuses a request for: common servers take 8 KiB, some 4.
const USUAL_HEAD: usize = 3 * 1024;

/// What came of looking a request up.
enum LookedUp {
    /// A stored response that answers it.
    Hit(Arc<Entry>),
    /// A server has to be asked.
    Ask(Question),
}

/// What a server is asked for.
#[derive(Debug)]
struct Question {
    /// The stored response that the request is about.
    stored: Option<Arc<Entry>>,
    /// The body of the stored response, if it is loaded.
    held: Option<Loaded>,
    /// What is asked for to complete it, if it is a part.
    gap: Option<Range<u64>>,
    /// Whether it answers if the server cannot.
    if_error: bool,
    why: Forwarded,
}

impl Question {
    /// A question about nothing that is stored.
    const fn anew(why: Forwarded) -> Self {
        Self { stored: None, held: None, gap: None, if_error: false, why }
    }
}

/// What came of looking for another request for the same.
enum Joined {
    /// This one asks, for itself alone.
    Alone,
    /// This one was admitted and asks for everybody.
    Leads(Lead),
    /// The other one's answer.
    Answer(Response),
    /// The other one has its answer, or none.
    LookAgain,
}

/// What came of a request before a server is asked.
enum Asked {
    /// A response for the client.
    Answer(Response),
    /// A server is to be asked this, and others may wait for its answer.
    Server(Question, Option<Lead>),
}

/// How a request has waited for others.
struct Wait {
    /// How often it may yet wait for an answer.
    turns: u32,
    /// How often it may yet wait for another of its queue.
    queues: u32,
    /// Whether what it waited for was stored.
    waited: bool,
}

/// What a request was, for when it is sent a second time.
struct Original {
    method: Method,
    uri: Uri,
    version: Version,
    headers: HeaderMap,
}

impl Original {
    fn of(request: &Request) -> Self {
        let (method, uri, headers) =
            (request.method().clone(), request.uri().clone(), request.headers().clone());
        Self { method, uri, version: request.version(), headers }
    }

    fn restore(&self, request: &mut Request) {
        *request = Request::new(Body::empty());
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.uri.clone();
        *request.version_mut() = self.version;
        *request.headers_mut() = self.headers.clone();
    }
}

impl Passage<'_> {
    /// Answers a request of a route with a cache: from what is stored, or by asking a server. `ask` is what the cache knows it
    /// by, if that has been found out.
    pub(crate) async fn pass_cached(
        &mut self,
        caller: &Arc<Caller>,
        (route, cached): (&Arc<Route>, &RouteCache),
        (request, ask): (&mut Request, Option<Ask>),
        deadline: Deadline,
    ) -> Result<Response, Refusal> {
        let Some(cache) = self.proxy.shared.cache.get().cloned() else {
            return self.pass_on(caller, route, request, deadline).await;
        };
        let caller = &self.judged(caller, route, request, deadline).await?;
        let ask = ask.or_else(|| self.ask(caller, cached, request));
        let Some(mut ask) = ask.filter(|ask| !ask.asked.directives.no_store) else {
            return self.pass_by((&cache, &cached.rules), caller, route, request, deadline).await;
        };
        ask.asked.has_conditions |= is_large(request.headers());
        let (question, lead) =
            match self.answer_or_ask(&cache, &ask, cached, (route, caller), request, deadline).await? {
                Asked::Answer(response) => return Ok(response),
                Asked::Server(question, lead) => (question, lead),
            };
        let fetch = Fetch {
            generation: cache.index.generation(&ask.key),
            sent: request.headers().clone(),
            rules: cached.rules,
            tenant: Arc::clone(&caller.tenant),
            requested_at: cache.now().unix,
            validates: false,
            stored: question.stored,
            held: question.held,
            gap: question.gap,
            if_error: question.if_error,
            flight: None,
            why: if ask.asked.directives.no_cache { Forwarded::Request } else { question.why },
            forwarded_status: None,
            ask,
        };
        self.fetch(&cache, (fetch, lead), (caller, route), request, deadline).await
    }

    /// Answers from what is stored or is on its way, or says what a server is to be asked.
    async fn answer_or_ask(
        &self,
        cache: &Arc<ResponseCache>,
        ask: &Ask,
        cached: &RouteCache,
        (route, caller): (&Arc<Route>, &Arc<Caller>),
        request: &mut Request,
        deadline: Deadline,
    ) -> Result<Asked, Refusal> {
        let mut wait = Wait { turns: MAX_TURNS, queues: MAX_QUEUES, waited: false };
        loop {
            let question = match self.look_up(cache, ask, cached, (route, caller), request) {
                LookedUp::Ask(question) if ask.method == Method::GET => {
                    cache.with_body(question, caller).await
                }
                LookedUp::Ask(question) => question,
                LookedUp::Hit(entry) => {
                    let asker = Asker { ask, headers: request.headers(), rules: &cached.rules };
                    let mut response = hit(cache, (&asker, caller), &entry, None, wait.waited);
                    if response.is_none()
                        && let Some(held) = cache.load(&entry, &caller.tenant).await
                    {
                        let asker = Asker { ask, headers: request.headers(), rules: &cached.rules };
                        response = hit(cache, (&asker, caller), &entry, Some(&held), wait.waited);
                    }
                    if let Some(response) = response {
                        return Ok(Asked::Answer(response));
                    }
                    Question::anew(Forwarded::UriMiss)
                }
            };
            if ask.asked.directives.only_if_cached {
                return Ok(Asked::Answer(not_cached()));
            }
            match self.join(cache, (ask, cached), caller, request, &mut wait, deadline).await? {
                Joined::Alone => return Ok(Asked::Server(question, None)),
                Joined::Leads(lead) => return Ok(Asked::Server(question, Some(lead))),
                Joined::Answer(response) => return Ok(Asked::Answer(response)),
                Joined::LookAgain => {}
            }
        }
    }

    /// Finds a stored response that answers a request, or says what a server is to be asked. What is stale and answers all
    /// the same begins to be validated.
    fn look_up(
        &self,
        cache: &Arc<ResponseCache>,
        ask: &Ask,
        cached: &RouteCache,
        (route, caller): (&Arc<Route>, &Arc<Caller>),
        request: &Request,
    ) -> LookedUp {
        match cache.find(ask, request, &cached.rules, cache.now()) {
            Found::Fresh(entry) => LookedUp::Hit(entry),
            Found::Stale(entry) => {
                self.revalidate(cache, ask, cached, (route, caller), request, &entry);
                LookedUp::Hit(entry)
            }
            Found::Validate(entry, if_error) => {
                let question = Question { stored: Some(entry), if_error, ..Question::anew(Forwarded::Stale) };
                LookedUp::Ask(question)
            }
            Found::OtherVariants => LookedUp::Ask(cache.question_about_others(ask, request)),
            Found::Nothing => LookedUp::Ask(Question::anew(Forwarded::UriMiss)),
        }
    }

    /// Waits for the answer to another request for the same, if there is one and this one may, or for a slot to ask for all.
    async fn join(
        &self,
        cache: &Arc<ResponseCache>,
        (ask, cached): (&Ask, &RouteCache),
        caller: &Arc<Caller>,
        request: &mut Request,
        wait: &mut Wait,
        deadline: Deadline,
    ) -> Result<Joined, Refusal> {
        let may_wait = wait.turns > 0
            && wait.queues > 0
            && ask.method == Method::GET
            && !ask.asked.directives.no_cache
            && !ask.is_conditional
            && !cache.is_known_unstorable(ask, cache.now());
        if !may_wait {
            return Ok(Joined::Alone);
        }
        let late = || Refusal::from(Reason::DownstreamTimeout);
        let generation = cache.index.generation(&ask.key);
        let landing = match Flights::turn(&cache.flights, ask, generation, caller) {
            Turn::Ours(place) => return self.queue_for_all(place, caller, deadline).await,
            Turn::Queued(mut place) => {
                wait.queues -= 1;
                let over = self.proxy.shared.clock.by(deadline, flights::over(&mut place)).await;
                return over.map(|()| Joined::LookAgain).ok_or_else(late);
            }
            Turn::Asked(landing) => landing,
        };
        match self.proxy.shared.clock.by(deadline, flights::wait(landing)).await.ok_or_else(late)? {
            Landed::Stored if !wait.waited => wait.waited = true,
            Landed::Abandoned => wait.turns -= 1,
            Landed::Stored | Landed::NotStored => wait.turns = 0,
            Landed::Filling(fresh) => {
                let asker = Asker { ask, headers: request.headers(), rules: &cached.rules };
                if let Some(answer) = cache.answer_filling(&asker, &fresh) {
                    caller.tenant.book_request();
                    return Ok(Joined::Answer(answer));
                }
                wait.turns = 0;
            }
        }
        Ok(Joined::LookAgain)
    }

    /// Waits for a slot to ask with, unless another request for the same is admitted first.
    async fn queue_for_all(
        &self,
        mut place: Place,
        caller: &Arc<Caller>,
        deadline: Deadline,
    ) -> Result<Joined, Refusal> {
        let slot = tokio::select! {
            biased;
            () = place.overtaken() => return Ok(Joined::LookAgain),
            slot = self.admit(caller, 0, deadline) => slot?,
        };
        Ok(place.take_off().map_or(Joined::LookAgain, |flight| Joined::Leads(Lead { flight, slot })))
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

    /// Asks a server, for others as well if this request leads, and takes its answer in.
    async fn fetch(
        &mut self,
        cache: &Arc<ResponseCache>,
        (mut fetch, mut lead): (Fetch, Option<Lead>),
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
                fetch.gap = fetch.gap.filter(|gap| put_gap(request.headers_mut(), stored, gap));
            }
            let fallback = fetch.fallback();
            let absorbed =
                self.ask_server((cache, fetch, lead.take()), (caller, route), request, deadline).await;
            match absorbed {
                Ok(Absorbed::Answer(response)) => return Ok(response),
                Ok(Absorbed::AskAgain(again)) => {
                    fetch = *again;
                    fetch.stored = None;
                    fetch.held = None;
                    fetch.validates = false;
                    fetch.gap = None;
                    // It waits for a slot again, and others must not wait for that.
                    fetch.flight = None;
                    original.restore(request);
                }
                Err(refusal) => {
                    // A client that is with a short deadline says nothing about its server.
                    let is_down = |fetch: &Fetch| match refusal.reason {
                        Reason::BadGateway => true,
                        Reason::DownstreamTimeout => !fetch.ask.has_deadline,
                        _ => false,
                    };
                    let stale = fallback.filter(is_down).and_then(|it| cache.stale_for_error(&it, None));
                    return stale.ok_or(refusal);
                }
            }
        }
    }

    /// Asks a server once.
    async fn ask_server(
        &mut self,
        (cache, mut fetch, lead): (&Arc<ResponseCache>, Fetch, Option<Lead>),
        (caller, route): (&Arc<Caller>, &Arc<Route>),
        request: &mut Request,
        deadline: Deadline,
    ) -> Result<Absorbed, Refusal> {
        let response = match (lead, &route.goes_to) {
            (None, _) => self.pass_on(caller, route, request, deadline).await?,
            (Some(lead), GoesTo::Upstreams(split)) if !route.stream => {
                let share = split.next();
                return self.lead((cache, fetch, lead), share, (caller, route), request, deadline).await;
            }
            (Some(Lead { flight, slot }), _) => {
                fetch.flight = Some(flight);
                self.pass_admitted(caller, route, (request, None), slot, deadline).await?
            }
        };
        Ok(cache.absorb(fetch, response))
    }

    /// Passes a request on that the cache has nothing to do with but to forget what it changes.
    async fn pass_by(
        &mut self,
        (cache, rules): (&ResponseCache, &Rules),
        caller: &Arc<Caller>,
        route: &Arc<Route>,
        request: &mut Request,
        deadline: Deadline,
    ) -> Result<Response, Refusal> {
        cache.counts.bypass.inc();
        let why = if request.method().is_safe() { Forwarded::Bypass } else { Forwarded::Method };
        let mut response = self.pass_on(caller, route, request, deadline).await?;
        tell(&mut response, &CacheStatus { forwarded: Some(why), ..CacheStatus::default() }, rules);
        Ok(response)
    }
}

impl ResponseCache {
    /// What a server is asked if nothing that is stored of the target answers the request.
    fn question_about_others(&self, ask: &Ask, request: &Request) -> Question {
        match self.completable(ask, request) {
            Some((part, gap)) => {
                Question { stored: Some(part), gap: Some(gap), ..Question::anew(Forwarded::Partial) }
            }
            None => Question::anew(Forwarded::VaryMiss),
        }
    }

    /// Has the body at hand of what a server is asked about, so that the answer can be that it is unchanged. Without the body
    /// the server is asked for all of it.
    async fn with_body(&self, question: Question, caller: &Caller) -> Question {
        let Some(stored) = &question.stored else { return question };
        match self.load(stored, &caller.tenant).await {
            Some(held) => Question { held: Some(held), ..question },
            None => Question::anew(question.why),
        }
    }
}

/// Whether a request's head is so large that its server may refuse it for that.
fn is_large(headers: &HeaderMap) -> bool {
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    bytes > USUAL_HEAD
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
