//! What is in force on one core: everything that a reload replaces, replaced as a whole.

use std::{collections::BTreeMap, sync::Arc};

use arc_swap::ArcSwap;
use http::HeaderName;
use ron_transport::{proxy_protocol::TrustedSources, tunnel::TunnelLimits};

use crate::{
    DrrConfig, GatewayConfig, TenantSource,
    auth::Auth,
    guard::BodyLimits,
    quotas::Rates,
    redirect::{self, Redirect},
    router::Router,
    upstream::Upstream,
};

/// What is in force. Cores have copies of their own, because a reference count that all of them change costs more than
/// what it protects.
#[derive(Debug)]
pub(crate) struct Policy {
    /// Counts policies from the first.
    pub(crate) generation: u64,
    pub(crate) router: Router,
    /// By name, as this core sees them.
    pub(crate) upstreams: BTreeMap<String, Arc<Upstream>>,
    pub(crate) sources: Box<[TenantSource]>,
    /// The header fields among the sources, in their order.
    pub(crate) tenant_fields: Box<[HeaderName]>,
    pub(crate) trusted_proxies: TrustedSources,
    pub(crate) internal_from: TrustedSources,
    pub(crate) rates: Rates,
    pub(crate) drr: DrrConfig,
    /// So many bytes of a body cost as much as a millisecond of a slot.
    pub(crate) quantum_bytes: u64,
    pub(crate) auth: Arc<Auth>,
    pub(crate) body: BodyLimits,
    /// Request bodies up to this length are read completely before the request takes a slot, so that a slow upload
    /// holds no slot; 0 for none. Exempt are gRPC requests, routes with `stream = true`, and requests with
    /// `Expect: 100-continue`.
    pub(crate) buffer_body_bytes: u64,
    /// Streams that one tenant may have.
    pub(crate) max_streams: u32,
    /// How long connections that have changed their protocol may last.
    pub(crate) tunnels: TunnelLimits,
    /// Where the redirect listener sends clients.
    pub(crate) to_https: Redirect,
}

/// What is in force, by core.
pub(crate) type Policies = Arc<[Arc<ArcSwap<Policy>>]>;

/// Where requests go from one core.
#[derive(Debug)]
pub(crate) struct Ways {
    pub(crate) router: Router,
    pub(crate) upstreams: BTreeMap<String, Arc<Upstream>>,
}

impl Policy {
    pub(crate) fn new(config: &GatewayConfig, generation: u64, ways: Ways, auth: Arc<Auth>) -> Self {
        Self {
            generation,
            router: ways.router,
            upstreams: ways.upstreams,
            sources: config.tenant_from.clone().into(),
            tenant_fields: config.tenant_fields().cloned().collect(),
            trusted_proxies: TrustedSources::new(config.trusted_proxies.clone()),
            internal_from: TrustedSources::new(config.internal_from.clone()),
            rates: Rates::new(&config.quotas, &config.drr),
            drr: config.drr.clone(),
            quantum_bytes: config.fair_queue.quantum_bytes.as_u64(),
            auth,
            body: config.limits.body(),
            buffer_body_bytes: config.limits.buffer_body_bytes.as_u64(),
            max_streams: config.fair_queue.max_streams,
            tunnels: TunnelLimits {
                idle: config.tunnel_idle_timeout.as_duration(),
                ..TunnelLimits::default()
            },
            to_https: Redirect::to_https(redirect::https_port(config)),
        }
    }
}
