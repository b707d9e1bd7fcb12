//! What became of each tenant's requests.

use super::Tenant;
use std::time::Duration;
use types::Moment;

/// All tenants after a run, in the order of the scenario.
#[derive(Debug, Clone)]
pub struct Report {
    /// One entry per tenant.
    pub tenants: Vec<TenantReport>,
    measured: Duration,
}

/// One tenant after a run. Counts are of requests that arrived after the time of warming up.
#[derive(Debug, Clone, Default)]
pub struct TenantReport {
    /// The tenant's name in the scenario.
    pub name: String,
    /// Requests that came, retries included.
    pub offered: u64,
    /// Requests that were served.
    pub served: u64,
    /// Retries among those that came.
    pub retries: u64,
    /// Retries among those served.
    pub retries_served: u64,
    /// Clients that returned for the first time as they were told.
    pub first_returns: u64,
    /// Those of them that were served then.
    pub first_returns_served: u64,
    /// Requests refused as newcomers.
    pub busy: u64,
    /// Requests dropped for a newcomer.
    pub shed: u64,
    /// Requests whose client lost patience while they waited.
    pub gave_up: u64,
    /// Slot-time used between the end of warming up and the end of sending.
    pub slot_time: Duration,
    latencies: Vec<Duration>,
    told: Vec<Duration>,
}

impl Report {
    pub(super) fn new(tenants: &[Tenant], measured: Duration) -> Self {
        let tenants = tenants.iter();
        let tenants =
            tenants.map(|tenant| TenantReport { name: tenant.name.clone(), ..TenantReport::default() });
        Self { tenants: tenants.collect(), measured }
    }

    /// The tenant of this name.
    ///
    /// # Panics
    /// If the scenario has none.
    #[must_use]
    pub fn tenant(&self, name: &str) -> &TenantReport {
        self.tenants
            .iter()
            .find(|tenant| tenant.name == name)
            .expect("the scenario has a tenant of this name")
    }

    /// How many slots a tenant held on average.
    #[must_use]
    pub fn slots_held(&self, tenant: &TenantReport) -> f64 {
        tenant.slot_time.as_secs_f64() / self.measured.as_secs_f64()
    }

    pub(super) fn used_slot(&mut self, tenant: usize, from: Moment, to: Moment) {
        self.tenants[tenant].slot_time += to.since(from);
    }
}

impl TenantReport {
    /// A request comes whose client has been refused so often before.
    pub(super) fn came(&mut self, refusals: u32) {
        self.offered += 1;
        self.retries += u64::from(refusals > 0);
        self.first_returns += u64::from(refusals == 1);
    }

    /// A client that will return is told when.
    pub(super) fn was_told(&mut self, wait: Duration) {
        self.told.push(wait);
    }

    pub(super) fn completed(&mut self, latency: Duration, refusals: u32) {
        self.served += 1;
        self.retries_served += u64::from(refusals > 0);
        self.first_returns_served += u64::from(refusals == 1);
        self.latencies.push(latency);
    }

    /// The time from arrival to answer that this part of the served requests did not exceed; zero if none was served.
    #[must_use]
    pub fn percentile(&self, percent: usize) -> Duration {
        percentile(&self.latencies, percent)
    }

    /// The wait that this part of the refused clients were not told to exceed; zero if none was refused.
    #[must_use]
    pub fn told_percentile(&self, percent: usize) -> Duration {
        percentile(&self.told, percent)
    }

    /// The part of its requests that were served.
    #[must_use]
    pub fn success(&self) -> f64 {
        if self.offered == 0 { 1.0 } else { self.served as f64 / self.offered as f64 }
    }
}

fn percentile(times: &[Duration], percent: usize) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let rank = (percent * sorted.len()).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}
