//! The `[gateway.fair_queue]`, `[gateway.drr]` and `[gateway.quotas]` tables: how much of the node each tenant may have.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use ron_kernel::config::{ByteSize, HumanDuration, PathSetting, Problems, Secret};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::quota_store::{self, QuotaStore, QuotaStoreError};
use crate::tenant::TenantName;

/// More requests at once than this need `danger_ok`: each holds its buffers and an upstream connection.
const SAFE_MAX_INFLIGHT: u32 = 65_536;
/// More waiting requests than this need `danger_ok`: a longer room only makes the last in it wait longer.
const SAFE_MAX_WAITING: u32 = 16_384;
/// Longer waits than this need `danger_ok`: few clients are still there.
const SAFE_MAX_WAIT: Duration = Duration::from_secs(60);
/// More tenants than this need `danger_ok`: each that is known costs about half a KiB.
const SAFE_MAX_TENANTS: usize = 1_000_000;
/// A class or tenant may weigh at most this much.
const MAX_WEIGHT: u32 = 1000;
/// The longest burst that a quota may allow, in seconds of its rate.
const MAX_BURST: f64 = 3600.0;

/// Fair admission: who goes next when requests have to wait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FairQueueConfig {
    /// Whether requests go through admission. Without it, the number of concurrent requests to upstreams is not
    /// limited.
    pub enabled: bool,
    /// Which waiting request is next: one of the tenant furthest below its share, or the oldest one.
    pub order: Order,
    /// Slots: the maximum number of concurrent requests to upstreams, over all cores. Further requests wait.
    pub max_inflight: u32,
    /// Length of the admission queue. At worst, waiting requests hold this × `limits.max_head_bytes`.
    pub max_waiting: u32,
    /// How long a request may wait for a slot; then it is refused with `busy`.
    pub max_wait: HumanDuration,
    /// The number of body bytes that cost a tenant as much as one slot-millisecond.
    pub quantum_bytes: ByteSize,
    /// A tenant is slow if its requests hold a slot longer than this: about a quarter of the slot-time of finished
    /// requests, or more than a sixteenth of `max_inflight` that are still running. Slow tenants together hold at
    /// most 80 % of `max_inflight`, and one of them at most half. A client that stalls its transfer for longer than
    /// this in total loses its slot, which makes its tenant slow; a response whose body takes ten times as long loses
    /// its slot too.
    pub slow_after: HumanDuration,
    /// The maximum number of tenants with their own state; further tenants share one entry per class.
    pub max_tenants: usize,
    /// The maximum number of a tenant's responses that hold no slot: upgraded connections, and routes with
    /// `stream = true`.
    pub max_streams: u32,
    /// Weight of each class.
    pub weights: ClassWeights,
}

/// Which waiting request is next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// The tenant furthest below its share of its class, of the class furthest below its share.
    #[default]
    Fair,
    /// The oldest request is next.
    Fifo,
}

/// Weight of each class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ClassWeights {
    /// Requests without a credential, or with one that is not verified yet.
    pub anon: u32,
    /// Requests with a verified credential.
    pub authed: u32,
    /// Requests of the operator's own services.
    pub internal: u32,
}

/// Shares of the tenants inside a class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DrrConfig {
    /// Weight of tenants that `tenant_quanta` does not list.
    pub default_quantum: u32,
    /// Weights of tenants, by name.
    pub tenant_quanta: BTreeMap<String, u32>,
    /// Requests per second of one tenant; 0 for no limit.
    pub rate_limit_rps: u32,
}

/// Rates, refused with 429 `quota` when they are used up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct QuotasConfig {
    /// Requests per second of one client address; 0 for no limit. An IPv6 /64 counts as one address.
    pub per_ip_rps: u32,
    /// Refusals per second of one client address, because its own rate or that of its tenant or capability is used up.
    /// An address with more refusals is blocked: its connections are closed, and new ones are closed unread. A block
    /// lasts one second. It doubles, up to twelve seconds, each time that the address floods again within 30 seconds. 0
    /// for no limit; without `per_ip_rps` there is none.
    pub refusals_rps: u32,
    /// Requests per second with one capability token; 0 for no limit.
    pub per_cap_rps: u32,
    /// Burst size of the rate limits, in seconds of the rate.
    pub burst: f64,
    /// Where the rates of clients, tenants, capabilities and routes are counted: `local`, the default, for each gateway
    /// on its own, or a Redis or Valkey server that gateways share: `redis://host:6379`, over TLS
    /// `rediss://user:password@host:6379/0`. Requests never wait for it; while it does not answer, each gateway keeps
    /// its last share of each limit.
    pub store: Option<Secret>,
    /// PEM bundle of the CA certificates for the server of `store`; empty for the system's.
    #[schemars(with = "PathSetting")]
    pub store_ca_path: PathBuf,
}

