//! Fair admission: at most `max_inflight` requests upstream at once, and the tenant furthest below its share goes next.
//!
//! A request never leaves its core; only its ticket waits. When nobody waits, entering and leaving are one atomic step each.

mod metrics;
mod overload;
mod promises;
mod room;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use fairq::{ActiveTenants, Promise, RetryAfter, Settings};
use ron_kernel::{Clock, InFlight, InFlightShard, Scope, Shutdown, topology::Stage};
use ron_sync::gate::{Denied, Gate};
use types::{Deadline, Moment, Reason, Refusal};

use crate::{
    DrrConfig, FairQueueConfig, GatewayConfig,
    caller::Caller,
    status::{ClassStatus, SlotsStatus, TenantStatus},
    tenant::{Class, Tenant},
};
use metrics::AdmissionMetrics;
pub(crate) use metrics::{METRICS, SCHED, WORK};
use overload::OverloadWatch;
pub(crate) use promises::HeldPromises;
use room::{FairRoom, Newcomer, Stay};

/// When a request may be tried again that found as many waiting as can be counted, or the gate closed.
const WHEN_CROWDED: Duration = Duration::from_secs(1);
/// Whoever waits in vain for so long, or longer, should not have had to.
const LONG_WAIT: Duration = Duration::from_secs(1);
/// Tenants looked at by one round of housekeeping.
const LOOKED_AT: usize = 1024;

/// Admits requests. One for all cores.
#[derive(Debug)]
pub(crate) struct Admission {
    gate: Arc<Gate<FairRoom>>,
    enabled: AtomicBool,
    /// The longest wait for a slot, in nanoseconds.
    max_wait: AtomicU64,
    /// Nanoseconds; tenants slower than this are always shown to the room.
    slow_after: AtomicU64,
    clock: Clock,
    /// Tenants that have come lately.
    active_tenants: Arc<ActiveTenants>,
    shutdown: Shutdown,
    /// Requests inside, by class.
    inside: [InFlight; Class::ALL.len()],
    metrics: AdmissionMetrics,
    overload: OverloadWatch,
}

/// One core's way in. Slots hold on to it and not to what all cores share: a reference count that two cores change for
/// every request costs each of them a cache miss. Aligned, lest two cores' counts be neighbours.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Door(Arc<Admission>);

/// The right to be upstream. Dropping it lets the next one in.
#[derive(Debug)]
pub(crate) struct Slot {
    /// `None` once dropped.
    stay: Option<Stay>,
    /// Whose it is, where the stay does not say.
    caller: Option<Arc<Caller>>,
    /// Time at which the request arrived.
    came: Moment,
    since: Moment,
    /// Whether it is taken back because its client stalled.
    is_stalled: bool,
    shard: InFlightShard,
    door: Arc<Door>,
}

impl Admission {
    pub(crate) fn new(scope: &Scope, config: &GatewayConfig) -> Arc<Self> {
        let (clock, active_tenants) = (scope.clock(), Arc::new(ActiveTenants::default()));
        let room = FairRoom::new(
            settings(&config.fair_queue),
            config.fair_queue.order,
            clock,
            Arc::clone(&active_tenants),
        );
        let admission = Arc::new(Self {
            gate: Gate::new(config.fair_queue.max_inflight, room),
            enabled: AtomicBool::new(config.fair_queue.enabled),
            max_wait: AtomicU64::new(nanos(config.fair_queue.max_wait.as_duration())),
            slow_after: AtomicU64::new(nanos(config.fair_queue.slow_after.as_duration())),
            clock,
            active_tenants,
            shutdown: scope.shutdown().clone(),
            inside: Default::default(),
            metrics: AdmissionMetrics::new(scope),
            overload: OverloadWatch::new(scope),
        });
        let sampled = Arc::clone(&admission);
        scope.sampled(move || sampled.sample());
        let kept = Arc::clone(&admission);
        scope.housekept(move || kept.housekeep());
        admission
    }

    /// Puts other limits and weights into force. Who waits, runs or owes stays as it is.
    pub(crate) fn reconfigure(&self, config: &FairQueueConfig) {
        self.enabled.store(config.enabled, Ordering::Relaxed);
        self.max_wait.store(nanos(config.max_wait.as_duration()), Ordering::Relaxed);
        self.slow_after.store(nanos(config.slow_after.as_duration()), Ordering::Relaxed);
        self.gate.with_room(|room| room.reconfigure(settings(config), config.order));
        self.gate.set_limit(config.max_inflight);
    }

