//! Stored responses in front of the upstreams: a shared cache by RFC 9111, for routes with `cache = { … }`.
//!
//! ```text
//! request ─▶ rates, access, credential ─▶ look up ─▶ hit: answered here, without a slot
//!                                          │ miss
//!                                          ▼
//!                        somebody was admitted to ask already? ─▶ wait for that answer
//!                                          │ no                          ▲
//!                                          ▼                             │
//!                                admission in one's own queue ─▶ somebody else was first
//!                                          │
//!                                          ▼
//!                                 forward ─▶ answer ─▶ stored and given out at the same time
//! ```
//!
//! What is decided is decided by `httpcache`; this is the shell around it: the index of responses, their bodies in a content
//! store, who waits for whom, and how much each tenant may have.
//!
//! The index is in memory, and so are the bodies that were used last. Behind them is a disk ([`disk`]), to which a writer
//! ([`writer`]) brings what the index says, a little later; a restart reads it from there ([`restore`]). What is only on the
//! disk is read and verified when it is asked for ([`load`]).

mod absorb;
mod ask;
mod disk;
mod entry;
mod fill;
mod flights;
mod hit;
mod index;
mod journal;
mod lead;
mod load;
mod metrics;
mod open;
mod parts;
mod pass;
mod purge;
mod restore;
mod revalidate;
mod shares;
mod writer;
mod written;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use cas::Cas;
use http::{HeaderValue, Uri, header};
use httpcache::{
    query::{self, Ignored},
    reuse,
    storage::Rules,
    variant::RequestFields,
};
use httprules::{
    freshness::{Time, Verdict},
    host,
};
use quick_cache::sync::Cache;
use ron_kernel::{Clock, blocking::Blocking, supervisor::Children};
use ron_transport::Request;

use crate::{
    RouteConfig, UpstreamConfig,
    buffers::BufferMemory,
    tenant::{Tenant, TenantKey},
};
use ask::Ask;
use entry::{Entry, Head};
use flights::Flights;
use index::{Index, Lookup};
use journal::Journal;
use load::Loads;
use metrics::Counts;
use shares::Shares;

pub(crate) use absorb::{CACHE_FILL, Unstorable};
pub use disk::CacheStoreError;
pub(crate) use hit::AtOnce;
pub(crate) use journal::CACHE_WRITES;
pub(crate) use lead::CACHE_FETCH;
pub(crate) use metrics::METRICS;
pub use purge::{CacheStatusReport, Purge, PurgeError, StoredVariant};
pub(crate) use revalidate::CACHE_REVALIDATE;
pub(crate) use writer::CACHE_WRITER;
pub(crate) use written::Written;

/// Targets that are remembered because their responses cannot be stored: nobody waits for another's answer there.
const REMEMBERED_UNSTORABLE: usize = 4096;
/// How many seconds requests are not coalesced after an unstorable response.
const UNSTORABLE_FOR: u64 = 10;

/// By what requests are alike whose responses cannot be stored: the target, the partition, and whether the request has a
/// credential, a cookie or conditions. The response to a request without them may be stored all the same.
type UnstorableKey = (Arc<str>, Arc<[u8]>, [bool; 3]);

fn unstorable_key(ask: &Ask) -> UnstorableKey {
    let asked = [ask.asked.is_authorized, ask.asked.has_cookie, ask.asked.has_conditions];
    (Arc::clone(&ask.key), Arc::clone(&ask.partition), asked)
}

/// What a route says about its stored responses.
#[derive(Clone, Debug)]
pub(crate) struct RouteCache {
    /// Tells the responses of this route from those of others, across reloads that change neither it nor where its upstreams
    /// are. It is the whole partition of a request of which its server is told nothing else: see `ask`.
    pub(crate) partition: Arc<[u8]>,
    pub(crate) rules: Rules,
    /// Query parameters that are removed from requests.
    ignored: Vec<Ignored>,
}

impl RouteCache {
    /// What a route says that leads to these upstreams, if its responses are stored.
    pub(crate) fn of(config: &RouteConfig, upstreams: &BTreeMap<String, UpstreamConfig>) -> Option<Self> {
        use std::hash::{DefaultHasher, Hasher};
        let cache = config.cache.as_ref()?;
        let mut hasher = DefaultHasher::new();
        hasher.write(format!("{config:?}").as_bytes());
        for upstream in config.shares().filter_map(|(name, _)| upstreams.get(name)) {
            // Where its servers are and how they prove themselves: under the same name there may be others after a reload.
            let servers: BTreeSet<_> =
                upstream.endpoints.iter().map(|server| server.url.to_string()).collect();
            hasher.write(format!("{servers:?} {:?}", upstream.tls).as_bytes());
        }
        Some(Self {
            partition: Arc::new(hasher.finish().to_le_bytes()),
            rules: cache.rules(),
            ignored: cache.ignored(),
        })
    }

    /// Makes a request the one that its key names, so that no client can have another response stored under the key: removes
    /// the query parameters that make no difference, and writes the host in its normal form.
    pub(crate) fn normalize(&self, request: &mut Request, is_https: bool) {
        let target = query::without(&ask::target(request), &self.ignored);
        let authority = request.uri().authority().and_then(|host| host::normal(host.as_str(), is_https));
        if target.is_some() || authority.is_some() {
            let mut parts = request.uri().clone().into_parts();
            // What is left of a target is one, and the normal form of a host is one.
            if let Some(target) = target {
                parts.path_and_query = target.parse().ok();
            }
            if let Some(authority) = authority {
                parts.authority = authority.parse().ok();
            }
            if let Ok(uri) = Uri::from_parts(parts) {
                *request.uri_mut() = uri;
            }
        }
        let field =
            request.headers().get(header::HOST).and_then(|host| host::normal(host.to_str().ok()?, is_https));
        if let Some(host) = field.and_then(|host| HeaderValue::try_from(host).ok()) {
            request.headers_mut().insert(header::HOST, host);
        }
    }
}

