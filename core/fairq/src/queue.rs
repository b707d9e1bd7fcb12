//! The queue itself: what it is told, and what it answers.

use crate::{
    calendar::Calendar,
    class::Class,
    contest::{self, Standing},
    cost::{Charge, GENESIS, SlotMean, nanos},
    drain::DrainRate,
    flows::{Flows, LaneKind},
    retry::{Client, RetryAfter},
    room::Place,
    running::Running,
    settings::{Settings, SettingsError},
    tickets::{Ticket, Tickets},
};
use std::{hash::Hash, time::Duration};
use types::Moment;

/// One unit of cost: a slot-millisecond, in nanoseconds.
const UNIT: u64 = 1_000_000;
/// The least that a request is charged, in nanoseconds, so that nothing is free.
const LEAST_ESTIMATE: u64 = 1000;
/// What a request of a tenant of which nothing is known is charged in advance, in nanoseconds.
const FIRST_ESTIMATE: u64 = 10_000_000;
/// The most that is charged in advance, in nanoseconds: a minute. What takes longer is charged as it runs.
const MOST_ESTIMATE: u64 = 60_000_000_000;

/// Who comes to wait, and what it will probably cost.
#[derive(Debug, Clone)]
pub struct Arrival<K> {
    /// The number of its class; one that does not exist counts as the first class.
    pub class: usize,
    /// The tenant that the request is charged to.
    pub tenant: K,
    /// The tenant's weight within its class, 1 to [`crate::MAX_WEIGHT`]; it counts from now on.
    pub weight: u32,
    /// The slot time that the tenant's requests have been taking; unknown if none has ended yet.
    pub slot_time: SlotMean,
    /// Units of cost (slot-milliseconds) on top of the time, for example for a large body.
    pub extra_units: u32,
    /// Whether the tenant is known to be slow by what the queue does not see, such as slots that it holds around the queue,
    /// see [`crate::SlotsHeld`]. It holds until the next arrival, or until a slot of the tenant comes back.
    pub slow: bool,
    /// How many slots the tenant holds, given by the queue or around it.
    pub slots_held: u32,
}

/// The answer to a newcomer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict<T> {
    /// The ticket was queued.
    Queued,
    /// It does not: it is at or above its share of a full room.
    Busy(RetryAfter),
    /// It waits, and this other ticket no longer does.
    Shed {
        /// The ticket that was evicted.
        victim: T,
        /// When the evicted request should be sent again.
        retry_after: RetryAfter,
    },
}

/// A ticket that got a slot.
#[derive(Debug)]
pub struct Grant<T> {
    /// The ticket that gets the slot.
    pub ticket: T,
    /// To be given back to [`FairQueue::settle`] with the slot.
    pub pass: Pass,
}

/// What was charged for a slot that is in use. Its tenant is not forgotten before it comes back.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a pass that is never settled keeps its tenant charged and remembered"]
pub struct Pass {
    pub(crate) flow: u32,
    pub(crate) lane: LaneKind,
    /// The number of the slot.
    pub(crate) slot: u32,
    pub(crate) estimate: u64,
}

/// Tickets that wait for slots, and who is next. `K` names a tenant, `T` a ticket.
#[derive(Debug)]
pub struct FairQueue<K, T> {
    pub(crate) settings: Settings,
    pub(crate) slow_slots: u32,
    pub(crate) classes: Vec<Class>,
    pub(crate) flows: Flows<K>,
    pub(crate) tickets: Tickets<T>,
    pub(crate) running: Running,
    /// Virtual time between the classes.
    pub(crate) clock: u64,
    pub(crate) depth: usize,
    /// Slots in use that count as slow: given to slow tenants, or overdue.
    pub(crate) slow_running: u32,
    /// Slots in use that were given around the queue.
    pub(crate) unqueued: u32,
    /// Tenants that have a slot through the queue.
    pub(crate) running_tenants: u32,
    /// Tenants that have come lately, waiting or not; 0 if that is not known.
    pub(crate) active_tenants: u32,
    /// Since when somebody waits, or nobody.
    pub(crate) turned_at: Moment,
    /// When refused clients were told to return.
    pub(crate) calendar: Calendar,
    pub(crate) drain_rate: DrainRate,
}

