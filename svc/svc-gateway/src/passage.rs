//! A request's way through the gateway: one list of layers, each of which can refuse before the next spends anything.

mod checks;
mod onward;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use http::{HeaderName, HeaderValue, Method, Version};
use http_body::Body as _;
use ron_kernel::{Clock, blame::ClientId, lock::Ranked};
use ron_transport::{
    Conn, Request, Response, UploadWatch, deadline,
    tunnel::{Traffic, TunnelEnd, TunnelLimits, TunnelWatch},
};
use types::{ActorId, Deadline, Moment, Reason, Refusal};

use checks::Decision;

use crate::{
    access_log::Entry,
    admission::Slot,
    buffers::{self, Reserved},
    cache::{AtOnce, Written},
    caller::{Caller, ConnMemo},
    client_addr::Client,
    guard::{self, BodyLimits, Breach, Payer},
    local::Local,
    locks,
    message::{self, Field, Survey},
    policy::Policy,
    proxy::Proxy,
    quotas::{self, Verdict},
    router::{GoesTo, Route, Share},
    tenant::StreamPlace,
    trace::Trace,
    transfer::{Holding, InterimTo},
    upstream::{Held, Occupancy, STREAMS_RETRY, Sent},
    views::{self, UpstreamSender, View},
};

/// When a refused write may be tried again: lost tasks are back within a second.
const DEGRADED_RETRY: Duration = Duration::from_secs(1);

/// What a view keeps of its deadline for putting the answer together.
const VIEW_RESERVE: Duration = Duration::from_millis(5);

/// One request on its way.
pub(crate) struct Passage<'a> {
    pub(crate) proxy: &'a Proxy,
    pub(crate) conn: &'a Conn<ConnMemo>,
    pub(crate) policy: &'a Policy,
    pub(crate) survey: Survey,
    pub(crate) client: Client,
    pub(crate) trace: &'a Trace,
    pub(crate) began: Moment,
    /// What is told of it when it is over: its line in the access log, its span.
    pub(crate) entry: Option<&'a mut Entry>,
    /// What the client is told of its rates.
    pub(crate) allowance: Option<Verdict>,
    /// The user whose password was right, on routes that ask for one.
    pub(crate) user: Option<String>,
    /// Whether refusals are said in gRPC's words.
    pub(crate) is_grpc: bool,
    /// What the request may invalidate in the cache; `None` for reads, and without a cache.
    pub(crate) written: Option<Arc<Written>>,
}

