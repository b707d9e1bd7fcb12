//! `rate = { … }` of routes: how many requests they take.

use std::time::Duration;

use quota::Rate;
use ron_kernel::config::HumanDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::route::Flaw;

/// The longest time that a number of requests may be for.
const MAX_PER: Duration = Duration::from_secs(86_400);

/// A rate of a route's own, besides those of clients and tenants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteRateConfig {
    /// The number of requests that are allowed in the time `per`, at least 1.
    pub requests: u32,
    /// The period of the limit, from 1ms to 24h.
    #[serde(default = "one_second")]
    pub per: HumanDuration,
    /// The number of requests that may arrive at once; 0 for as many as `requests`.
    #[serde(default)]
    pub burst: u32,
    /// Whose requests are counted together: those of one `client` address, or `all`.
    #[serde(default)]
    pub by: RateBy,
}

/// Whose requests are counted together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RateBy {
    /// Those of one client address; an IPv6 /64 is one.
    #[default]
    Client,
    /// Those of all clients.
    All,
}

fn one_second() -> HumanDuration {
    HumanDuration::from_secs(1)
}

impl RouteRateConfig {
    /// What is wrong with it.
    pub(crate) fn check(&self) -> Vec<Flaw> {
        let mut flaws = Vec::new();
        let per = self.per.as_duration();
        if self.requests == 0 {
            flaws.push(Flaw::new("rate.requests", "must be at least 1"));
        } else if per < Duration::from_millis(1) || per > MAX_PER {
            flaws.push(Flaw::new("rate.per", "must be from 1ms to 24h"));
        } else if self.rate().is_none() {
            flaws.push(Flaw::new("rate.burst", "takes more than a century to come back"));
        }
        flaws
    }

    /// The rate; `None` if the check refuses it.
    pub(crate) fn rate(&self) -> Option<Rate> {
        let burst = if self.burst == 0 { self.requests } else { self.burst };
        Rate::new(self.requests, self.per.as_duration(), burst).ok()
    }
}
