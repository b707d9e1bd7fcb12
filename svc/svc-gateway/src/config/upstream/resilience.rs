//! What an upstream does about failures: retries, breaker, ejection, health checks.

use std::time::Duration;

use http::uri::PathAndQuery;
use ron_kernel::{
    breaker::BreakerPolicy,
    config::{HumanDuration, Problems},
    retry::{Backoff, RetryPolicy},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// More tries of one request than this only multiply the load on what is failing.
const MAX_TRIES: u32 = 10;
/// The time over which `breaker.error_rate` is measured.
const BREAKER_WINDOW: Duration = Duration::from_secs(10);
/// Fewer results than this are no rate.
const BREAKER_MIN_SAMPLES: u32 = 20;
/// A breaker's open time doubles with each failed probe up to this many times the first.
const BREAKER_CAP_FACTOR: u32 = 8;

/// Trying again. A request that reached no server goes on to the next one at once, whatever these say; what follows is
/// for requests without a body whose method may be repeated: GET, HEAD, OPTIONS, TRACE, PUT and DELETE.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RetryConfig {
    /// The maximum number of tries, including the first; 1 turns retries off.
    pub max_tries: u32,
    /// The first delay is random, between this and twice this; each further delay is twice as long.
    pub base: HumanDuration,
    /// The longest delay between two tries.
    pub cap: HumanDuration,
    /// The retry budget: retries as a share of the requests to the upstream, so that they cannot multiply the load
    /// of an outage. Each tenant has its own budget, from its own requests; three retries per second are free.
    /// There are 16 budgets, so with more tenants some share one.
    pub budget: f64,
    /// Response statuses that are retried, besides connections that break before the response begins.
    pub statuses: Vec<u16>,
}

/// Leaving alone a server that fails: that refuses connections, breaks them, stalls, is too late, or answers 502, 503 or
/// 504.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BreakerConfig {
    /// Opens when this share of the results of the last 10 s, at least 20 results, are failures; 0 turns this rule
    /// off.
    pub error_rate: f64,
    /// Opens after this many failures in a row; 0 turns this rule off.
    pub consecutive: u32,
    /// How long the breaker stays open before the server is tested once: by a health check if there is one,
    /// otherwise by a request. Doubles with each failure, up to eight times this.
    pub open_for: HumanDuration,
}

/// Outlier ejection: stops using a server for a while if it responds worse than the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EjectConfig {
    /// The number of consecutive failures or responses of 500 and above after which a server is ejected; 0 turns it
    /// off.
    pub consecutive: u32,
    /// How long a server is ejected the first time; twice as long the second time, and so on.
    pub base: HumanDuration,
    /// The largest share of the servers that may be ejected at the same time.
    pub max_share: f64,
}

/// Active health checks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HealthConfig {
    /// The path that is requested with GET, such as `/healthz`; empty for no health checks. Any status from 200 to
    /// 399 is a success.
    pub path: String,
    /// The interval between two health checks of a server.
    pub interval: HumanDuration,
    /// Timeout of a health check.
    pub timeout: HumanDuration,
    /// Consecutive successes until an unhealthy server is used again.
    pub healthy_after: u32,
    /// Consecutive failures until a healthy server is taken out of use. The very first health check takes effect at
    /// once.
    pub unhealthy_after: u32,
}

impl Default for RetryConfig {
    fn default() -> Self {
        Self {
            max_tries: 3,
            base: Duration::from_millis(50).into(),
            cap: Duration::from_secs(2).into(),
            budget: 0.1,
            statuses: vec![502, 503],
        }
    }
}

impl Default for BreakerConfig {
    fn default() -> Self {
        Self { error_rate: 0.5, consecutive: 5, open_for: Duration::from_secs(5).into() }
    }
}

impl Default for EjectConfig {
    fn default() -> Self {
        Self { consecutive: 5, base: Duration::from_secs(10).into(), max_share: 0.5 }
    }
}

