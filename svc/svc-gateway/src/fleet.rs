//! Limits that several gateways share, with `quotas.store`.
//!
//! Requests are judged by what this gateway has leased ([`quota::Lease`]) and never wait for the store. A task, the
//! keeper, asks the store for more beside them. Whatever becomes of the store or of the keeper, requests go on: a limit
//! for which no answer comes is judged by this gateway's last share of it.

mod allowance;
#[cfg(feature = "redis")]
mod keeper;
mod metrics;
#[cfg(feature = "redis")]
mod server;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};

use ron_kernel::{
    Scope,
    metrics::Counter,
    queue::Sender,
    readiness::Effect,
    topology::{Escalation, Plane, Policy, QueueSpec, Restart, Stage, TaskSpec},
};
use ron_transport::{caps::ClientKey, resolve::Resolver, tls::TlsError};

pub(crate) use allowance::Allowance;
pub(crate) use metrics::METRICS;

use crate::{
    QuotasConfig,
    tenant::{TenantKey, TenantName},
};
use allowance::Leased;
use metrics::FleetMetrics;

/// Whether this program can share limits through Redis.
pub const REDIS_AVAILABLE: bool = cfg!(feature = "redis");

/// Leases limits from the store.
pub(crate) const QUOTA_KEEPER: TaskSpec = TaskSpec {
    name: "quota_keeper",
    plane: Plane::Control,
    restart: Restart::usual(Escalation::Degrade(Effect::Report)),
    stop: Stage::Support,
    doc: "leases limits from the store that gateways share, and pays what was used on credit; with `quotas.store` and the \
          feature `redis`",
};

/// Limits of which something is wanted.
pub(crate) const QUOTA_LEASES: QueueSpec = QueueSpec {
    name: "quota_leases",
    capacity: 16_384,
    policy: Policy::RejectNew,
    from: "requests",
    to: "quota_keeper",
    doc: "limits of which more is wanted from the store; one that does not fit is judged by the last share",
};

/// Why limits cannot be shared.
#[derive(Debug, thiserror::Error)]
pub enum QuotaStoreFault {
    /// The setting is refused.
    #[error("quotas.store: {0}")]
    Setting(#[from] crate::QuotaStoreError),
    /// The authorities cannot be used.
    #[error("quotas.store_ca_path: {0}")]
    Tls(#[from] TlsError),
    /// There are no trusted root certificates.
    #[error("this system keeps no list of authorities where others do: name one in quotas.store_ca_path")]
    NoRoots,
    /// This program was built without it.
    #[error(
        "quotas.store: this program was built without Redis: write \"local\", or build with the feature `redis`"
    )]
    NoRedis,
    /// The blocking pool did not load them.
    #[error(transparent)]
    Blocking(#[from] ron_kernel::blocking::BlockingError),
}

/// The gateways that share limits, as this one knows them.
pub(crate) struct Fleet {
    /// How many gateways there are.
    gateways: AtomicU32,
    /// Counts the keepers that were started: a limit that an earlier one kept is handed to the next.
    keeper: AtomicU64,
    wants: Sender<Arc<Leased>>,
    cut_off: Counter,
}

/// Says where limits are counted: here, or in a store that gateways share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limits(Option<Arc<Fleet>>);

impl Limits {
    /// Limits as configured; starts the keeper if they are shared.
    ///
    /// # Errors
    /// [`QuotaStoreFault`]. A store that cannot be reached is none.
    pub(crate) async fn start(
        scope: &Scope,
        config: &QuotasConfig,
        resolver: &Resolver,
    ) -> Result<Self, QuotaStoreFault> {
        let metrics = FleetMetrics::register(scope);
        match config.quota_store()? {
            None => Ok(Self(None)),
            Some(store) => {
                start_keeper(scope, store, config, resolver, metrics).await.map(|fleet| Self(Some(fleet)))
            }
        }
    }

    /// The allowance of a client's address. Clients without an address are different ones at each gateway.
    pub(crate) fn of_client(&self, client: ClientKey) -> Allowance {
        self.named(|| has_address(client).then(|| format!("client:{client}")))
    }

    /// The allowance of a tenant.
    pub(crate) fn of_tenant(&self, tenant: &TenantKey) -> Allowance {
        let class = tenant.class.name();
        self.named(|| match &tenant.name {
            TenantName::Named(name) => Some(format!("tenant:{class}:{name}")),
            TenantName::Client(client) => has_address(*client).then(|| format!("address:{class}:{client}")),
            TenantName::Other => None,
        })
    }

    /// The allowance of a capability.
    pub(crate) fn of_capability(&self, id: &captoken::TokenId) -> Allowance {
        self.named(|| Some(format!("capability:{id}")))
    }

    /// The allowance of a client on a route, or of all clients there.
    pub(crate) fn of_route(&self, route: &str, client: Option<ClientKey>) -> Allowance {
        self.named(|| match client {
            None => Some(format!("route:{route}")),
            Some(client) => has_address(client).then(|| format!("route_client:{client} {route}")),
        })
    }

    /// The allowance of a limit with a name that all gateways know, or of one of this gateway's own.
    fn named(&self, name: impl FnOnce() -> Option<String>) -> Allowance {
        let Some(fleet) = &self.0 else { return Allowance::default() };
        name().map_or_else(Allowance::default, |name| Allowance::shared(Leased::new(name, fleet)))
    }
}

/// Whether a client has an address, by which other gateways know it too.
const fn has_address(client: ClientKey) -> bool {
    matches!(client, ClientKey::V4(_) | ClientKey::V6Net(_))
}

impl Fleet {
    fn gateways(&self) -> u32 {
        self.gateways.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet").field("gateways", &self.gateways).finish_non_exhaustive()
    }
}

#[cfg(feature = "redis")]
use keeper::start as start_keeper;

#[cfg(not(feature = "redis"))]
#[expect(clippy::unused_async, reason = "the one with the feature waits for files")]
async fn start_keeper(
    _: &Scope,
    _: crate::config::QuotaStore,
    _: &QuotasConfig,
    _: &Resolver,
    _: FleetMetrics,
) -> Result<Arc<Fleet>, QuotaStoreFault> {
    Err(QuotaStoreFault::NoRedis)
}
