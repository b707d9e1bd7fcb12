//! Stored responses in front of the upstreams: a shared cache by RFC 9111, for routes with `cache = { … }`.
//!
//! ```text
//! request ─▶ rates, access, credential ─▶ look up ─▶ hit: answered here, without a slot
//!                                          │ miss
//!                                          ▼
//!                               somebody asks already? ─▶ wait for that answer
//!                                          │ no
//!                                          ▼
//!                              admission, forward ─▶ answer ─▶ stored and given out at the same time
//! ```
//!
//! What is decided is decided by `httpcache`; this is the shell around it: the index of responses, their bodies in a content
//! store, who waits for whom, and how much each tenant may have.

mod absorb;
mod ask;
mod entry;
mod fill;
mod flights;
mod index;
mod metrics;
mod pass;
mod revalidate;
mod shares;

use std::sync::Arc;

use bytes::Bytes;
use cas::{Cas, Limits, Verified};
use httpcache::{reuse, storage::Rules, variant::RequestFields};
use httprules::freshness::Verdict;
use quick_cache::sync::Cache;
use ron_kernel::{Clock, Scope, supervisor::Children};
use ron_transport::Request;

use crate::{
    CacheConfig, RouteConfig,
    buffers::BufferMemory,
    tenant::{Tenant, TenantKey},
};
use ask::Ask;
use entry::{Entry, Head};
use flights::Flights;
use index::{Index, Lookup};
use metrics::Counts;
use shares::Shares;

pub(crate) use absorb::{CACHE_FILL, EndsWithConnection};
pub(crate) use metrics::METRICS;
pub(crate) use pass::Written;
pub(crate) use revalidate::CACHE_REVALIDATE;

/// Targets that are remembered because their responses cannot be stored: nobody waits for another's answer there.
const REMEMBERED_UNSTORABLE: usize = 4096;
/// For how many seconds.
const UNSTORABLE_FOR: u64 = 10;

/// What a route says about its stored responses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RouteCache {
    /// Tells the responses of this route from those of others, across reloads that do not change it.
    pub(crate) route: u64,
    pub(crate) rules: Rules,
}

impl RouteCache {
    /// What a route says, if its responses are stored.
    pub(crate) fn of(config: &RouteConfig) -> Option<Self> {
        use std::hash::{DefaultHasher, Hasher};
        let cache = config.cache.as_ref()?;
        let mut hasher = DefaultHasher::new();
        hasher.write(format!("{config:?}").as_bytes());
        Some(Self { route: hasher.finish(), rules: cache.rules() })
    }
}

/// The stored responses of all routes with a cache.
#[derive(Debug)]
pub(crate) struct ResponseCache {
    clock: Clock,
    index: Index,
    bodies: Cas,
    flights: Arc<Flights>,
    /// Until when nobody waits for another's answer, by key.
    unstorable: Cache<Arc<str>, u64>,
    shares: Shares,
    memory: Arc<BufferMemory>,
    max_object: u64,
    fills: Children,
    revalidations: Children,
    counts: Counts,
}

/// What the cache has for a request.
enum Found {
    /// A response that answers it.
    Fresh(Arc<Entry>),
    /// A response that answers it and is to be validated meanwhile.
    Stale(Arc<Entry>),
    /// A response that has to be validated first; it answers all the same on errors, if so.
    Validate(Arc<Entry>, bool),
    /// Responses for other requests.
    OtherVariants,
    /// Nothing.
    Nothing,
}

impl ResponseCache {
    pub(crate) fn new(scope: &Scope, config: &CacheConfig, memory: &Arc<BufferMemory>) -> Arc<Self> {
        let all = config.max_bytes.as_u64();
        let for_bodies = all / 8 * 7;
        let limits = Limits {
            max_bytes: for_bodies,
            max_objects: usize::try_from(for_bodies / 256).unwrap_or(usize::MAX),
        };
        let cache = Arc::new(Self {
            clock: scope.clock(),
            index: Index::new(all / 8),
            bodies: Cas::in_memory(limits),
            flights: Arc::default(),
            unstorable: Cache::new(REMEMBERED_UNSTORABLE),
            shares: Shares::new(for_bodies / 100 * u64::from(config.tenant_percent)),
            memory: Arc::clone(memory),
            max_object: config.max_object_bytes.as_u64(),
            fills: scope.children(&CACHE_FILL),
            revalidations: scope.children(&CACHE_REVALIDATE),
            counts: Counts::register(scope),
        });
        metrics::publish(scope, &cache);
        cache
    }

