//! Asks a server for everybody who wants the same. A task of its own does, so that it ends neither with the client that asked
//! first nor by that client's deadline: whoever waits for the answer would have to begin again.

use std::sync::Arc;

use ron_kernel::topology::{ChildSpec, Plane, Stage};
use ron_transport::{Request, Response};
use tokio::sync::oneshot;
use types::{Deadline, Reason, Refusal};

use super::{
    ResponseCache,
    absorb::{Absorbed, Fetch},
    flights::{Audience, Flight},
};
use crate::{
    admission::Slot,
    caller::Caller,
    message,
    passage::Passage,
    router::{Route, Share},
    transfer::Holding,
    upstream::{Held, Sent, Upstream},
};

/// Sends a request that others wait for.
pub(crate) const CACHE_FETCH: ChildSpec = ChildSpec {
    kind: "cache_fetch",
    plane: Plane::Data,
    stop: Stage::Workers,
    bound: "the slots, each of which one such request holds",
    doc: "requests a response that several clients may wait for, even if the first of them leaves; given up when none \
     is left",
};

/// A request that asks for everybody who wants the same.
#[derive(Debug)]
pub(super) struct Lead {
    pub(super) flight: Flight,
    /// `None` if nothing is admitted here.
    pub(super) slot: Option<Slot>,
}

/// The result of the shared request.
struct Led {
    absorbed: Result<Absorbed, Refusal>,
    /// How often a server was asked.
    tries: u32,
}

/// The state that the task of a shared request needs.
struct Errand {
    cache: Arc<ResponseCache>,
    fetch: Fetch,
    audience: Audience,
    route: Arc<Route>,
    caller: Arc<Caller>,
    upstream: Arc<Upstream>,
    request: Request,
    holding: Holding,
}

impl Passage<'_> {
    /// Asks a server for everybody who waits for the flight of `fetch`, by what the route allows, and waits for the answer until
    /// this client's own deadline.
    pub(super) async fn lead(
        &mut self,
        (cache, mut fetch, lead): (&Arc<ResponseCache>, Fetch, Lead),
        share: &Share,
        (caller, route): (&Arc<Caller>, &Arc<Route>),
        request: &mut Request,
        deadline: Deadline,
    ) -> Result<Absorbed, Refusal> {
        let caller = self.authorize(caller, route, request)?;
        let interim = self.interim(route, request);
        self.make_onward(&caller, route, request, None)?;
        let (_waits, audience) = (lead.flight.follow(), lead.flight.audience());
        fetch.flight = Some(lead.flight);
        let mut holding = self.proxy.transfers.hold(
            lead.slot,
            (&caller.tenant, caller.address),
            self.proxy.door.slow_after(),
            self.policy.max_streams,
        );
        holding.tells(interim);
        let (cache, route) = (Arc::clone(cache), Arc::clone(route));
        let (upstream, request) = (Arc::clone(&share.upstream), std::mem::take(request));
        let errand =
            Errand { cache: Arc::clone(&cache), fetch, audience, route, caller, upstream, request, holding };
        let (done, answer) = oneshot::channel();
        cache.fetches.spawn(async move {
            if let Some(led) = errand.run().await {
                // The client may have left; whoever else waits has been told.
                let _ = done.send(led);
            }
        });
        let answer = self.proxy.shared.clock.by(deadline, answer).await;
        if let Some(entry) = &mut self.entry {
            entry.line().upstream = Some(Arc::clone(&share.name));
            entry.line().tries = answer.as_ref().and_then(|led| Some(led.as_ref().ok()?.tries)).unwrap_or(1);
        }
        match answer {
            Some(Ok(led)) => led.absorbed,
            // It ends without an answer only with the node.
            Some(Err(_)) => Err(Reason::Draining.into()),
            None => Err(Reason::DownstreamTimeout.into()),
        }
    }
}

impl Errand {
    /// Asks the server; `None` if everybody has left before the answer.
    async fn run(mut self) -> Option<Led> {
        let (now, mut sent) = (self.cache.clock.now(), Sent::default());
        let limit = self.route.timeout.map_or(Deadline::NEVER, |timeout| Deadline::within(now, timeout));
        let answer = tokio::select! {
            biased;
            answer = self.upstream.send(
                &mut self.request,
                None,
                (Held::Own(&mut self.holding), None),
                (now, limit),
                &mut sent,
            ) => answer,
            // What the server still does takes the slot for `finish_abandoned`.
            () = self.audience.gone() => return None,
        };
        let tries = sent.tries;
        self.holding.is_at(sent.pool);
        let absorbed = match answer {
            Ok(response) => self.absorb(response),
            Err(refusal) => Err(refusal),
        };
        Some(Led { absorbed, tries })
    }

    fn absorb(self, mut response: Response) -> Result<Absorbed, Refusal> {
        message::mark_unstorable(&mut response);
        message::back(&mut response, &self.route.response_headers, None)?;
        self.caller.tenant.book_request();
        Ok(self.cache.absorb(self.fetch, self.holding.into_response(response)))
    }
}
