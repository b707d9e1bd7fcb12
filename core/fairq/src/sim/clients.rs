//! Who sends: tenants, when their requests come, and how long these take.

use super::rng::Rng;
use crate::{cost::SlotMean, queue::Arrival};
use std::time::Duration;
use types::Moment;

/// One tenant and its clients.
#[derive(Debug, Clone)]
pub struct Tenant {
    /// The tenant's name in the report.
    pub name: String,
    /// The number of its class.
    pub class: usize,
    /// The tenant's weight within its class.
    pub weight: u32,
    /// The arrival process of the tenant's requests.
    pub load: Load,
    /// How long a slot is held.
    pub service: Service,
    /// The estimate for its first request; zero if nothing is known of it.
    pub first_estimate: Duration,
    /// Its clients give up when they have waited this long for a slot; `None` if they have the scenario's patience.
    pub patience: Option<Duration>,
    /// Whether slots that it holds for `slow_after` or longer are taken back because its clients stall.
    pub stalls: bool,
}

/// An arrival process of requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// Open loop: on average so many per second, at random, however the earlier ones fare.
    PerSecond(f64),
    /// Open loop: one after each such time.
    Every(Duration),
    /// Closed loop: so many clients, each of which sends again as soon as it has its answer.
    Clients(usize),
    /// Closed loop: so many clients, each of which pauses at random between an answer and its next request.
    Flood {
        /// Number of concurrent clients.
        clients: usize,
        /// The mean pause at first.
        pause: Duration,
        /// The time at which the flood ends.
        until: Duration,
        /// The mean pause from then on.
        then: Duration,
    },
    /// So many at once, at this time.
    Burst {
        /// Number of requests that arrive at once.
        count: usize,
        /// When they come, from the beginning.
        at: Duration,
    },
}

/// How long a slot is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// Every request takes the same time.
    Fixed(Duration),
    /// Exponentially distributed with this mean.
    Exponential(Duration),
    /// Any time between these.
    Uniform(Duration, Duration),
    /// One of these, each as often as the others.
    OneOf(&'static [Duration]),
}

impl Tenant {
    /// A tenant of the first class with weight 1 and the estimate that suits its service.
    #[must_use]
    pub fn new(name: impl Into<String>, load: Load, service: Service) -> Self {
        let (name, first_estimate) = (name.into(), service.mean());
        Self { name, class: 0, weight: 1, load, service, first_estimate, patience: None, stalls: false }
    }

    /// The same tenant in another class.
    #[must_use]
    pub fn in_class(mut self, class: usize) -> Self {
        self.class = class;
        self
    }

    /// The same tenant with another weight.
    #[must_use]
    pub fn weighing(mut self, weight: u32) -> Self {
        self.weight = weight;
        self
    }

    /// The same tenant, whose clients give up when they have waited this long for a slot.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }

    /// The same tenant, whose long requests are long because its clients stall.
    #[must_use]
    pub fn stalling(mut self) -> Self {
        self.stalls = true;
        self
    }

    /// The same tenant, about whose requests nothing is known at first.
    #[must_use]
    pub fn first_estimate(mut self, estimate: Duration) -> Self {
        self.first_estimate = estimate;
        self
    }
}

impl Service {
    /// Returns the mean service time.
    #[must_use]
    pub fn mean(self) -> Duration {
        match self {
            Self::Fixed(time) | Self::Exponential(time) => time,
            Self::Uniform(least, most) => (least + most) / 2,
            Self::OneOf(times) => {
                let count = u32::try_from(times.len()).unwrap_or(u32::MAX).max(1);
                times.iter().sum::<Duration>() / count
            }
        }
    }
}

/// The clients at play, with a generator per tenant so that one tenant's requests do not depend on the others'.
pub(super) struct Clients<'a> {
    tenants: &'a [Tenant],
    rngs: Vec<Rng>,
    means: Vec<SlotMean>,
    /// Whether anything of the tenant has been served yet, or its mean was known from the beginning.
    known: Vec<bool>,
}

impl<'a> Clients<'a> {
    pub(super) fn new(tenants: &'a [Tenant], seed: u64) -> Self {
        let mut seeds = Rng::new(seed);
        let means = tenants.iter().map(|tenant| tenant.first_estimate.into()).collect();
        let known = tenants.iter().map(|tenant| tenant.first_estimate == tenant.service.mean()).collect();
        Self { tenants, rngs: tenants.iter().map(|_| Rng::new(seeds.next())).collect(), means, known }
    }

    pub(super) fn first_arrivals(&mut self, tenant: usize) -> Vec<Duration> {
        match self.tenants[tenant].load {
            Load::PerSecond(_) | Load::Every(_) => self.next_gap(tenant).into_iter().collect(),
            // Apart by a microsecond: nothing in the world is quite at once.
            Load::Clients(count) => (0..count as u64).map(Duration::from_micros).collect(),
            Load::Flood { clients, .. } => (0..clients).map(|_| self.pause(tenant, Moment::ORIGIN)).collect(),
            Load::Burst { count, at } => {
                (0..count as u64).map(|nth| at + Duration::from_micros(nth)).collect()
            }
        }
    }

    pub(super) fn next_gap(&mut self, tenant: usize) -> Option<Duration> {
        match self.tenants[tenant].load {
            Load::PerSecond(rate) if rate > 0.0 => {
                Some(self.rngs[tenant].exponential(Duration::from_secs_f64(1.0 / rate)))
            }
            Load::Every(gap) => Some(gap),
            Load::PerSecond(_) | Load::Clients(_) | Load::Flood { .. } | Load::Burst { .. } => None,
        }
    }

    pub(super) fn is_closed(&self, tenant: usize) -> bool {
        matches!(self.tenants[tenant].load, Load::Clients(_) | Load::Flood { .. })
    }

    /// How long a client of a closed loop waits with its next request.
    pub(super) fn pause(&mut self, tenant: usize, now: Moment) -> Duration {
        match self.tenants[tenant].load {
            Load::Flood { pause, until, then, .. } => {
                let calm = now >= Moment::ORIGIN.after(until);
                self.rngs[tenant].exponential(if calm { then } else { pause })
            }
            _ => Duration::ZERO,
        }
    }

    pub(super) fn service_time(&mut self, tenant: usize) -> Duration {
        match self.tenants[tenant].service {
            Service::Fixed(time) => time,
            Service::Exponential(mean) => self.rngs[tenant].exponential(mean),
            Service::Uniform(least, most) => self.rngs[tenant].between(least, most),
            Service::OneOf(times) => {
                let nth = self.rngs[tenant].next() % (times.len() as u64).max(1);
                usize::try_from(nth).ok().and_then(|nth| times.get(nth)).copied().unwrap_or_default()
            }
        }
    }

    /// Learns how long a slot was held; `stalled` has `slow_after` if it was taken back.
    pub(super) fn learn(&mut self, tenant: usize, ran: Duration, stalled: Option<Duration>) {
        let mean = &mut self.means[tenant];
        *mean = stalled.map_or_else(|| mean.next(ran), |slow_after| mean.next_stalled(ran, slow_after));
        self.known[tenant] = true;
    }

    /// Whether the estimate of a tenant's requests is a guess.
    pub(super) fn is_guessed(&self, tenant: usize) -> bool {
        !self.known[tenant]
    }

    pub(super) fn arrival(&self, tenant: usize) -> Arrival<usize> {
        let Tenant { class, weight, .. } = self.tenants[tenant];
        let slot_time = self.means[tenant];
        Arrival { class, tenant, weight, slot_time, extra_units: 0, slow: false, slots_held: 0 }
    }
}
