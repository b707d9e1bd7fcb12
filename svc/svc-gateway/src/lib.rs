//! The HTTP front door: accepts requests, finds their route, passes them to an upstream and streams the answer back.
//!
//! ```text
//! listener → core → Proxy::call → Router::find → Upstream → Pool (per core) → server
//! ```
//!
//! Everything on that path happens on the core that owns the connection; what cores share is read-only or atomic.

// Its models are of what it is built on alone; see `tests/loom.rs`.
#![cfg(not(loom))]

mod build;
mod config;
mod forward;
mod pool;
mod proxy;
mod router;
mod sweeper;
mod topology;
mod upstream;

pub use build::{BuildError, Gateway};
pub use config::{
    BreakerConfig, ClientAuth, EjectConfig, EndpointConfig, GatewayConfig, HealthConfig, LimitsConfig,
    MinVersion, PqFallback, PqMode, RetryConfig, RouteConfig, SniConfig, TlsConfig, UpstreamConfig,
};
pub use topology::TOPOLOGY;