impl Passage<'_> {
    /// The layers, in their order.
    ///
    /// # Errors
    /// The refusal of the first layer that does not let the request pass.
    pub(crate) async fn pass(
        &mut self,
        route: &Arc<Route>,
        request: &mut Request,
    ) -> Result<Response, Refusal> {
        if !route.addresses.permits(self.client.origin()) {
            self.charge_client()?;
            return Err(Refusal::new(Reason::Forbidden, "clients with this address are not allowed"));
        }
        if let Some(preflight) = route.browser.as_ref().and_then(|browser| browser.preflight(request)) {
            self.charge_client()?;
            self.charge_route(route)?;
            return Ok(preflight);
        }
        if let Some(answer) = self.answer_itself(route, request).transpose() {
            self.charge_client()?;
            self.charge_route(route)?;
            return answer;
        }
        let caller = self.caller(request);
        self.note_caller(&caller);
        let wish = route.compress.as_ref().map(|compress| compress.wish(request));
        let mut passed = self.pass_for(&caller, route, request).await;
        if let (Some(compress), Some(wish), Ok(response)) = (&route.compress, wish, &mut passed) {
            compress.apply(wish, response, &caller.tenant, &self.proxy.shared.buffers);
        }
        passed.inspect_err(|refusal| caller.tenant.refused(refusal.reason))
    }

    /// The layers that know whose request it is.
    async fn pass_for(
        &mut self,
        caller: &Arc<Caller>,
        route: &Arc<Route>,
        request: &mut Request,
    ) -> Result<Response, Refusal> {
        let limits = self.body_limits(route);
        self.charge_rates(caller)?;
        self.charge_route(route)?;
        guard::declared(request, &limits)?;
        caller.credential.refuse_forged()?;
        self.refuse_writes_while_degraded(request.method())?;
        let deadline = self.deadline(route, request);
        if deadline.remaining(self.began).is_zero() {
            // What is sent nevertheless would be done, and its client told that it was not.
            return Err(Refusal::new(Reason::DownstreamTimeout, "the request's deadline has passed"));
        }
        if let Some(basic) = &route.basic_auth {
            Box::pin(self.check_password(basic, request, deadline)).await?;
        }
        if let Some(cached) = &route.cache {
            cached.normalize(request, self.client.is_https);
        }
        if let Some(cached) = &route.cache
            && request.method().is_safe()
        {
            let ask = match self.answer_at_once(caller, (route, cached), request)? {
                AtOnce::Answer(response) => return Ok(response),
                AtOnce::Later(ask) => ask,
            };
            // Boxed, so that the way of other requests is not made longer by it.
            return Box::pin(self.pass_cached(caller, (route, cached), (request, ask), deadline)).await;
        }
        let Some(cache) = self.proxy.shared.cache.get().filter(|_| !request.method().is_safe()) else {
            return self.pass_on(caller, route, request, deadline).await;
        };
        let written = Written::of(cache, request, self.client.is_https);
        self.written = Some(Arc::clone(&written));
        let response = self.pass_on(caller, route, request, deadline).await?;
        if written.answered(response.status(), response.headers()) {
            written.settled(deadline).await;
        }
        Ok(response)
    }

    /// The layers from admission on.
    pub(crate) async fn pass_on(
        &mut self,
        caller: &Arc<Caller>,
        route: &Arc<Route>,
        request: &mut Request,
        deadline: Deadline,
    ) -> Result<Response, Refusal> {
        if route.stream {
            request.body_mut().allow_any_time();
        }
        let upload = request.body_mut().watch_upload();
        self.read_small_body(caller, route, request, deadline).await?;
        let body_len = request.body().size_hint().lower();
        let slot = self.admit(caller, body_len, deadline).await?;
        self.pass_admitted(caller, route, (request, upload), slot, deadline).await
    }

    /// The layers behind admission.
    pub(crate) async fn pass_admitted(
        &mut self,
        caller: &Arc<Caller>,
        route: &Arc<Route>,
        (request, upload): (&mut Request, Option<UploadWatch>),
        slot: Option<Slot>,
        deadline: Deadline,
    ) -> Result<Response, Refusal> {
        let caller = &self.authorize(caller, route, request)?;
        let upload = upload.filter(|_| !request.body().is_whole());
        if let Some(entry) = &mut self.entry {
            entry.count(request);
        }
        let mut breach = None;
        let answered = self.forward(route, caller, (request, upload), (slot, &mut breach), deadline).await;
        answered.map_err(|refusal| breach.as_ref().and_then(Breach::refusal).unwrap_or(refusal))
    }

    /// Refuses a request that names several tenants in one field, or what cannot be a tenant's name, or has the field removed:
    /// one would be judged, and servers could believe another.
    pub(crate) fn check_tenant_fields(&self, request: &Request) -> Result<(), Refusal> {
        let headers = request.headers();
        let is_no_name = |value: &HeaderValue| {
            !value.is_empty() && !value.to_str().is_ok_and(|name| ActorId::new(name).is_ok())
        };
        let is_unclear = |name: &&HeaderName| {
            message::is_several(headers, name)
                || self.survey.dooms(name)
                || headers.get(*name).is_some_and(is_no_name)
        };
        match self.policy.tenant_fields.iter().find(is_unclear) {
            None => Ok(()),
            Some(name) => {
                let detail = format!("{name} is said once, is a name, and is not named by Connection");
                Err(Refusal::new(Reason::Malformed, detail))
            }
        }
    }

    /// Reads a small body before the request takes a slot, if there is memory for it. Not that of a request whose client may
    /// want something from the server before it sends all of it.
    async fn read_small_body(
        &self,
        caller: &Caller,
        route: &Route,
        request: &mut Request,
        deadline: Deadline,
    ) -> Result<(), Refusal> {
        let most = self.policy.buffer_body_bytes;
        let converses = self.is_grpc || route.stream || self.survey.fields.has(Field::Expect);
        if converses || !buffers::is_small(request.body(), most) {
            return Ok(());
        }
        let bytes = request.body().size_hint().exact().unwrap_or(most);
        match self.proxy.shared.buffers.reserve(&caller.tenant, bytes) {
            None => Ok(()),
            Some(reserved) => {
                buffers::read_ahead(request, most, reserved, self.proxy.shared.clock, deadline).await
            }
        }
    }

    /// The gateway's own answer to a request; `None` if it is to be passed on.
    fn answer_itself(&self, route: &Route, request: &Request) -> Result<Option<Response>, Refusal> {
        let Some(own) = &route.own_answer else { return Ok(None) };
        let mut answer = own.answer(request, self.client.is_https)?;
        if let Some(answer) = &mut answer {
            route.response_headers.apply(answer.headers_mut());
        }
        Ok(answer)
    }

    /// Returns the caller that the request is from.
    fn caller(&self, request: &Request) -> Arc<Caller> {
        let (shared, headers) = (&self.proxy.shared, request.headers());
        Caller::of(&self.client, self.conn.memo(), headers, self.policy, shared, self.began)
    }

    fn body_limits(&self, route: &Route) -> BodyLimits {
        let all = self.policy.body;
        BodyLimits { max_body_bytes: route.max_body_bytes.unwrap_or(all.max_body_bytes), ..all }
    }

    /// The rate of the client's address alone, for what is answered without asking whose request it is.
    pub(crate) fn charge_client(&mut self) -> Result<(), Refusal> {
        let client = self.proxy.shared.client(self.client.key, self.began);
        self.charged(self.policy.rates.charge_client(&client, self.began))
    }

    fn charge_rates(&mut self, caller: &Caller) -> Result<(), Refusal> {
        self.charged(self.policy.rates.charge(caller, self.began))
    }

    pub(crate) fn charged(&mut self, verdict: Result<Option<Verdict>, Verdict>) -> Result<(), Refusal> {
        match verdict {
            Ok(allowance) => {
                self.allowance = allowance.or(self.allowance.take());
                Ok(())
            }
            Err(used_up) => {
                let (client, shared, now) = (self.client.key, &self.proxy.shared, self.began);
                quotas::cut_off_floods(self.conn, client, self.policy, shared, now);
                let refusal = used_up.refusal();
                self.allowance = Some(used_up);
                Err(refusal)
            }
        }
    }

    /// While capacity is lost, writes are shed in favour of reads. A drain is different: admitted requests are answered.
    fn refuse_writes_while_degraded(&self, method: &Method) -> Result<(), Refusal> {
        if method.is_safe() || self.proxy.shutdown.is_draining() {
            return Ok(());
        }
        self.proxy
            .readiness
            .admit_write()
            .map_err(|degraded| Refusal::from(degraded).retry_after(DEGRADED_RETRY))
    }

    /// By when the response's head must be there: what the route allows, and the client if it is in more of a hurry. The
    /// upstream's own timeout counts from when it is asked.
    fn deadline(&self, route: &Route, request: &Request) -> Deadline {
        let fields = self.survey.fields;
        let wished = if Field::DEADLINES.into_iter().any(|field| fields.has(field)) {
            deadline::wished(request.headers(), self.began, self.proxy.shared.clock.unix())
        } else {
            Deadline::NEVER
        };
        route.timeout.map_or(wished, |timeout| wished.tightened(Deadline::within(self.began, timeout)))
    }

    pub(crate) async fn admit(
        &self,
        caller: &Arc<Caller>,
        body_len: u64,
        deadline: Deadline,
    ) -> Result<Option<Slot>, Refusal> {
        let extra_units = u32::try_from(body_len / self.policy.quantum_bytes).unwrap_or(u32::MAX);
        let held = self.conn.memo().promises();
        self.proxy.door.enter(caller, &self.policy.drr, extra_units, (self.began, deadline), held).await
    }

    /// Judges the credential. Returns the caller as it is known now: a JWT names its tenant once it is verified.
    pub(crate) fn authorize(
        &mut self,
        caller: &Arc<Caller>,
        route: &Route,
        request: &Request,
    ) -> Result<Arc<Caller>, Refusal> {
        let asked = captoken::Request {
            path: request.uri().path(),
            method: request.method().as_str(),
            ip: self.client.origin().address(),
            now: 0,
            tenant: None,
            scope: None,
            session: None,
        };
        let (policy, shared, headers) = (self.policy, &self.proxy.shared, request.headers());
        let needed = route.wants_credential(request.method());
        let verified = caller.credential.authorize(needed, headers, policy, &shared.clock, asked)?;
        let Some(claims) = verified else {
            route.check_claims(&caller.credential)?;
            return Ok(Arc::clone(caller));
        };
        let now = shared.clock.now();
        let caller = Caller::verified(&claims, &self.client, self.conn.memo(), headers, policy, shared, now);
        self.note_caller(&caller);
        // Otherwise a tenant with a new token for each request would have no rate.
        self.charged(policy.rates.charge_tenant(&caller.tenant, now))?;
        route.check_claims(&caller.credential)?;
        Ok(caller)
    }

    /// Tells the access log and the trace whose request it is.
    fn note_caller(&mut self, caller: &Caller) {
        if let Some(entry) = &mut self.entry {
            entry.line().class = caller.tenant.key.class.name();
            entry.line().tenant = Some(caller.tenant.key.name.clone());
        }
    }

    /// Sends the request on and the answer back. The slot ends with the upstream's last byte, or with the head of an answer
    /// that is a stream.
    async fn forward(
        &mut self,
        route: &Arc<Route>,
        caller: &Caller,
        (request, upload): (&mut Request, Option<UploadWatch>),
        (slot, breach): (Option<Slot>, &mut Option<Breach>),
        deadline: Deadline,
    ) -> Result<Response, Refusal> {
        let upgrade = message::upgrade_wanted(request, &self.survey, &route.upgrade);
        let stream =
            if route.stream || upgrade.is_some() { Some(self.open_stream(caller, route)?) } else { None };
        let mut holding = self.proxy.transfers.hold(
            slot,
            (&caller.tenant, caller.address),
            self.proxy.door.slow_after(),
            self.policy.max_streams,
        );
        holding.watch_upload(request.body_mut());
        // Behind that: what decoders make it wait for is not the client's doing.
        let payer = Payer::tenant(&self.proxy.shared.decoding, &caller.tenant);
        *breach = guard::guard(request, &self.body_limits(route), payer)?;
        let mut said_of_client = None;
        if let Some(auth) = &route.forward_auth {
            let question = self.question(auth, caller, route, request);
            match Box::pin(self.ask_decider(auth, question, &mut holding, deadline)).await? {
                Decision::Passes(said) => said_of_client = Some((auth, said)),
                Decision::Denied(denied) => return Ok(holding.into_response(denied)),
            }
        }
        let interim = self.interim(route, request);
        self.make_onward(caller, route, request, upgrade)?;
        // From here on it is a request to the route's own server: what came before wrote nothing, and told the client nothing.
        holding.writes(self.written.take());
        holding.tells(interim);
        if let (Some(basic), Some(user)) = (&route.basic_auth, self.user.take()) {
            basic.tell(&user, request.headers_mut());
        }
        if let Some((auth, said)) = said_of_client {
            auth.copy(&said, request.headers_mut());
        }
        self.mirror(route, request, stream.is_some());
        let answered = match &route.goes_to {
            GoesTo::Upstreams(split) => {
                let (share, occupancy) = (split.next(), stream.as_ref().map(|stream| &stream.occupancy));
                if share.upstream.may_get_trailers() {
                    message::clean_trailers(request.body_mut(), &route.guarded, self.survey.removed());
                }
                self.send(share, (request, upload), occupancy, &mut holding, deadline).await
            }
            GoesTo::Local(local) => {
                holding.is_sent();
                self.answer_here(local, request, deadline).await
            }
            GoesTo::View(view) => self.compose(view, request, (&mut holding, caller), deadline).await,
            GoesTo::Nobody => Err(Reason::Internal.into()),
        };
        let mut response = answered.map_err(|refusal| holding.refusal().unwrap_or(refusal))?;
        if route.cache.is_some() {
            message::mark_unstorable(&mut response);
        }
        message::back(&mut response, &route.response_headers, upgrade)?;
        caller.tenant.book_request();
        Ok(match stream {
            // It holds a place among its tenant's streams, and no slot.
            Some(stream) => with_stream(response, stream, self.policy.tunnels),
            None => holding.into_response(response),
        })
    }

    /// Where interim responses of servers go; `None` if the client cannot take any (RFC 9110, 15.2).
    pub(crate) fn interim(&self, route: &Arc<Route>, request: &Request) -> Option<InterimTo> {
        let takes_them = request.version() == Version::HTTP_11;
        takes_them.then(|| InterimTo { client: self.conn.interim(), route: Arc::clone(route) })
    }

    /// Has one of an upstream's servers answer.
    async fn send(
        &mut self,
        share: &Share,
        (request, upload): (&mut Request, Option<UploadWatch>),
        stream: Option<&Occupancy>,
        holding: &mut Holding,
        deadline: Deadline,
    ) -> Result<Response, Refusal> {
        let mut sent = share.upstream.belonging(request, &self.client);
        let now = self.proxy.shared.clock.now();
        let held = (Held::Own(holding), stream);
        let mut answer = share.upstream.send(request, upload, held, (now, deadline), &mut sent).await;
        if let Some(entry) = &mut self.entry {
            let line = entry.line();
            line.upstream = Some(Arc::clone(&share.name));
            line.tries = sent.tries;
            line.server = sent.pool.upgrade().map(|pool| Arc::clone(&pool.server));
            line.waited = Some(self.proxy.shared.clock.now().since(now));
        }
        if let Ok(response) = &mut answer {
            share.upstream.keep(&sent, self.client.is_https, response);
        }
        holding.is_at(sent.pool);
        answer
    }

    /// Has a service in this process answer.
    async fn answer_here(
        &mut self,
        local: &Local,
        request: &mut Request,
        deadline: Deadline,
    ) -> Result<Response, Refusal> {
        if let Some(entry) = &mut self.entry {
            entry.line().upstream = Some(Arc::clone(&local.name));
            entry.line().tries = 1;
        }
        let (clock, request) = (self.proxy.shared.clock, std::mem::take(request));
        local.answer(self.conn, request, clock, clock.now(), deadline).await
    }

    /// Puts one answer together from several upstreams.
    async fn compose(
        &mut self,
        view: &View,
        request: &mut Request,
        (holding, caller): (&mut Holding, &Caller),
        deadline: Deadline,
    ) -> Result<Response, Refusal> {
        let clock = self.proxy.shared.clock;
        let (head, _) = std::mem::take(request).into_parts();
        let (slot, tries) = (holding.take_slot().map(Arc::new), AtomicU32::new(0));
        let nothing = self.proxy.shared.buffers.reserve_nothing(&caller.tenant);
        let memory = Ranked::new(&locks::VIEW_MEMORY, nothing);
        let sender = ByName { policy: self.policy, clock, slot, client: caller.tenant.id, tries, memory };
        let answer = view.answer(&head, &sender, clock, deadline.shrunk(VIEW_RESERVE)).await;
        let memory = sender.memory.into_inner();
        let answer = answer.and_then(|answer| hold_memory(answer, memory));
        if let Some(entry) = &mut self.entry {
            entry.line().upstream = Some(Arc::clone(view.upstreams()));
            entry.line().tries = sender.tries.into_inner();
        }
        answer
    }

    fn open_stream(&self, caller: &Caller, route: &Route) -> Result<OpenStream, Refusal> {
        let place = caller.tenant.open_stream(self.policy.max_streams).ok_or_else(|| {
            Refusal::new(Reason::Busy, "this tenant may open no more streams").retry_after(STREAMS_RETRY)
        })?;
        let occupancy = Occupancy::of_stream(&caller.tenant, caller.address);
        Ok(OpenStream { _place: place, occupancy, route: Arc::clone(&route.label) })
    }
}

