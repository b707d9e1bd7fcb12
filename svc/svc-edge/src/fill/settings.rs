//! The settings of the fill as it uses them, replaced whole by a reload.

use std::time::Duration;

use decode::Limits;
use quota::Rate;
use ron_kernel::retry::Backoff;
use ron_transport::tls::TlsError;
use types::Refusal;

use super::{OriginUrl, allow::Allow};
use crate::config::EdgeConfig;

/// The settings of the fill, checked and with everything loaded that they name.
#[derive(Debug)]
pub struct FillSettings {
    pub(super) allow: Allow,
    /// From a miss to the head of the answer, and the longest silence after it.
    pub(super) fill_timeout: Duration,
    pub(super) connect_timeout: Duration,
    /// The maximum length of an object in bytes.
    pub(super) max_object: u64,
    /// For how many seconds an object is fresh if nobody says.
    pub(super) default_ttl: u64,
    /// For how many seconds there is nothing if nobody says.
    pub(super) negative_ttl: u64,
    /// Fills begun; `None` for no limit.
    pub(super) rate: Option<Rate>,
    /// The maximum number of tries.
    pub(super) tries: u32,
    pub(super) backoff: Backoff,
    pub(super) decode: Limits,
}

impl FillSettings {
    /// Takes what concerns the fill. Reads the bundles of authorities that origins name, and blocks for that.
    ///
    /// # Errors
    /// A bundle that cannot be used.
    pub fn load(config: &EdgeConfig) -> Result<Self, TlsError> {
        let (fill, retry) = (&config.fill, &config.retry.live_fill);
        Ok(Self {
            allow: Allow::load(&config.allow)?,
            fill_timeout: config.fill_timeout.as_duration(),
            connect_timeout: fill.connect_timeout.as_duration(),
            max_object: fill.max_object_bytes.as_u64(),
            default_ttl: fill.default_ttl.as_duration().as_secs(),
            negative_ttl: fill.negative_ttl.as_duration().as_secs(),
            rate: Rate::per_second(fill.rps_limit, fill.rps_limit).ok(),
            tries: retry.max_retries.saturating_add(1),
            backoff: Backoff::Added {
                base: Duration::from_millis(retry.base_ms),
                cap: Duration::from_millis(retry.max_ms),
                jitter: retry.jitter,
            },
            decode: Limits {
                max_ratio: config.ingress.decompress_max_ratio,
                max_bytes: config.ingress.decompress_abs_bytes.as_u64(),
                ..Limits::default()
            },
        })
    }

    pub(super) fn url(&self, asset: &str, query: Option<&str>) -> Result<OriginUrl, Refusal> {
        self.allow.url(asset, query)
    }

    pub(super) fn redirected(&self, from: &OriginUrl, location: &str) -> Result<OriginUrl, Refusal> {
        self.allow.redirected(from, location)
    }
}
