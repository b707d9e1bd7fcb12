//! The HTTP front door: accepts requests, finds their route, passes them to an upstream and streams the answer back.
//!
//! ```text
//! listener → core → Proxy::call → Router::find → Upstream → Pool (per core) → server
//! ```
//!
//! Everything on that path happens on the core that owns the connection; what cores share is read-only or atomic.

// Its models are of what it is built on alone; see `tests/loom.rs`.
#![cfg(not(loom))]

mod access_log;
mod admission;
mod auth;
mod buffers;
mod build;
mod cache;
mod caller;
mod client_addr;
mod config;
mod floods;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod grpc;
pub mod guard;
pub mod jwt;
mod local;
mod message;
mod objects;
mod passage;
mod policy;
mod pool;
mod proxy;
mod quotas;
mod redirect;
mod router;
mod shared;
mod status;
mod sweeper;
mod tenant;
mod topology;
mod trace;
mod transfer;
mod upstream;
pub mod views;

pub use access_log::OpenError as AccessLogError;
pub use auth::{AuthError, AuthFiles, Doubt, load_auth, load_revoked, load_root_key};
pub use build::{BuildError, Gateway, GatewaySettings};
pub use cache::{CacheStatusReport, CacheStoreError, Purge, PurgeError, StoredVariant};
pub use config::{
    AccessFormat, AccessLogConfig, Auth, AuthConfig, BreakerConfig, CacheConfig, ClaimWanted, ClassWeights,
    ClientAuth, DrrConfig, EjectConfig, EndpointConfig, FairQueueConfig, GatewayConfig, HeaderRulesConfig,
    HeaderWanted, HealthConfig, IssuerConfig, LimitsConfig, MinVersion, NoPath, Order, PartConfig, PartPath,
    PqFallback, PqMode, Protocol, QuotasConfig, RedirectConfig, RetryConfig, RouteCacheConfig, RouteConfig,
    SniConfig, SplitConfig, TenantSource, TlsConfig, UnknownSource, UpstreamConfig, UpstreamTlsConfig,
    ViewConfig,
};
pub use local::{Answering, LocalService, LocalServices, UnknownService, check_services};
pub use objects::{Finding, FoundObject, OBJECTS, ObjectBridge, ObjectSource};
pub use status::{ClassStatus, GatewayStatus, ServerStatus, SlotsStatus, TenantStatus, UpstreamStatus};
pub use topology::TOPOLOGY;