/// Sends the requests of a view to the upstreams of this core.
struct ByName<'a> {
    policy: &'a Policy,
    clock: Clock,
    /// The view's slot, which its parts share: it is given back when the last of their servers has finished.
    slot: Option<Arc<Slot>>,
    client: ClientId,
    /// Number of tries of all parts together.
    tries: AtomicU32,
    /// For what has arrived of the parts. Locked for a few instructions.
    memory: Ranked<Reserved>,
}

impl UpstreamSender for ByName<'_> {
    async fn send(
        &self,
        upstream: &str,
        mut request: Request,
        deadline: Deadline,
    ) -> Result<Response, Refusal> {
        let upstream = self.policy.upstreams.get(upstream).ok_or(Reason::Internal)?;
        let mut sent = Sent::default();
        let held = (Held::Shared(self.slot.as_ref(), self.client), None);
        let answer = upstream.send(&mut request, None, held, (self.clock.now(), deadline), &mut sent).await;
        self.tries.fetch_add(sent.tries, Ordering::Relaxed);
        answer
    }

    fn reserve(&self, bytes: usize) -> bool {
        let mut memory = self.memory.lock();
        let wanted = memory.bytes() + bytes as u64;
        memory.grow(wanted)
    }

    fn give_back(&self, bytes: usize) {
        let mut memory = self.memory.lock();
        let left = memory.bytes().saturating_sub(bytes as u64);
        memory.shrink(left);
    }
}

