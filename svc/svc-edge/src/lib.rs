//! The asset and tile server that cannot serve a wrong byte: packs, static files, and objects filled from listed origins.
//!
//! ```text
//! listener → core → Edge::call → Route → RAM hit: answered in place
//!                                      → disk hit: verified pieces through the blocking pool
//!                                      → miss: the fill's workers, single-flight
//! ```
//!
//! Every byte is checked against a BLAKE3 tree when it is read from a disk, or once when it enters RAM.

// Its models are of what it is built on alone; see `tests/loom.rs`.
#![cfg(not(loom))]

mod assets;
mod build;
mod config;
mod deny;
mod file_stat;
pub mod fill;
mod flights;
mod ingress;
mod metrics;
mod objects;
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
    LiveFillRetry, Mode, OriginEtag, OriginScheme, PackConfig, RetryConfig, RootConfig, TilesConfig,
};
pub use status::EdgeStatus;
pub use topology::TOPOLOGY;