impl Default for FairQueueConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            order: Order::Fair,
            max_inflight: 512,
            max_waiting: 512,
            max_wait: Duration::from_secs(5).into(),
            quantum_bytes: ByteSize::kib(64),
            slow_after: Duration::from_millis(100).into(),
            max_tenants: 65_536,
            max_streams: 256,
            weights: ClassWeights::default(),
        }
    }
}

impl Default for ClassWeights {
    fn default() -> Self {
        Self { anon: 1, authed: 5, internal: 10 }
    }
}

impl Default for DrrConfig {
    fn default() -> Self {
        Self { default_quantum: 1, tenant_quanta: BTreeMap::new(), rate_limit_rps: 500 }
    }
}

impl Default for QuotasConfig {
    fn default() -> Self {
        Self {
            per_ip_rps: 50,
            refusals_rps: 100,
            per_cap_rps: 200,
            burst: 2.0,
            store: None,
            store_ca_path: PathBuf::new(),
        }
    }
}

impl FairQueueConfig {
    pub(super) fn check(&self, danger_ok: bool, problems: &mut Problems) {
        for (key, value) in [
            ("fair_queue.max_inflight", u64::from(self.max_inflight)),
            ("fair_queue.quantum_bytes", self.quantum_bytes.as_u64()),
            ("fair_queue.max_tenants", self.max_tenants as u64),
        ] {
            if value == 0 {
                problems.at(key, "must be at least 1");
            }
        }
        for (key, value) in
            [("fair_queue.slow_after", self.slow_after), ("fair_queue.max_wait", self.max_wait)]
        {
            if value.as_duration().is_zero() {
                problems.at(key, "must be longer than nothing");
            }
        }
        problems.guard("fair_queue.max_wait", self.max_wait, SAFE_MAX_WAIT.into(), danger_ok);
        problems.guard("fair_queue.max_inflight", self.max_inflight, SAFE_MAX_INFLIGHT, danger_ok);
        problems.guard("fair_queue.max_waiting", self.max_waiting, SAFE_MAX_WAITING, danger_ok);
        problems.guard("fair_queue.max_tenants", self.max_tenants, SAFE_MAX_TENANTS, danger_ok);
        let ClassWeights { anon, authed, internal } = self.weights;
        for (class, weight) in [("anon", anon), ("authed", authed), ("internal", internal)] {
            check_weight(&format!("fair_queue.weights.{class}"), weight, problems);
        }
    }
}

impl DrrConfig {
    pub(super) fn check(&self, problems: &mut Problems) {
        check_weight("drr.default_quantum", self.default_quantum, problems);
        for (tenant, quantum) in &self.tenant_quanta {
            check_weight(&format!("drr.tenant_quanta.{tenant}"), *quantum, problems);
        }
    }

    /// What a tenant counts inside its class.
    pub(crate) fn weight_of(&self, tenant: &TenantName) -> u32 {
        let named = match tenant {
            TenantName::Named(name) if !self.tenant_quanta.is_empty() => self.tenant_quanta.get(&**name),
            _ => None,
        };
        named.copied().unwrap_or(self.default_quantum)
    }
}

impl QuotasConfig {
    pub(super) fn check(&self, danger_ok: bool, problems: &mut Problems) {
        quota_store::check(self.store.as_ref(), danger_ok, problems);
        if !(self.burst > 0.0 && self.burst <= MAX_BURST) {
            problems.at("quotas.burst", format!("must be above 0 and at most {MAX_BURST} seconds"));
        }
    }

    /// The store that gateways share; `None` if each counts on its own.
    ///
    /// # Errors
    /// [`QuotaStoreError`].
    pub(crate) fn quota_store(&self) -> Result<Option<QuotaStore>, QuotaStoreError> {
        quota_store::named(self.store.as_ref())
    }
}

fn check_weight(key: &str, weight: u32, problems: &mut Problems) {
    if !(1..=MAX_WEIGHT).contains(&weight) {
        problems.at(key, format!("must be from 1 to {MAX_WEIGHT}: with 0 it would never be served"));
    }
}