/// Holds memory for a view's answer until its client has read it, or has gone.
fn hold_memory(answer: Response, mut memory: Reserved) -> Result<Response, Refusal> {
    let length = answer.body().size_hint().lower();
    memory.shrink(length);
    if memory.grow(length) {
        Ok(answer.map(|body| body.bytes_holding(memory)))
    } else {
        Err(views::no_memory())
    }
}

/// What a stream holds for as long as it is open: a place among its tenant's, and one at the server that it is sent to.
struct OpenStream {
    _place: StreamPlace,
    occupancy: Occupancy,
    /// The name of its route.
    route: Arc<str>,
}

/// Keeps a stream's places for as long as the stream is open.
fn with_stream(mut response: Response, stream: OpenStream, tunnels: TunnelLimits) -> Response {
    if let Some(tunnel) = response.body_mut().take_tunnel() {
        let tunnel = tunnel.with_limits(tunnels).with_watch(stream);
        *response.body_mut() = ron_transport::Body::tunnel(tunnel);
        return response;
    }
    response.map(|body| body.holding(stream))
}

impl TunnelWatch for OpenStream {
    /// Writes that a tunnel was cut here. Those whose ends close them or break off are no business of the log.
    fn ended(self: Box<Self>, _: Traffic, end: TunnelEnd) {
        if end == TunnelEnd::Idle {
            let (route, cause) = (&*self.route, "nothing moved for `tunnel_idle_timeout`");
            tracing::warn!(route, cause, "a tunnel was cut");
        }
    }
}
