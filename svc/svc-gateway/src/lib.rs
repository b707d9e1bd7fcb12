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
mod auth;
mod build;
mod client_addr;
mod config;
pub mod guard;
pub mod jwt;
mod message;
mod pool;
mod proxy;
mod redirect;
mod router;
mod sweeper;
mod topology;
mod trace;
mod upstream;
pub mod views;

pub use access_log::OpenError as AccessLogError;
pub use auth::{AuthError, load_auth, load_revoked, load_root_key};
pub use build::{BuildError, Gateway};
pub use config::{
    AccessFormat, AccessLogConfig, Auth, AuthConfig, ClassWeights, ClientAuth, DrrConfig, FairQueueConfig,
    GatewayConfig, HeaderRulesConfig, HeaderWanted, LimitsConfig, MinVersion, NoPath, Order, PartConfig,
    PartPath, PqFallback, PqMode, QuotasConfig, RedirectConfig, RouteConfig, SniConfig, SplitConfig,
    TenantSource, TlsConfig, UnknownSource, UpstreamConfig, ViewConfig,
};
pub use topology::TOPOLOGY;