impl<K: Clone + Eq + Hash, T: Copy> FairQueue<K, T> {
    /// An empty queue.
    ///
    /// # Errors
    /// [`SettingsError`] if the settings make no sense.
    pub fn new(settings: Settings, now: Moment) -> Result<Self, SettingsError> {
        settings.check()?;
        Ok(Self {
            slow_slots: settings.slow_slots(),
            classes: settings.classes.iter().map(|_| Class::new(now)).collect(),
            flows: Flows::new(settings.classes.len()),
            tickets: Tickets::new(),
            running: Running::new(),
            clock: GENESIS,
            depth: 0,
            slow_running: 0,
            unqueued: 0,
            running_tenants: 0,
            active_tenants: 0,
            turned_at: now,
            calendar: Calendar::new(now),
            drain_rate: DrainRate::default(),
            settings,
        })
    }

    /// Changes the settings; who waits, runs or owes stays as it is. Nobody is dropped when the room shrinks.
    ///
    /// # Errors
    /// [`SettingsError`] if the settings make no sense or change the number of classes; nothing is changed then.
    pub fn reconfigure(&mut self, settings: Settings, now: Moment) -> Result<(), SettingsError> {
        settings.check()?;
        if settings.classes.len() != self.classes.len() {
            return Err(SettingsError::ClassesChanged);
        }
        self.pass_time(now);
        self.slow_slots = settings.slow_slots();
        self.settings = settings;
        self.find_overdue(now);
        self.uncap_all(now);
        Ok(())
    }

    /// The settings in force.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// A ticket comes to wait. `index` is a small number that no other waiting ticket has.
    pub fn push(&mut self, arrival: Arrival<K>, index: usize, ticket: T, now: Moment) -> Verdict<T> {
        self.push_from(Client::default(), arrival, index, ticket, now)
    }

    /// The same, for a ticket of whose client something is known.
    pub fn push_from(
        &mut self,
        client: Client,
        arrival: Arrival<K>,
        index: usize,
        ticket: T,
        now: Moment,
    ) -> Verdict<T> {
        debug_assert!(self.tickets.get(index).is_none(), "ticket {index} waits already");
        let estimate = match arrival.slot_time.expected {
            0 => FIRST_ESTIMATE,
            known => known.clamp(LEAST_ESTIMATE, MOST_ESTIMATE),
        };
        let extra = u64::from(arrival.extra_units) * UNIT;
        let class = if arrival.class < self.classes.len() { arrival.class } else { 0 };
        let Some(id) = self.tenant_number(class, arrival.tenant, arrival.weight, now) else {
            self.classes[class].counts.busy += 1;
            return Verdict::Busy(RetryAfter::SHORTEST);
        };
        self.find_overdue(now);
        let flow = self.flows.get_mut(id);
        flow.told_slow = arrival.slow;
        flow.unqueued = arrival.slots_held.saturating_sub(flow.account.running());
        if !arrival.slot_time.is_unknown() {
            flow.mean = arrival.slot_time;
        }
        flow.promises.estimate = (estimate, client.guessed);
        let promised = self.claim(id, client.promise, now);
        let behind = self.flows.get_mut(id).addresses.enter(client.address);
        let mut verdict = Verdict::Queued;
        match self.find_place(id, promised, now) {
            Place::Free => {}
            // Its tenant has its share of the room, but an address that has most of that is evicted for the others.
            Place::Refused if !behind && self.flows.get(id).behind.first().is_some() => {
                if let Some((victim, retry_after)) = self.shed(id, now) {
                    verdict = Verdict::Shed { victim, retry_after };
                }
            }
            Place::Refused => {
                self.flows.get_mut(id).addresses.leave(client.address);
                self.classes[class].counts.busy += 1;
                self.count_if_inside_share(id, self.flows.get(id).waiting + 1);
                self.classes[class].counts.returned_in_vain += u64::from(promised);
                return Verdict::Busy(self.promise(id, now));
            }
            Place::TakenFrom(greediest) => {
                // A class that is evicted for another has more than its share.
                if self.flows.get(greediest).class == class {
                    self.count_if_inside_share(greediest, self.flows.get(greediest).waiting);
                }
                if let Some((victim, retry_after)) = self.shed(greediest, now) {
                    verdict = Verdict::Shed { victim, retry_after };
                }
            }
        }
        let (flow, address) = (id, client.address);
        let ticket = Ticket { value: ticket, flow, estimate, extra, promised, address, behind };
        self.enqueue(id, index, ticket, now);
        verdict
    }