    /// Resolves when those who wait are sent away: not if a successor has taken over, who leaves us the time.
    async fn going_away(&self) {
        self.shutdown.reached(Stage::Intake).await;
        if self.shutdown.has_successor() {
            std::future::pending::<()>().await;
        }
    }

    /// The client that was promised this will not be recognised when it returns.
    fn release(&self, tenant: &Tenant, promise: Promise) {
        self.gate.with_room(|room| room.release(tenant, promise));
    }

    /// Counts a request that waited until its deadline, and says when its client should return.
    fn waited_in_vain(&self, tenant: &Tenant, came: Moment) -> RetryAfter {
        let now = self.clock.now();
        self.metrics.work.dropped.inc();
        self.gate.with_room(|room| {
            if now.since(came) >= LONG_WAIT {
                room.waited_in_vain(tenant);
            }
            room.retry_after(tenant, now)
        })
    }

    fn refusal(&self, denied: &Denied<RetryAfter>) -> Refusal {
        let (queue, refusal, wait) = match denied {
            Denied::Refused(wait) => (
                &self.metrics.work,
                Refusal::new(Reason::Busy, "this tenant already has its share of the queue"),
                wait.exact(),
            ),
            Denied::Evicted(wait) => (
                &self.metrics.sched,
                Refusal::new(Reason::Shed, "other tenants are further below their share"),
                wait.exact(),
            ),
            Denied::Crowded | Denied::Closed => {
                (&self.metrics.work, Refusal::from(Reason::Busy), WHEN_CROWDED)
            }
        };
        queue.busy.inc();
        queue.dropped.inc();
        refusal.retry_after(wait)
    }

    fn sample(&self) {
        let now = self.clock.now();
        let counts = self.gate.with_room(|room| {
            self.metrics.sample(room.queue(), now);
            room.counts(now)
        });
        self.overload.look(counts, now);
        self.metrics.sample_inside(&self.inside);
    }

    /// How the slots are taken, and how many tickets of each of these tenants wait.
    pub(crate) fn look(&self, tenants: &mut [TenantStatus]) -> SlotsStatus {
        let now = self.clock.now();
        self.gate.with_room(|room| {
            for tenant in tenants {
                let stats = room.queue().tenant(tenant.key.class.index(), &tenant.key.name, now);
                tenant.waiting = stats.map_or(0, |stats| stats.waiting);
            }
            let class = |class: Class| {
                let (settings, stats) = (room.queue().settings(), room.queue().class(class.index(), now)?);
                Some(ClassStatus {
                    name: class.name(),
                    weight: settings.classes.get(class.index())?.weight,
                    inside: self.inside[class.index()].count(),
                    waiting: stats.waiting,
                    tokens_ms: stats.tokens,
                })
            };
            SlotsStatus {
                enabled: self.enabled.load(Ordering::Relaxed),
                slots: room.queue().settings().slots,
                room: room.queue().settings().room,
                waiting: room.queue().depth(),
                classes: Class::ALL.into_iter().filter_map(class).collect(),
            }
        })
    }

    fn housekeep(&self) {
        let now = self.clock.now();
        self.gate.with_room(|room| room.housekeep(LOOKED_AT, now));
    }
}

impl Door {
    pub(crate) fn new(admission: &Arc<Admission>) -> Arc<Self> {
        Arc::new(Self(Arc::clone(admission)))
    }

    /// How long a slot may be held before that counts as slow.
    pub(crate) fn slow_after(&self) -> Duration {
        Duration::from_nanos(self.0.slow_after.load(Ordering::Relaxed))
    }

    /// Admits a request of a tenant whose body costs `extra_units`, waiting until `deadline` at most; `None` if nothing is
    /// admitted here. What a refused client is promised, its connection holds.
    ///
    /// Cancel safe: dropping the future gives up the place, or the slot if it was granted meanwhile.
    ///
    /// # Errors
    /// `busy` and `shed` with when to come back; `draining` when the node stops.
    pub(crate) async fn enter(
        self: &Arc<Self>,
        caller: &Arc<Caller>,
        drr: &DrrConfig,
        extra_units: u32,
        (now, deadline): (Moment, Deadline),
        held: &HeldPromises,
    ) -> Result<Option<Slot>, Refusal> {
        let (admission, tenant) = (&self.0, &caller.tenant);
        if !admission.enabled.load(Ordering::Relaxed) {
            return Ok(None);
        }
        admission.active_tenants.came(&tenant.last_seen, now);
        let newcomer = Newcomer {
            weight: drr.weight_of(&tenant.key.name),
            is_slow: tenant.is_slow(self.slow_after(), now),
            caller: Arc::clone(caller),
            extra_units,
            promise: held.take(&tenant.key, now),
            now,
        };
        let promise = newcomer.promise;
        match admission.gate.try_take(newcomer) {
            Ok(stay) => {
                if let Some(promise) = promise {
                    admission.gate.with_room(|room| room.returned_to_free_slot(tenant, promise, now));
                }
                Ok(Some(self.slot(stay, tenant, None, (now, now))))
            }
            Err(newcomer) => self.wait(newcomer, deadline, held).await.map(Some),
        }
    }