impl Default for HealthConfig {
    fn default() -> Self {
        Self {
            path: String::new(),
            interval: Duration::from_secs(2).into(),
            timeout: Duration::from_secs(1).into(),
            healthy_after: 2,
            unhealthy_after: 3,
        }
    }
}

impl RetryConfig {
    pub(super) fn check(&self, at: &str, problems: &mut Problems) {
        if !(1..=MAX_TRIES).contains(&self.max_tries) {
            problems.at(format!("{at}max_tries"), format!("must be from 1 to {MAX_TRIES}"));
        }
        check_waits(at, &[("base", self.base), ("cap", self.cap)], problems);
        if self.cap < self.base {
            problems.at(format!("{at}cap"), format!("must not be less than `base`, which is {}", self.base));
        }
        check_share(format!("{at}budget"), self.budget, problems);
        for (index, status) in self.statuses.iter().enumerate() {
            if !(500..=599).contains(status) {
                problems.at(format!("{at}statuses.{index}"), "must be from 500 to 599");
            }
        }
    }

    pub(crate) fn policy(&self) -> RetryPolicy {
        let (base, cap) = (self.base.as_duration(), self.cap.as_duration());
        let backoff = Backoff::Spread { min: base, max: base.saturating_mul(2), cap };
        RetryPolicy { max_tries: self.max_tries, backoff }
    }

    /// The budget in thousandths.
    pub(crate) fn budget_permille(&self) -> u32 {
        permille(self.budget)
    }
}

impl BreakerConfig {
    pub(super) fn check(&self, at: &str, problems: &mut Problems) {
        check_share(format!("{at}error_rate"), self.error_rate, problems);
        check_waits(at, &[("open_for", self.open_for)], problems);
    }

    pub(crate) fn policy(&self) -> BreakerPolicy {
        let open_for = self.open_for.as_duration();
        BreakerPolicy {
            error_permille: permille(self.error_rate),
            window: BREAKER_WINDOW,
            min_samples: BREAKER_MIN_SAMPLES,
            consecutive: self.consecutive,
            open_for,
            open_cap: open_for.saturating_mul(BREAKER_CAP_FACTOR),
        }
    }
}

impl EjectConfig {
    pub(super) fn check(&self, at: &str, problems: &mut Problems) {
        check_waits(at, &[("base", self.base)], problems);
        check_share(format!("{at}max_share"), self.max_share, problems);
    }

    /// How many of `servers` may be left out at once: never all of them.
    pub(crate) fn most(&self, servers: usize) -> usize {
        let allowed = servers.saturating_mul(permille(self.max_share) as usize) / 1000;
        allowed.min(servers.saturating_sub(1))
    }
}

impl HealthConfig {
    pub(super) fn check(&self, at: &str, problems: &mut Problems) {
        if !self.is_on() {
            return;
        }
        if !self.path.starts_with('/') || self.path.parse::<PathAndQuery>().is_err() {
            problems.at(format!("{at}path"), "must be a path that begins with `/`");
        }
        check_waits(at, &[("interval", self.interval), ("timeout", self.timeout)], problems);
        for (key, value) in [("healthy_after", self.healthy_after), ("unhealthy_after", self.unhealthy_after)]
        {
            if value == 0 {
                problems.at(format!("{at}{key}"), "must be at least 1");
            }
        }
    }

    /// Returns true if health checks are enabled.
    pub(crate) fn is_on(&self) -> bool {
        !self.path.is_empty()
    }
}

fn check_waits(at: &str, waits: &[(&str, HumanDuration)], problems: &mut Problems) {
    for (key, wait) in waits {
        if wait.as_duration().is_zero() {
            problems.at(format!("{at}{key}"), "must be longer than nothing");
        }
    }
}

fn check_share(at: String, share: f64, problems: &mut Problems) {
    if !(0.0..=1.0).contains(&share) {
        problems.at(at, "must be from 0 to 1");
    }
}

/// A share in thousandths.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 0..=1000 before")]
fn permille(share: f64) -> u32 {
    (share * 1000.0).round().clamp(0.0, 1000.0) as u32
}
