//! The HTTP reverse proxy: accepts requests, finds their route, forwards them to an upstream and streams the
//! response back.
//!
//! ```text
//! listener → core → Proxy::call → Router::find → Upstream → Pool (per core) → server
//! ```
//!
//! Everything on that path happens on the core that owns the connection; what cores share is read-only or atomic.

mod access_log;
mod acme;
mod admission;
mod auth;
mod basic_auth;
mod browser;
mod buffers;
mod build;
mod cache;
mod caller;
mod client_addr;
mod compress;
mod config;
mod fleet;
mod floods;
mod forward_auth;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod grpc;
pub mod guard;
pub mod jwt;
mod local;
mod locks;
mod message;
mod mirror;
mod objects;
mod passage;
mod passwords;
mod policy;
mod pool;
mod proxy;
mod quotas;
mod redirect;
mod respond;
mod router;
mod shared;
mod status;
mod sweeper;
mod tenant;
mod topology;
mod trace;
mod transfer;
mod turns;
mod upstream;
pub mod views;

pub use access_log::OpenError as AccessLogError;
pub use acme::{AcmeError, AcmeSettings, AcmeStatus};
pub use auth::{AuthError, AuthFiles, Doubt, load_auth, load_revoked, load_root_key};
pub use build::{BuildError, Gateway, GatewaySettings};
pub use cache::{CacheStatusReport, CacheStoreError, Purge, PurgeError, StoredVariant};
pub use config::{
    AccessFormat, AccessLogConfig, AcmeChallenge, AcmeConfig, Auth, AuthConfig, BasicAuthConfig,
    BreakerConfig, CacheConfig, ClaimWanted, ClassWeights, ClientAuth, CompressCoding, CompressConfig,
    CorsConfig, DrrConfig, EjectConfig, EndpointConfig, FairQueueConfig, ForwardAuthConfig, GatewayConfig,
    HeaderRulesConfig, HeaderWanted, HealthConfig, IssuerConfig, LimitsConfig, MinVersion, MirrorConfig,
    NoPath, Order, PartConfig, PartPath, PqFallback, PqMode, Protocol, QuotaStoreError, QuotasConfig, RateBy,
    RedirectConfig, RespondConfig, RetryConfig, RouteCacheConfig, RouteConfig, RouteRateConfig,
    SecurityHeaders, SniConfig, SplitConfig, StickyConfig, TenantSource, TlsConfig, UnknownSource,
    UpstreamConfig, UpstreamTlsConfig, ViewConfig,
};
pub use fleet::{QuotaStoreFault, REDIS_AVAILABLE};
pub use local::{Answering, LocalService, LocalServices, UnknownService, check_services};
pub use objects::{Finding, FoundObject, OBJECTS, ObjectBridge, ObjectSource};
pub use passwords::{HashError, LineProblem, UsersError, check_users, hash_password};
pub use status::{
    CertificateStatus, ClassStatus, GatewayStatus, ServerError, ServerStatus, SlotsStatus, TenantStatus,
    UpstreamStatus,
};
pub use topology::TOPOLOGY;
