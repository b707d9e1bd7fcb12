//! Trace export: sends the spans of requests to a collector with OTLP over HTTP, in JSON.
//!
//! ```text
//! services ─▶ Spans ─▶ queue (drops the oldest) ─▶ span_exporter ─▶ POST /v1/traces ─▶ collector
//! ```
//!
//! It never delays a request: spans that the collector does not accept in time are dropped and counted. Without the
//! feature `export`, only the settings and the declaration exist, so that a program that cannot export says so.

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

/// Whether this build can export spans.
pub const AVAILABLE: bool = cfg!(feature = "export");
