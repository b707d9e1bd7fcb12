//! `mirror = { … }` of routes: copies of requests go to another upstream.

use ron_kernel::config::ByteSize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::route::Flaw;

/// The most copies of a route's requests that may be on their way at a time.
const MAX_INFLIGHT: u32 = 4096;
/// The longest body that may be copied.
const MAX_BODY: ByteSize = ByteSize::mib(1);

/// Copies of requests for another upstream, whose responses are dropped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MirrorConfig {
    /// The upstream that gets the copies; it must not be one that the route's own requests go to.
    pub upstream: String,
    /// How many of the route's requests are copied, in percent.
    #[serde(default = "all")]
    pub percent: f64,
    /// The longest body that is copied, 1 MiB at most; requests with longer bodies, or with bodies that are not read
    /// before they are forwarded (see `limits.buffer_body_bytes`), are not copied.
    #[serde(default = "small")]
    pub max_body_bytes: ByteSize,
    /// The maximum number of copies in progress; further requests are not copied until one has finished. 4096 at
    /// most, and half of the upstream's `max_conns`. Takes at most this times `max_body_bytes` of memory.
    #[serde(default = "some")]
    pub max_inflight: u32,
    /// Whether copies keep what authenticates a request: `Authorization`, `Cookie`, the fields that the route's
    /// `request_headers` set or add, and those that `forward_auth` copies.
    #[serde(default)]
    pub credentials: bool,
}

fn all() -> f64 {
    100.0
}

fn small() -> ByteSize {
    ByteSize::kib(64)
}

fn some() -> u32 {
    64
}

impl MirrorConfig {
    /// What is wrong with it.
    pub(crate) fn check(&self) -> Vec<Flaw> {
        let mut flaws = Vec::new();
        if !(0.01..=100.0).contains(&self.percent) {
            flaws.push(Flaw::new("mirror.percent", "must be from 0.01 to 100"));
        }
        if self.max_body_bytes > MAX_BODY {
            flaws.push(Flaw::new("mirror.max_body_bytes", format!("must be at most {MAX_BODY}")));
        }
        if !(1..=MAX_INFLIGHT).contains(&self.max_inflight) {
            flaws.push(Flaw::new("mirror.max_inflight", format!("must be from 1 to {MAX_INFLIGHT}")));
        }
        flaws
    }
}
