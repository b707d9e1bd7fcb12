//! The asset and tile server that cannot serve a wrong byte: packs, static files, and objects filled from listed origins.
//!
//! ```text
//! listener → core → Edge::call → Route → RAM hit: answered in place
//!                                      → disk hit: verified pieces through the blocking pool
//!                                      → miss: the fill's workers, single-flight
//! ```
//!
//! Every byte is checked against a BLAKE3 tree when it is read from a disk, or once when it enters RAM.

mod assets;
mod build;
mod config;
mod deny;
mod file_stat;
pub mod fill;
mod flights;
mod ingress;
mod locks;
mod metrics;
mod objects;
mod overload;
mod packs;
mod policy;
mod preview;
mod ram;
mod route;
mod serve;
mod service;
mod shared;
mod spans;
mod status;
mod tiles;
mod topology;

pub use build::{BuildError, Edge, EdgeSettings};
pub use config::{
    AllowConfig, CacheControlConfig, CasConfig, CorsConfig, EdgeConfig, EmptyTile, FillConfig, IngressConfig,
    LiveFillRetry, Mode, OriginEtag, OriginScheme, PackConfig, RefusedPacks, RetryConfig, RootConfig,
    SiteConfig, TilesConfig,
};
pub use status::{EdgeCertificate, EdgeStatus, OriginError, OriginStatus};
pub use topology::TOPOLOGY;
