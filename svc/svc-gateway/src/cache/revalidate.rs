//! Validates a stored response while it is still given out (`stale-while-revalidate`).

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use httpcache::status::Forwarded;
use ron_kernel::{
    supervisor::Children,
    topology::{ChildSpec, Plane, Stage},
};
use ron_transport::{Body, Request};
use types::{Deadline, Refusal};

use super::{
    Entry, ResponseCache, RouteCache,
    absorb::{Absorbed, Fetch},
    ask::Ask,
    flights::{self, Flights, Turn},
    pass::put_conditions,
};
use crate::{
    admission::HeldPromises,
    buffers::{share, take},
    caller::Caller,
    message,
    passage::Passage,
    router::{GoesTo, Route},
    tenant::Tenant,
    upstream::{Held, Sent},
};

/// Most validations at once; what is beyond is validated by a later request. One tenant has at most half of what the others
/// leave of them.
const MOST: u64 = 64;
/// The longest time that one takes, besides the upstream's own timeout.
const WITHIN: Duration = Duration::from_secs(30);

/// Validates a stored response.
pub(crate) const CACHE_REVALIDATE: ChildSpec = ChildSpec {
    kind: "cache_revalidate",
    plane: Plane::Data,
    stop: Stage::Workers,
    bound: "64, of which a tenant has at most half of what others leave; beyond that, a later request revalidates",
    doc: "revalidates a stale response that was served, in the background, and stores the result",
};

/// One of a tenant's validations in progress, until it is dropped.
struct Validation(Arc<Tenant>);

impl Validation {
    /// Takes one of the tenant's share; `None` if it has its share already.
    fn begin(all: &Children, tenant: &Arc<Tenant>) -> Option<Self> {
        let share = share(MOST, all.live() as u64, tenant.validations.load(Ordering::Relaxed));
        take(&tenant.validations, 1, share).then(|| Self(Arc::clone(tenant)))
    }
}

impl Drop for Validation {
    fn drop(&mut self) {
        self.0.validations.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Passage<'_> {
    /// Begins to validate a stored response, unless somebody does already or too many of its tenant are being validated.
    pub(super) fn revalidate(
        &self,
        cache: &Arc<ResponseCache>,
        ask: &Ask,
        cached: &RouteCache,
        (route, caller): (&Arc<Route>, &Arc<Caller>),
        request: &Request,
        entry: &Arc<Entry>,
    ) {
        let GoesTo::Upstreams(split) = &route.goes_to else { return };
        let Some(turn) = Validation::begin(&cache.revalidations, &caller.tenant) else { return };
        let generation = cache.index.generation(&ask.key);
        let Turn::Ours(mut place) = Flights::turn(&cache.flights, ask, generation, caller) else { return };
        let fetch = Fetch {
            ask: Ask { method: http::Method::GET, ..ask.clone() },
            sent: request.headers().clone(),
            rules: cached.rules,
            tenant: Arc::clone(&caller.tenant),
            generation,
            requested_at: cache.now().unix,
            stored: Some(Arc::clone(entry)),
            held: None,
            validates: true,
            gap: None,
            if_error: false,
            flight: None,
            why: Forwarded::Stale,
            forwarded_status: None,
        };
        // A path that cannot be rewritten has never been answered, so nothing is stored of it.
        let Ok((mut request, validates)) = self.validation(route, caller, request, entry) else { return };
        let fetch = Fetch { validates, ..fetch };
        let (cache, route) = (Arc::clone(cache), Arc::clone(route));
        let (upstream, clock) = (Arc::clone(&split.next().upstream), self.proxy.shared.clock);
        let (door, drr, caller) = (Arc::clone(&self.proxy.door), self.policy.drr.clone(), Arc::clone(caller));
        cache.clone().revalidations.spawn(async move {
            let _turn = turn;
            let (now, mut sent) = (clock.now(), Sent::default());
            let times = (now, Deadline::within(now, WITHIN));
            // A server's work takes a slot of the tenant that has it done, whether or not anybody waits for it.
            let promises = HeldPromises::default();
            let slot = tokio::select! {
                biased;
                () = place.overtaken() => return,
                slot = door.enter(&caller, &drr, 0, times, &promises) => slot,
            };
            // Others wait for it from now on, and not for the slot.
            let (Ok(slot), Some(flight)) = (slot, place.take_off()) else { return };
            let landing = flight.follow();
            let fetch = Fetch { flight: Some(flight), requested_at: cache.now().unix, ..fetch };
            let slot = slot.map(Arc::new);
            let held = (Held::Shared(slot.as_ref(), 0), None);
            let Ok(mut response) = upstream.send(&mut request, None, held, times, &mut sent).await else {
                return;
            };
            message::mark_unstorable(&mut response);
            if message::back(&mut response, &route.response_headers, None).is_ok() {
                // What is to be stored is read by a child of its own, which has the slot. As long as it is wanted here, it
                // is read on, and counts as a validation.
                if let Absorbed::Answer(_wanted) =
                    cache.absorb(fetch, response.map(|body| body.holding(slot)))
                {
                    clock.by(times.1, flights::ended(landing)).await;
                }
            }
        });
    }

    /// The request that validates a stored response, and whether it has conditions.
    fn validation(
        &self,
        route: &Route,
        caller: &Caller,
        request: &Request,
        entry: &Entry,
    ) -> Result<(Request, bool), Refusal> {
        let mut copy = Request::new(Body::empty());
        *copy.uri_mut() = request.uri().clone();
        *copy.headers_mut() = request.headers().clone();
        for name in &httpcache::reuse::CONDITIONS {
            // Of a part that part is asked for again, and not all of what may be large.
            if *name != http::header::RANGE || entry.head.part.is_none() {
                copy.headers_mut().remove(name);
            }
        }
        let validates = put_conditions(copy.headers_mut(), entry);
        self.make_onward(caller, route, &mut copy, None)?;
        Ok((copy, validates))
    }
}