    /// Seconds since 1970.
    fn now(&self) -> u64 {
        self.clock.unix().as_secs()
    }

    /// What is stored for a request.
    fn find(&self, ask: &Ask, request: &Request, rules: &Rules, now: u64) -> Found {
        let fields = RequestFields { headers: request.headers(), removed: &ask.removed };
        match self.index.find(&ask.key, &ask.partition, (&ask.method, &fields), now) {
            Lookup::Nothing => Found::Nothing,
            Lookup::OtherVariants => Found::OtherVariants,
            Lookup::Found(entry) => {
                match reuse::judge(&entry.head.freshness, &ask.asked.directives, rules.grace, now) {
                    Verdict::Fresh => Found::Fresh(entry),
                    Verdict::Stale => Found::Stale(entry),
                    Verdict::Validate { if_error } => Found::Validate(entry, if_error),
                }
            }
        }
    }

    /// The body of a stored response, and what keeps it from making room while it is given out; `None` if it had to make room
    /// for others.
    fn body(&self, key: &str, entry: &Arc<Entry>) -> Option<(Bytes, Option<Verified>)> {
        let Some(body) = entry.body else { return Some((Bytes::new(), None)) };
        let stored = self.bodies.open(body).ok().flatten();
        // In memory nothing blocks: the bytes are here and were checked when they came.
        let found = stored.and_then(|stored| Some((stored.read_all().ok()?, Some(stored))));
        if found.is_none() {
            self.index.remove(key, entry);
        }
        found
    }

    /// Stores a response as a whole; `None` if there is no room for it or its target was invalidated meanwhile.
    fn store(
        &self,
        ask: &Ask,
        fields: &RequestFields<'_>,
        tenant: &Tenant,
        (head, bytes): (Head, &Bytes),
        generation: u64,
    ) -> Option<Arc<Entry>> {
        let len = bytes.len() as u64;
        let charge = self.charge(&tenant.key, &ask.key, len + head.weight())?;
        let body = if bytes.is_empty() { None } else { Some(self.bodies.put(bytes).ok()?.id) };
        let entry = Arc::new(Entry { head, body, len, charge });
        self.index.insert(&ask.key, Arc::clone(&entry), fields, generation).then_some(entry)
    }

    fn charge(&self, tenant: &TenantKey, key: &Arc<str>, bytes: u64) -> Option<Arc<shares::Charge>> {
        let (charge, victims) = self.shares.charge(tenant, key, bytes)?;
        for victim in victims {
            self.index.remove_charged(&victim.key, &victim.charge);
        }
        Some(charge)
    }

    /// Whether nobody should wait for another's answer to such a request.
    fn is_known_unstorable(&self, key: &str, now: u64) -> bool {
        self.unstorable.get(key).is_some_and(|until| now < until)
    }

    fn remember_unstorable(&self, key: &Arc<str>, now: u64) {
        self.unstorable.insert(Arc::clone(key), now + UNSTORABLE_FOR);
    }

    /// Invalidates what is stored of a target, of all routes and tenants.
    pub(crate) fn invalidate(&self, is_https: bool, host: &str, target: &str) {
        if let Some(key) = ask::key(is_https, host, target) {
            self.index.invalidate(&key);
        }
    }

    /// What stored responses take, and how many targets there are.
    pub(crate) fn size(&self) -> (u64, usize) {
        let (fields, targets) = self.index.size();
        (fields + self.bodies.stat().taken_bytes, targets)
    }
}
