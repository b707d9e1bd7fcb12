//! The waiting room: the fair queue behind the gate's lock, told the time and who is slow.

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};

use fairq::{
    ActiveTenants, Arrival, Client, Counts, FairQueue, Pass, Promise, RetryAfter, Settings,
    Verdict as Queued, slow_slots,
};
use ron_kernel::Clock;
use ron_sync::gate::{Room, TicketId, Verdict};
use types::Moment;

use crate::{
    Order,
    caller::Caller,
    tenant::{Class, Tenant, TenantName},
};

/// What every request is taken to cost where nobody is told apart.
const ANY_ESTIMATE: Duration = Duration::from_millis(10);

/// The admission queue, with the fair scheduler.
#[derive(Debug)]
pub(super) struct FairRoom {
    queue: FairQueue<TenantName, TicketId>,
    order: Order,
    clock: Clock,
    active_tenants: Arc<ActiveTenants>,
    /// Makes numbers of addresses.
    hasher: RandomState,
}

/// A request at the gate.
#[derive(Debug)]
pub(super) struct Newcomer {
    pub(super) caller: Arc<Caller>,
    pub(super) weight: u32,
    pub(super) is_slow: bool,
    pub(super) extra_units: u32,
    /// What its client was promised when it was refused; `None` unless it returns for that.
    pub(super) promise: Option<Promise>,
    pub(super) now: Moment,
}

/// A request that is inside.
#[derive(Debug)]
pub(super) enum Stay {
    /// Nobody waited when it came.
    WalkedIn { caller: Arc<Caller>, weight: u32, since: Moment },
    /// The ticket gets a slot.
    Granted(Pass),
    /// The same, and the slot was taken back because the client stalled.
    Stalled(Pass),
}

impl FairRoom {
    pub(super) fn new(
        settings: Settings,
        order: Order,
        clock: Clock,
        active_tenants: Arc<ActiveTenants>,
    ) -> Self {
        let queue =
            FairQueue::new(in_order(settings, order), clock.now()).expect("the configuration was checked");
        Self { queue, order, clock, active_tenants, hasher: RandomState::new() }
    }

    /// Puts other settings into force; those that make no sense were refused with the configuration.
    pub(super) fn reconfigure(&mut self, settings: Settings, order: Order) {
        self.order = order;
        if let Err(error) = self.queue.reconfigure(in_order(settings, order), self.clock.now()) {
            tracing::error!(%error, "the fair queue keeps its settings");
        }
    }

    pub(super) fn queue(&self) -> &FairQueue<TenantName, TicketId> {
        &self.queue
    }

    /// How the tickets of each class have ended so far.
    pub(super) fn counts(&self, now: Moment) -> [Counts; Class::ALL.len()] {
        Class::ALL.map(|class| {
            self.queue.class(class.index(), now).map_or_else(Counts::default, |stats| stats.counts)
        })
    }

    /// A ticket of this tenant has given up for want of a slot.
    pub(super) fn waited_in_vain(&mut self, tenant: &Tenant) {
        let (class, flow) = self.flow_of(tenant);
        self.queue.waited_in_vain(class, &flow);
    }

    /// When a client of this tenant should return that has waited in vain.
    pub(super) fn retry_after(&mut self, tenant: &Tenant, now: Moment) -> RetryAfter {
        let (class, flow) = self.flow_of(tenant);
        self.queue.retry_after(class, &flow, now)
    }

    /// A client returned for this promise and did not have to wait.
    pub(super) fn returned_to_free_slot(&mut self, tenant: &Tenant, promise: Promise, now: Moment) {
        let (class, flow) = self.flow_of(tenant);
        self.queue.returned(class, &flow, promise, now);
    }

    /// The client that was promised this will not be recognised when it returns.
    pub(super) fn release(&mut self, tenant: &Tenant, promise: Promise) {
        let (class, flow) = self.flow_of(tenant);
        self.queue.release(class, &flow, promise);
    }

    pub(super) fn housekeep(&mut self, most: usize, now: Moment) {
        self.queue.housekeep(most, now);
    }

