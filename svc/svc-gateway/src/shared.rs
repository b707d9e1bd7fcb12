//! What all cores of a gateway share and every reload keeps: tenants, allowances, admission.

mod metrics;

use std::{
    hash::RandomState,
    path::Path,
    sync::{Arc, OnceLock},
};

use captoken::TokenId;
use quota::ShardedBook;
use ron_kernel::{Clock, Scope};
use ron_transport::caps::ClientKey;
use types::Moment;

use crate::{
    GatewayConfig,
    admission::Admission,
    buffers::BufferMemory,
    cache::{CacheStoreError, ResponseCache},
    fleet::{Allowance, Limits},
    floods::Floods,
    guard::DecodeBudget,
    passwords::Passwords,
    tenant::Tenants,
    transfer::Transfers,
};

pub(crate) use metrics::METRICS;

/// Addresses and capabilities whose allowance is remembered; the others share one. About 100 bytes each.
const MAX_BUCKETS: usize = 131_072;

/// The allowances of many, by what they are known by.
type Buckets<K> = ShardedBook<K, Allowance, RandomState>;

/// State that all cores share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    pub(crate) tenants: Tenants,
    pub(crate) admission: Arc<Admission>,
    pub(crate) decoding: Arc<DecodeBudget>,
    pub(crate) buffers: Arc<BufferMemory>,
    /// The transfers that hold slots, by core.
    pub(crate) transfers: Box<[Arc<Transfers>]>,
    pub(crate) floods: Floods,
    pub(crate) passwords: Passwords,
    /// Stored responses, once there is a route that has any.
    pub(crate) cache: OnceLock<Arc<ResponseCache>>,
    clients: Buckets<ClientKey>,
    capabilities: Buckets<TokenId>,
    /// Of routes with a rate of their own, by the route's name and the client; `None` for all clients.
    routes: Buckets<(Arc<str>, Option<ClientKey>)>,
    /// Of addresses and capabilities that there was no more room for.
    other: Arc<Allowance>,
    limits: Limits,
}

impl Shared {
    pub(crate) fn new(scope: &Scope, config: &GatewayConfig, limits: Limits) -> Arc<Self> {
        let refused = metrics::decode_refused(scope);
        let buffers = BufferMemory::new(config.limits.buffer_memory.as_u64());
        let reclaimed = metrics::slots_reclaimed(scope);
        let of_core = |_| Transfers::new(scope.clock(), &buffers, reclaimed.clone());
        let transfers: Box<[_]> = (0..scope.planes().cores().len()).map(of_core).collect();
        let shared = Arc::new(Self {
            clock: scope.clock(),
            transfers,
            buffers,
            tenants: Tenants::new(config.fair_queue.max_tenants, scope, limits.clone()),
            admission: Admission::new(scope, config),
            decoding: Arc::new(DecodeBudget::new(config.limits.decode_memory.as_u64(), refused)),
            floods: Floods::default(),
            passwords: Passwords::new(scope),
            cache: OnceLock::new(),
            clients: Buckets::new(MAX_BUCKETS, RandomState::new()),
            capabilities: Buckets::new(MAX_BUCKETS, RandomState::new()),
            routes: Buckets::new(MAX_BUCKETS, RandomState::new()),
            other: Arc::default(),
            limits,
        });
        metrics::publish(scope, &shared);
        shared
    }

    /// Makes room for stored responses, if a route has any.
    ///
    /// # Errors
    /// [`CacheStoreError`] if they cannot be stored where they should be.
    pub(crate) async fn prepare_cache(
        &self,
        scope: &Scope,
        config: &GatewayConfig,
        data_dir: Option<&Path>,
    ) -> Result<(), CacheStoreError> {
        if self.cache.get().is_none() && config.route.iter().any(|route| route.cache.is_some()) {
            let cache = ResponseCache::open(scope, &config.cache, &self.buffers, data_dir).await?;
            // Reloads follow each other, so that nobody else has made one meanwhile.
            let _ = self.cache.set(cache);
        }
        Ok(())
    }

    /// The allowance of a client's address.
    pub(crate) fn client(&self, key: ClientKey, now: Moment) -> Arc<Allowance> {
        let known = self.clients.get_or_insert(&key, now, || self.limits.of_client(key));
        known.unwrap_or_else(|_| Arc::clone(&self.other))
    }

    /// The allowance of a client on a route, or of all clients there; `None` if there is no more room.
    pub(crate) fn of_route(
        &self,
        route: &Arc<str>,
        client: Option<ClientKey>,
        now: Moment,
    ) -> Option<Arc<Allowance>> {
        let key = (Arc::clone(route), client);
        self.routes.get_or_insert(&key, now, || self.limits.of_route(route, client)).ok()
    }

    /// The allowance of a capability.
    pub(crate) fn capability(&self, id: TokenId, now: Moment) -> Arc<Allowance> {
        let known = self.capabilities.get_or_insert(&id, now, || self.limits.of_capability(&id));
        known.unwrap_or_else(|_| Arc::clone(&self.other))
    }
}