    async fn wait(
        self: &Arc<Self>,
        newcomer: Newcomer,
        deadline: Deadline,
        held: &HeldPromises,
    ) -> Result<Slot, Refusal> {
        let (admission, caller, came) = (&self.0, Arc::clone(&newcomer.caller), newcomer.now);
        let longest = Duration::from_nanos(admission.max_wait.load(Ordering::Relaxed));
        let deadline = deadline.tightened(Deadline::within(newcomer.now, longest));
        let draining =
            || Refusal::new(Reason::Draining, "the node stops, and this request was still waiting");
        if admission.shutdown.is_draining() && !admission.shutdown.has_successor() {
            return Err(draining());
        }
        let entered = tokio::select! {
            biased;
            entered = admission.clock.by(deadline, admission.gate.enter(newcomer)) => entered,
            () = admission.going_away() => return Err(draining()),
        };
        match entered {
            Some(Ok(permit)) => {
                let (tenant, since) = (Arc::clone(&caller.tenant), admission.clock.now());
                Ok(self.slot(permit.into_stay(), &tenant, Some(caller), (came, since)))
            }
            Some(Err(denied)) => {
                if let Denied::Refused(wait) | Denied::Evicted(wait) = denied {
                    self.hold(wait, &caller, held);
                }
                Err(admission.refusal(&denied))
            }
            None => {
                let wait = admission.waited_in_vain(&caller.tenant, came);
                self.hold(wait, &caller, held);
                Err(Refusal::new(Reason::Busy, "no slot became free in time").retry_after(wait.exact()))
            }
        }
    }

    fn hold(self: &Arc<Self>, wait: RetryAfter, caller: &Arc<Caller>, held: &HeldPromises) {
        if let Some(promise) = wait.promise() {
            held.hold(promise, caller, self, self.0.clock.now());
        }
    }

    fn slot(
        self: &Arc<Self>,
        stay: Stay,
        tenant: &Tenant,
        caller: Option<Arc<Caller>>,
        (came, since): (Moment, Moment),
    ) -> Slot {
        let shard = self.0.inside[tenant.key.class.index()].begin();
        tenant.takes_slot(since);
        Slot { stay: Some(stay), caller, came, since, is_stalled: false, shard, door: Arc::clone(self) }
    }
}

impl Slot {
    /// Notes that it is taken back because its client keeps the request waiting, which makes the tenant slow.
    pub(crate) fn is_taken_back(&mut self) {
        self.is_stalled = true;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let (admission, Some(stay)) = (&self.door.0, self.stay.take()) else { return };
        let caller = match (&stay, &self.caller) {
            (Stay::WalkedIn { caller, .. }, _) => Some(caller),
            (Stay::Granted(_) | Stay::Stalled(_), caller) => caller.as_ref(),
        };
        if let Some(Caller { tenant, .. }) = caller.map(|caller| &**caller) {
            admission.inside[tenant.key.class.index()].end(self.shard);
            let now = admission.clock.now();
            let stalled = self.is_stalled.then(|| self.door.slow_after());
            tenant.returns_slot(self.since, now.since(self.since), now.since(self.came), stalled);
        }
        admission.gate.give_back(match stay {
            Stay::Granted(pass) if self.is_stalled => Stay::Stalled(pass),
            stay => stay,
        });
    }
}

/// What the queue has to know of a configuration.
fn settings(config: &FairQueueConfig) -> Settings {
    let weights = config.weights;
    Settings {
        slots: config.max_inflight,
        room: config.max_waiting as usize,
        max_tenants: config.max_tenants,
        slow_after: config.slow_after.as_duration(),
        classes: [weights.anon, weights.authed, weights.internal]
            .map(fairq::ClassSettings::weighing)
            .to_vec(),
        ..Settings::default()
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