    /// Which class and flow a tenant's requests are in: first come, first served is one flow for all.
    fn flow_of(&self, tenant: &Tenant) -> (usize, TenantName) {
        match self.order {
            Order::Fair => (tenant.key.class.index(), tenant.key.name.clone()),
            Order::Fifo => (Class::Anon.index(), TenantName::Other),
        }
    }

    /// The number of a client's address, where its tenant may have several and is told apart.
    fn address_of(&self, caller: &Caller) -> Option<u64> {
        caller.address.filter(|_| self.order == Order::Fair).map(|address| self.hasher.hash_one(address))
    }

    fn arrival(&self, newcomer: &Newcomer) -> Arrival<TenantName> {
        let (class, tenant) = self.flow_of(&newcomer.caller.tenant);
        let (weight, slot_time, slow) = match self.order {
            Order::Fair => (newcomer.weight, newcomer.caller.tenant.slot_time(), newcomer.is_slow),
            Order::Fifo => (1, ANY_ESTIMATE.into(), false),
        };
        let (extra_units, slots_held) = (newcomer.extra_units, newcomer.caller.tenant.slots());
        Arrival { class, tenant, weight, slot_time, extra_units, slow, slots_held }
    }
}

impl Room for FairRoom {
    type Key = Newcomer;
    type Stay = Stay;
    type Denial = RetryAfter;

    /// The room counts the slots of slow tenants, so it has to see all of them.
    fn walks_in(newcomer: &Newcomer) -> bool {
        !newcomer.is_slow
    }

    /// The last slots are given by the room alone, which keeps them for tenants that are not slow.
    fn walk_in_limit(limit: u32) -> u32 {
        slow_slots(limit)
    }

    fn walk_in(newcomer: Newcomer) -> Stay {
        let Newcomer { caller, weight, now, .. } = newcomer;
        Stay::WalkedIn { caller, weight, since: now }
    }

    /// What was charged in advance has to be settled.
    fn must_hear(stay: &Stay) -> bool {
        matches!(stay, Stay::Granted(_) | Stay::Stalled(_))
    }

    fn push(&mut self, newcomer: Newcomer, id: TicketId) -> Verdict<RetryAfter> {
        let arrival = self.arrival(&newcomer);
        let guessed = self.order == Order::Fifo || newcomer.caller.tenant.slot_time().is_unknown();
        if self.order == Order::Fair {
            self.queue.set_active_tenants(self.active_tenants.count(newcomer.now));
        }
        let client =
            Client { promise: newcomer.promise, guessed, address: self.address_of(&newcomer.caller) };
        match self.queue.push_from(client, arrival, id.index(), id, self.clock.now()) {
            Queued::Queued => Verdict::Queued,
            Queued::Busy(wait) => Verdict::Refused(wait),
            Queued::Shed { victim, retry_after } => Verdict::Evicted(victim, retry_after),
        }
    }

    fn pop(&mut self, inside: u32) -> Option<(TicketId, Stay)> {
        self.queue.set_slots_in_use(inside);
        let grant = self.queue.pop(self.clock.now())?;
        Some((grant.ticket, Stay::Granted(grant.pass)))
    }

    fn cancel(&mut self, id: TicketId) {
        self.queue.cancel(id.index(), self.clock.now());
    }

    fn returned(&mut self, stay: Stay) {
        let now = self.clock.now();
        match stay {
            Stay::Granted(pass) => self.queue.settle(pass, now),
            Stay::Stalled(pass) => self.queue.settle_stalled(pass, now),
            Stay::WalkedIn { caller, weight, since } => {
                let (class, flow) = self.flow_of(&caller.tenant);
                self.queue.settle_unqueued(class, flow, weight, now.since(since), now);
            }
        }
    }
}

/// The settings for an order: where nobody is told apart, nobody is slow.
fn in_order(settings: Settings, order: Order) -> Settings {
    match order {
        Order::Fair => settings,
        Order::Fifo => Settings { slow_after: Duration::MAX, ..settings },
    }
}
