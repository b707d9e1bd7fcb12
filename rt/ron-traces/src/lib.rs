//! Traces: the spans that services tell of, handed to a collector by OTLP over HTTP, in JSON.
//!
//! ```text
//! services ─▶ Spans ─▶ queue (drops the oldest) ─▶ span_exporter ─▶ POST /v1/traces ─▶ collector
//! ```
//!
//! It never holds a request up: what the collector does not take in time is dropped and counted. Without the feature
//! `export` only the settings and the declaration are here, so that a program that cannot export says so.

mod config;
#[cfg(feature = "export")]
mod encode;
#[cfg(feature = "export")]
mod export;
#[cfg(feature = "export")]
mod post;
mod start;
mod topology;

pub use config::TracesConfig;
pub use start::{StartError, Traces};
pub use topology::TOPOLOGY;

/// Whether this build can export.
pub const AVAILABLE: bool = cfg!(feature = "export");