    /// Says how many slots are in use, so that those which were given around the queue are known before [`pop`](Self::pop).
    /// Whose they are is not known, so they count as slow ones until they come back.
    pub fn set_slots_in_use(&mut self, slots_in_use: u32) {
        self.unqueued = slots_in_use.saturating_sub(self.given());
    }

    /// Says how many tenants have come lately, see [`crate::ActiveTenants`]. While there are several, none of them holds the
    /// last eighth of the slots.
    pub fn set_active_tenants(&mut self, active_tenants: u32) {
        self.active_tenants = active_tenants;
    }

    /// A slot is free: takes out the ticket that is next. `None` if nobody waits, or if only slow tenants do and they
    /// hold as many slots as they may.
    pub fn pop(&mut self, now: Moment) -> Option<Grant<T>> {
        self.find_overdue(now);
        loop {
            let (id, lane) = self.next(now)?;
            // A tenant may have turned out slow since its tickets came to wait.
            let in_its_lane = lane == LaneKind::Slow || self.judge(id) == LaneKind::Quick;
            if in_its_lane && !self.is_capped(id) {
                return self.grant(id, lane, now);
            }
            self.file_again(id, now);
        }
    }

    /// Takes out the tenant that is next.
    fn next(&mut self, now: Moment) -> Option<(u32, LaneKind)> {
        if self.depth == 0 {
            return None;
        }
        let slow_may = self.slow_running.saturating_add(self.unqueued) < self.slow_slots;
        let standings =
            self.classes.iter_mut().zip(&self.settings.classes).map(|(class, settings)| Standing {
                eligible: class.can_serve(slow_may),
                weight: u64::from(settings.weight),
                contender: &mut class.contender,
            });
        let class = contest::choose(&mut self.clock, now, standings)?;
        self.classes[class].next(&mut self.flows, slow_may, now)
    }

    /// A waiting ticket gives up; costs nothing. Says whether it waited.
    pub fn cancel(&mut self, index: usize, now: Moment) -> bool {
        let Some(id) = self.tickets.get(index).map(|ticket| ticket.flow) else { return false };
        let gone = self.take_ticket(id, index, now);
        let flow = self.flows.get_mut(id);
        flow.addresses.leave(gone.and_then(|ticket| ticket.address));
        self.classes[flow.class].counts.cancelled += 1;
        true
    }

    /// A ticket of this tenant has given up after it waited for longer than it should have to; counted in
    /// [`Counts::inside_share`](crate::Counts::inside_share) if that was not of the tenant's own making.
    pub fn waited_in_vain(&mut self, class: usize, tenant: &K) {
        let class = if class < self.classes.len() { class } else { 0 };
        match self.flows.find(class, tenant) {
            Some(id) if self.slots_are_spread(id) => {
                self.count_if_inside_share(id, self.flows.get(id).waiting + 1);
            }
            _ => {}
        }
    }

