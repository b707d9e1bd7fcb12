//! What the rewarder counts beyond the shared families.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge};
use ron_kernel::{Scope, lock::Ranked, metrics::LatencyHistogram, topology::MetricSpec};

use crate::topology::METRICS_COUNTERS;

/// Epochs with a series of their own in `quarantine_total`.
const NAMED_EPOCHS: usize = 16;

/// Beyond the shared families.
pub(crate) const METRICS: [MetricSpec; 10] = [
    MetricSpec {
        name: "quarantine_total",
        labels: "epoch",
        doc: "quarantined epochs: the last sixteen by number, the rest as `other`",
    },
    MetricSpec {
        name: "dropped_results_total",
        labels: "",
        doc: "computed epochs that could not be handed to the writer in time",
    },
    MetricSpec {
        name: "reward_runs_total",
        labels: "status",
        doc: "runs by outcome: computed, settled, unfunded, quarantined, failed",
    },
    MetricSpec {
        name: "reward_compute_latency_seconds",
        labels: "",
        doc: "duration from the first row of an epoch to its payouts",
    },
    MetricSpec {
        name: "reward_pool_total_minor",
        labels: "",
        doc: "the sum of the pools of all computed epochs, in minor units",
    },
    MetricSpec {
        name: "reward_payout_total_minor",
        labels: "",
        doc: "the sum of the payouts of all computed epochs, in minor units",
    },
    MetricSpec {
        name: "reward_conservation_delta_minor",
        labels: "",
        doc: "pool minus payouts minus residual of the last run: any value but 0 is an error",
    },
    MetricSpec { name: "accounting_epoch", labels: "", doc: "the epoch that usage is booked in" },
    MetricSpec { name: "accounting_rows_total", labels: "", doc: "rows of usage that were recorded" },
    MetricSpec {
        name: "accounting_late_rows_total",
        labels: "",
        doc: "rows that arrived after their epoch was sealed and are quarantined",
    },
];

/// How a run ended, as it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Computed,
    Settled,
    Unfunded,
    Quarantined,
    Failed,
}

impl Status {
    const ALL: [Self; 5] = [Self::Computed, Self::Settled, Self::Unfunded, Self::Quarantined, Self::Failed];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Computed => "computed",
            Self::Settled => "settled",
            Self::Unfunded => "unfunded",
            Self::Quarantined => "quarantined",
            Self::Failed => "failed",
        }
    }
}

type Service = (&'static str, &'static str);
/// A sum under the name that it is declared by: to the name of a counter the library adds `_total`, and these have it in
/// the middle.
type Sum = Gauge<u64, AtomicU64>;
type Quarantines = Family<[(&'static str, String); 2], Counter>;

/// Counters with a handle each, because looking one up takes a lock.
#[derive(Debug)]
pub(crate) struct RewarderMetrics {
    service: &'static str,
    quarantines: Quarantines,
    named: Ranked<VecDeque<u64>>,
    pub(crate) dropped_results: Counter,
    runs: [Counter; Status::ALL.len()],
    pub(crate) compute_latency: LatencyHistogram,
    pool: Sum,
    payout: Sum,
    pub(crate) conservation_delta: Gauge,
    pub(crate) epoch: Gauge,
    pub(crate) rows: Counter,
    pub(crate) late_rows: Counter,
}

impl RewarderMetrics {
    /// Registers the families. Once for each node.
    pub(crate) fn new(scope: &Scope) -> Arc<Self> {
        let service = ("service", scope.service());
        let quarantines = Quarantines::default();
        let runs = Family::<[Service; 2], Counter>::default();
        let latency = Family::<[Service; 1], LatencyHistogram>::default();
        let counters: [Family<[Service; 1], Counter>; 3] = Default::default();
        let sums: [Family<[Service; 1], Sum>; 2] = Default::default();
        let gauges: [Family<[Service; 1], Gauge>; 2] = Default::default();
        scope.all_metrics().register(|registry| {
            // The library adds `_total` itself.
            let name = |at: usize| METRICS[at].name.trim_end_matches("_total");
            registry.register(name(0), METRICS[0].doc, quarantines.clone());
            registry.register(name(2), METRICS[2].doc, runs.clone());
            registry.register(name(3), METRICS[3].doc, latency.clone());
            for (family, at) in counters.iter().zip([1, 8, 9]) {
                registry.register(name(at), METRICS[at].doc, family.clone());
            }
            for (family, at) in sums.iter().zip([4, 5]) {
                registry.register(name(at), METRICS[at].doc, family.clone());
            }
            for (family, at) in gauges.iter().zip([6, 7]) {
                registry.register(name(at), METRICS[at].doc, family.clone());
            }
        });
        let [dropped_results, rows, late_rows] =
            counters.map(|family| family.get_or_create(&[service]).clone());
        let [pool, payout] = sums.map(|family| family.get_or_create(&[service]).clone());
        let [conservation_delta, epoch] = gauges.map(|family| family.get_or_create(&[service]).clone());
        Arc::new(Self {
            service: scope.service(),
            quarantines,
            named: scope.lock(&METRICS_COUNTERS, VecDeque::new()),
            dropped_results,
            runs: Status::ALL
                .map(|status| runs.get_or_create(&[service, ("status", status.as_str())]).clone()),
            compute_latency: latency.get_or_create(&[service]).clone(),
            pool,
            payout,
            conservation_delta,
            epoch,
            rows,
            late_rows,
        })
    }

    /// Counts how a run ended.
    pub(crate) fn ended(&self, status: Status) {
        self.runs[status as usize].inc();
    }

    /// Counts a computed epoch and its sums.
    pub(crate) fn computed(&self, took: Duration, pool: u128, paid: u128) {
        let count = |minor: u128| u64::try_from(minor).unwrap_or(u64::MAX);
        self.ended(Status::Computed);
        self.compute_latency.observe(took);
        self.pool.inc_by(count(pool));
        self.payout.inc_by(count(paid));
    }

    /// Publishes what the pool has more than is about to be paid and kept of it: before anything is paid, so that an epoch
    /// whose sums do not close is told also if it is refused.
    pub(crate) fn conservation(&self, delta: i128) {
        let nearest = if delta < 0 { i64::MIN } else { i64::MAX };
        self.conservation_delta.set(i64::try_from(delta).unwrap_or(nearest));
    }

    /// Counts an epoch that was set aside.
    pub(crate) fn quarantined(&self, epoch: u64) {
        self.ended(Status::Quarantined);
        let forgotten = {
            let mut named = self.named.lock();
            if !named.contains(&epoch) {
                named.push_back(epoch);
            }
            if named.len() > NAMED_EPOCHS { named.pop_front() } else { None }
        };
        self.quarantines.get_or_create(&self.labels(epoch.to_string())).inc();
        if let Some(old) = forgotten.map(|old| self.labels(old.to_string())) {
            let count = self.quarantines.get_or_create(&old).get();
            self.quarantines.remove(&old);
            self.quarantines.get_or_create(&self.labels("other".to_owned())).inc_by(count);
        }
    }

    fn labels(&self, epoch: String) -> [(&'static str, String); 2] {
        [("service", self.service.to_owned()), ("epoch", epoch)]
    }
}