/// The stored responses of all routes with a cache.
#[derive(Debug)]
pub(crate) struct ResponseCache {
    clock: Clock,
    index: Index,
    /// The bodies that were used last, in memory.
    bodies: Arc<Cas>,
    /// All bodies, on the disk; unset as long as that cannot be used, and without one.
    disk: OnceLock<Arc<Cas>>,
    /// What the disk has still to be told; `None` without one.
    journal: Option<Arc<Journal>>,
    loads: Arc<Loads>,
    blocking: Blocking,
    flights: Arc<Flights>,
    /// Until when nobody waits for another's answer, by the steady clock.
    unstorable: Cache<UnstorableKey, u64>,
    shares: Shares,
    memory: Arc<BufferMemory>,
    max_object: u64,
    fetches: Children,
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
    /// No response is stored.
    Nothing,
}

impl ResponseCache {
    /// Returns the current time.
    fn now(&self) -> Time {
        Time { unix: self.clock.unix().as_secs(), steady: self.clock.steady_unix().as_secs() }
    }

    /// What is stored for a request.
    fn find(&self, ask: &Ask, request: &Request, rules: &Rules, now: Time) -> Found {
        let fields = RequestFields { headers: request.headers(), removed: &ask.removed };
        match self.index.find(&ask.key, &ask.partition, (&ask.method, &fields), now.unix) {
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
        let of_index = index::target_weight(&ask.key) + head.weight();
        let charge = self.charge(&tenant.key, &ask.key, (len, of_index))?;
        let body = if bytes.is_empty() { None } else { Some(self.bodies.put(bytes).ok()?.id) };
        let record = self.journal.as_ref().map(Journal::record);
        let entry = Arc::new(Entry { key: Arc::clone(&ask.key), head, body, len, charge, record });
        let replaced = self.index.insert(&entry, fields, generation)?;
        self.write(&entry, &replaced);
        Some(entry)
    }

    /// Puts a response with other fields into the place of a stored one, if that is still there.
    fn renew(&self, old: &Arc<Entry>, head: Head) -> Arc<Entry> {
        let new = old.with_head(head);
        if self.index.replace(old, &new) {
            self.write(&new, std::slice::from_ref(old));
        }
        new
    }

    /// Has a response written to the disk, if there is one, in the place of others.
    fn write(&self, entry: &Arc<Entry>, replaced: &[Arc<Entry>]) {
        let Some(journal) = &self.journal else { return };
        let replaces = replaced.iter().filter_map(|old| Some(old.record.as_ref()?.id)).collect();
        match entry.body.map(|body| self.bodies.open(body)) {
            None => journal.write(entry, None, replaces),
            Some(Ok(Some(body))) => journal.write(entry, Some(body), replaces),
            // It had to make room already, but the disk may have it.
            Some(_) => journal.write(entry, None, replaces),
        }
    }

    fn charge(&self, tenant: &TenantKey, key: &Arc<str>, bytes: (u64, u64)) -> Option<Arc<shares::Charge>> {
        let (charge, victims) = self.shares.charge(tenant, key, bytes)?;
        for victim in victims {
            self.index.remove_charged(&victim.key, &victim.charge);
        }
        Some(charge)
    }

    /// Whether nobody should wait for another's answer to such a request.
    fn is_known_unstorable(&self, ask: &Ask, now: Time) -> bool {
        self.unstorable.get(&unstorable_key(ask)).is_some_and(|until| now.steady < until)
    }

    fn remember_unstorable(&self, ask: &Ask, now: Time) {
        self.unstorable.insert(unstorable_key(ask), now.steady + UNSTORABLE_FOR);
    }

    /// Invalidates what is stored of a target, of all routes and tenants. Whether something is to be waited for until it cannot
    /// come back: see [`ResponseCache::settled`].
    fn invalidate(&self, is_https: bool, host: &str, target: &str) -> bool {
        let removed =
            ask::key(is_https, host, target).map_or_else(Vec::new, |key| self.index.invalidate(&key));
        let waits = removed.iter().fold(false, |waits, entry| entry.leave_disk() | waits);
        // What had to make room just now may have been of this target.
        waits || self.journal.as_ref().is_some_and(|journal| journal.is_behind())
    }

    /// Waits until what was removed cannot come back with a restart, and if `sync` with a power cut neither. Whether that is so: a
    /// node that is about to end writes nothing any more.
    ///
    /// Cancel safe.
    async fn settled(&self, sync: bool) -> bool {
        match &self.journal {
            Some(journal) => journal.settled(sync).await,
            None => true,
        }
    }

    /// What stored responses take in memory, and how many targets there are.
    pub(crate) fn size(&self) -> (u64, usize) {
        let (fields, targets) = self.index.size();
        (fields + self.bodies.stat().taken_bytes, targets)
    }

    /// What stored responses take on the disk.
    fn disk_size(&self) -> u64 {
        self.disk.get().map_or(0, |disk| disk.stat().taken_bytes)
    }
}