    /// A slot that was given through the queue is returned: settles what it cost.
    pub fn settle(&mut self, pass: Pass, now: Moment) {
        self.settle_as(pass, SlotMean::next, now);
    }

    /// The same for a slot that was taken back because its client stalled. Its tenant is slow, whatever it was before.
    pub fn settle_stalled(&mut self, pass: Pass, now: Moment) {
        let slow_after = self.settings.slow_after;
        self.settle_as(pass, |mean, ran| mean.next_stalled(ran, slow_after), now);
    }

    /// Settles what a slot cost; `next` adds the time for which it was held to its tenant's mean.
    fn settle_as(&mut self, pass: Pass, next: impl Fn(SlotMean, Duration) -> SlotMean, now: Moment) {
        let Pass { flow: id, lane: kind, slot, estimate } = pass;
        if self.flows.known(id).is_none_or(|flow| flow.account.running() == 0) {
            debug_assert!(false, "the pass is of another queue");
            return;
        }
        self.find_overdue(now);
        let held = self.running.end(slot);
        let ran = now.since(held.start);
        let charge = Charge { estimate, ran: nanos(ran) };
        let flow = self.flows.get_mut(id);
        flow.mean = next(flow.mean, ran);
        flow.told_slow = false;
        flow.addresses.leave(held.address);
        flow.overdue -= u32::from(held.overdue);
        flow.slow_running -= u32::from(held.overdue || held.slow);
        let class = &mut self.classes[flow.class];
        let class_weight = u64::from(self.settings.classes[flow.class].weight);
        flow.account.finish(charge, flow.weight(), now);
        self.running_tenants -= u32::from(flow.account.running() == 0);
        flow.account.bound(class.lane(flow.lane).rounds.clock());
        class.contender.account.finish(charge, class_weight, now);
        class.contender.account.bound(self.clock);
        let lane = class.lane_mut(kind);
        lane.contender.account.finish(charge, lane.weight, now);
        self.slow_running -= u32::from(held.overdue || held.slow);
        if charge.ran != estimate {
            class.refile(&mut self.flows, id, false, now);
        }
        self.uncap(id, now);
        self.rest(id, now);
    }

    /// A slot that was given around the queue is returned while somebody waits: charges the part of `ran` that fell
    /// into this time. What nobody waited for was nobody's loss.
    pub fn settle_unqueued(&mut self, class: usize, tenant: K, weight: u32, ran: Duration, now: Moment) {
        if self.depth == 0 {
            return;
        }
        let cost = nanos(ran).min(nanos(now.since(self.turned_at)));
        let class = if class < self.classes.len() { class } else { 0 };
        self.pass_time(now);
        let settings = self.settings.classes[class];
        let known = &mut self.classes[class];
        if known.waiting == 0 {
            known.contender.account.stamp = known.contender.account.stamp.max(self.clock);
        }
        known.contender.account.charge(cost, u64::from(settings.weight));
        known.contender.account.bound(self.clock);
        let Some(id) = self.tenant_number(class, tenant, weight, now) else { return };
        let flow = self.flows.get_mut(id);
        let clock = self.classes[class].lane(flow.lane).rounds.clock();
        if flow.waiting == 0 {
            flow.account.stamp = flow.account.stamp.max(clock);
        }
        flow.account.charge(cost, u64::from(flow.weight));
        flow.account.bound(clock);
        flow.unqueued = flow.unqueued.saturating_sub(1);
        self.classes[class].refile(&mut self.flows, id, true, now);
        self.uncap(id, now);
    }

    /// Forgets tenants that have been idle for long and owe nothing, looking at no more than `most` of each class.
    /// Returns how many it forgot. Call it now and then.
    pub fn housekeep(&mut self, most: usize, now: Moment) -> usize {
        self.find_overdue(now);
        self.pass_time(now);
        let idle_after = self.settings.idle_after;
        (0..self.classes.len()).map(|class| self.reclaim(class, most, usize::MAX, idle_after, now)).sum()
    }
}
