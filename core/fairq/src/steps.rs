//! The steps of which the queue's operations are made: how tickets and tenants move between its lists.

use crate::{
    addresses::Addresses,
    cost::{Account, SlotMean, nanos, virtual_time},
    flows::{Flow, LaneKind, Place},
    list::List,
    queue::{FairQueue, Grant, Pass},
    retry::{Promises, RetryAfter},
    settings::MAX_WEIGHT,
    tickets::Ticket,
};
use std::{hash::Hash, time::Duration};
use types::Moment;

/// How many idle tenants of each class are checked to make room for a new one.
const RECLAIM_TRIES: usize = 8;

impl<K: Clone + Eq + Hash, T: Copy> FairQueue<K, T> {
    /// The number of a tenant, new or known; its weight counts from now on.
    pub(crate) fn tenant_number(&mut self, class: usize, tenant: K, weight: u32, now: Moment) -> Option<u32> {
        let weight = weight.clamp(1, MAX_WEIGHT);
        if let Some(id) = self.flows.find(class, &tenant) {
            if self.flows.get(id).weight != weight {
                self.set_weight(id, weight);
            }
            return Some(id);
        }
        if self.flows.len() >= self.settings.max_tenants {
            self.pass_time(now);
            let mut classes = 0..self.classes.len();
            classes.find(|&class| self.reclaim(class, RECLAIM_TRIES, 1, Duration::ZERO, now) > 0)?;
        }
        let id = self.flows.insert(Flow {
            key: tenant,
            class,
            weight,
            lane: LaneKind::Quick,
            place: Place::Idle,
            account: Account::new(self.classes[class].lane(LaneKind::Quick).rounds.clock(), now),
            mean: SlotMean::default(),
            told_slow: false,
            unqueued: 0,
            slow_running: 0,
            overdue: 0,
            tickets: List::EMPTY,
            behind: List::EMPTY,
            addresses: Addresses::default(),
            waiting: 0,
            promises: Promises::default(),
            idle_since: now,
        });
        self.flows.places.push_back(&mut self.classes[class].idle, id);
        Some(id)
    }

    fn set_weight(&mut self, id: u32, weight: u32) {
        let flow = self.flows.get(id);
        let (old, new) = (flow.weight(), u64::from(weight));
        let class = &mut self.classes[flow.class];
        if flow.place != Place::Idle {
            class.busy_weight = class.busy_weight - old + new;
        }
        if flow.waiting > 0 {
            class.waiting_weight = class.waiting_weight - old + new;
            if flow.place != Place::Capped {
                let lane = class.lane_mut(flow.lane);
                lane.weight = lane.weight - old + new;
            }
        }
        class.shelves.change(&mut self.flows, id, |flow| flow.weight = weight);
    }

    pub(crate) fn enqueue(&mut self, id: u32, index: usize, ticket: Ticket<T>, now: Moment) {
        if self.flows.get(id).waiting == 0 {
            self.pass_time(now);
        }
        if self.depth == 0 {
            self.turned_at = now;
        }
        let class = &mut self.classes[self.flows.get(id).class];
        class.shelves.change(&mut self.flows, id, |flow| flow.waiting += 1);
        let (flow, ahead) = (self.flows.get_mut(id), !ticket.behind);
        let list = if ahead { &mut flow.tickets } else { &mut flow.behind };
        self.tickets.push_back(list, index, ticket);
        self.depth += 1;
        class.waiting += 1;
        class.counts.queued += 1;
        if flow.waiting > 1 {
            if ahead {
                self.uncap(id, now);
            }
            return;
        }
        if flow.place == Place::Idle {
            class.busy_weight += flow.weight();
            self.flows.places.remove(&mut class.idle, id);
        }
        class.waiting_weight += self.flows.get(id).weight();
        self.file(id, true, now);
    }

    /// Counts the slots that have been held for longer than what counts as slow, each once.
    pub(crate) fn find_overdue(&mut self, now: Moment) {
        let given_before = Moment::from_nanos(now.as_nanos().saturating_sub(nanos(self.settings.slow_after)));
        while let Some(held) = self.running.next_overdue(given_before) {
            let flow = self.flows.get_mut(held.flow);
            flow.overdue += 1;
            flow.slow_running += u32::from(!held.slow);
            self.slow_running += u32::from(!held.slow);
        }
    }

    /// Which lane a tenant belongs to now.
    pub(crate) fn judge(&self, id: u32) -> LaneKind {
        self.flows.get(id).judge(nanos(self.settings.slow_after), self.settings.tolerated_overdue())
    }

    /// Lets a tenant with tickets wait where it belongs: in a lane, or for one of its own slots.
    fn file(&mut self, id: u32, newcomer: bool, now: Moment) {
        let (kind, capped) = (self.judge(id), self.is_capped(id));
        let flow = self.flows.get_mut(id);
        let class = &mut self.classes[flow.class];
        if capped {
            flow.place = Place::Capped;
            self.flows.places.push_back(&mut class.capped, id);
        } else {
            class.enter_lane(&mut self.flows, id, kind, newcomer, now);
        }
    }

    /// Whether a tenant holds as many slots as one tenant may while there are others, or is slow and holds as many as one
    /// slow tenant may, some of which are left to addresses that do not have the most already.
    pub(crate) fn is_capped(&self, id: u32) -> bool {
        let flow = self.flows.get(id);
        if self.active_tenants > 1 && flow.slots_held() >= self.settings.tenant_slots() {
            return true;
        }
        let all_behind = flow.tickets.first().is_none() && flow.behind.first().is_some();
        let most =
            if all_behind { self.settings.slow_address_slots() } else { self.settings.slow_tenant_slots() };
        flow.slow_running >= most && self.judge(id) == LaneKind::Slow
    }

    /// Files a tenant again that was taken out of its rounds and still waits, where it belongs now.
    pub(crate) fn file_again(&mut self, id: u32, now: Moment) {
        let (flow, kind) = (self.flows.get(id), self.judge(id));
        let stays = flow.lane == kind && !self.is_capped(id);
        let class = &mut self.classes[flow.class];
        if stays {
            class.lane_mut(kind).rounds.file(&mut self.flows, id, false, now);
        } else {
            class.leave_lane(&mut self.flows, id, now);
            self.file(id, false, now);
        }
    }

    /// Lets a tenant that waited for one of its own slots wait for any slot again, if it may have one.
    pub(crate) fn uncap(&mut self, id: u32, now: Moment) {
        if self.flows.get(id).place == Place::Capped && !self.is_capped(id) {
            self.unlist_capped(id);
            // It keeps its order among quick tenants until it is its turn, when it is judged.
            let kind = match self.flows.get(id).lane {
                LaneKind::Quick => LaneKind::Quick,
                LaneKind::Slow => self.judge(id),
            };
            let class = self.flows.get(id).class;
            self.classes[class].enter_lane(&mut self.flows, id, kind, false, now);
        }
    }

    /// Does the same for all tenants, because the limit may have changed.
    pub(crate) fn uncap_all(&mut self, now: Moment) {
        for class in 0..self.classes.len() {
            let mut held = Vec::new();
            while let Some(id) = self.classes[class].capped.first() {
                self.unlist_capped(id);
                held.push(id);
            }
            held.into_iter().for_each(|id| self.file(id, false, now));
        }
    }

    fn unlist_capped(&mut self, id: u32) {
        let flow = self.flows.get_mut(id);
        flow.place = Place::Running;
        let class = flow.class;
        self.flows.places.remove(&mut self.classes[class].capped, id);
    }

    pub(crate) fn grant(&mut self, id: u32, kind: LaneKind, now: Moment) -> Option<Grant<T>> {
        let flow = self.flows.get(id);
        let first = flow.first_ticket()? as usize;
        let ticket = self.tickets.get(first)?;
        let (estimate, extra, address) = (ticket.estimate, ticket.extra, ticket.address);
        let class = &mut self.classes[flow.class];
        class.counts.granted += 1;
        let class_weight = u64::from(self.settings.classes[flow.class].weight);
        class.contender.served();
        class.contender.account.start(estimate, extra, class_weight, now);
        class.contender.account.bound(self.clock);
        let lane = class.lane_mut(kind);
        lane.contender.served();
        lane.contender.account.start(estimate, extra, lane.weight, now);
        let lane_clock = lane.rounds.clock();
        let flow = self.flows.get_mut(id);
        let weight = flow.weight();
        self.running_tenants += u32::from(flow.account.running() == 0);
        flow.account.start(estimate, extra, weight, now);
        flow.account.bound(lane_clock);
        flow.promises.granted(flow.waiting > 1, now);
        self.drain_rate.granted(self.turned_at, self.depth > 1, now);
        // What nothing is known of may turn out slow, so that those known to be slow get less meanwhile.
        let slow = kind == LaneKind::Slow || flow.mean.is_unknown();
        flow.slow_running += u32::from(slow);
        self.slow_running += u32::from(slow);
        let slot = self.running.begin(id, address, slow, now);
        let ticket = self.take_ticket(id, first, now)?.value;
        Some(Grant { ticket, pass: Pass { flow: id, lane: kind, slot, estimate } })
    }

    /// Drops the oldest ticket of a tenant, if possible one whose client was not promised its place.
    pub(crate) fn shed(&mut self, id: u32, now: Moment) -> Option<(T, RetryAfter)> {
        let flow = self.flows.get(id);
        // Where there is one address alone, none of its tickets is in another's way.
        let lists =
            if flow.addresses.is_one() { [flow.tickets, flow.behind] } else { [flow.behind, flow.tickets] };
        let oldest = lists.into_iter().find_map(|list| self.tickets.oldest_to_drop(list))? as usize;
        let retry_after = self.promise(id, now);
        let Ticket { value: victim, address, .. } = self.take_ticket(id, oldest, now)?;
        self.flows.get_mut(id).addresses.leave(address);
        self.classes[self.flows.get(id).class].counts.shed += 1;
        Some((victim, retry_after))
    }

    /// Takes out a waiting ticket, and puts its tenant where it then belongs.
    pub(crate) fn take_ticket(&mut self, id: u32, index: usize, now: Moment) -> Option<Ticket<T>> {
        let flow = self.flows.get_mut(id);
        let behind = self.tickets.get(index)?.behind;
        let list = if behind { &mut flow.behind } else { &mut flow.tickets };
        let ticket = self.tickets.take(list, index)?;
        let class = &mut self.classes[flow.class];
        class.shelves.change(&mut self.flows, id, |flow| flow.waiting -= 1);
        class.waiting -= 1;
        self.depth -= 1;
        if self.depth == 0 {
            self.turned_at = now;
            self.drain_rate.emptied();
        }
        let flow = self.flows.get(id);
        let (waits, place) = (flow.waiting > 0, flow.place);
        match place {
            // It was taken out of its rounds to be served.
            Place::Running if waits => self.file_again(id, now),
            _ if waits => {}
            _ => {
                class.waiting_weight -= flow.weight();
                if class.waiting == 0 {
                    class.contender.retire();
                }
                if place == Place::Capped {
                    self.unlist_capped(id);
                } else {
                    class.leave_lane(&mut self.flows, id, now);
                }
                self.rest(id, now);
            }
        }
        Some(ticket)
    }

    /// Puts a tenant that neither waits nor runs among the idle.
    pub(crate) fn rest(&mut self, id: u32, now: Moment) {
        let flow = self.flows.get_mut(id);
        if flow.place == Place::Running && flow.waiting == 0 && flow.account.running() == 0 {
            let class = &mut self.classes[flow.class];
            flow.place = Place::Idle;
            flow.idle_since = now;
            class.busy_weight -= flow.weight();
            self.flows.places.push_back(&mut class.idle, id);
        }
    }

    /// Forgets up to `most` of the first `tries` idle tenants of a class, those that owe nothing and are promised
    /// nothing. Tenants that must stay go to the end of the line.
    pub(crate) fn reclaim(
        &mut self,
        class: usize,
        tries: usize,
        most: usize,
        idle_for: Duration,
        now: Moment,
    ) -> usize {
        let mut forgotten = 0;
        for _ in 0..tries {
            let known = &mut self.classes[class];
            let Some(id) = known.idle.first().filter(|_| forgotten < most) else { break };
            let flow = self.flows.get_mut(id);
            if now.since(flow.idle_since) < idle_for {
                break;
            }
            let owes =
                flow.standing(now) > known.lane(flow.lane).rounds.clock() || flow.promises.pending(now);
            flow.idle_since = now;
            self.flows.places.remove(&mut known.idle, id);
            if owes {
                self.flows.places.push_back(&mut known.idle, id);
            } else {
                self.flows.remove(id);
                forgotten += 1;
            }
        }
        forgotten
    }

    /// Lets the time that passed while nobody waited count against debts.
    pub(crate) fn pass_time(&mut self, now: Moment) {
        let (slots, weights) = (u64::from(self.settings.slots), self.settings.class_weights());
        if self.depth == 0 {
            let elapsed = nanos(now.since(self.turned_at));
            self.clock += virtual_time(elapsed.saturating_mul(slots), weights);
            self.turned_at = self.turned_at.max(now);
        }
        for (class, settings) in self.classes.iter_mut().zip(&self.settings.classes) {
            class.pass_time(slots * 1000 * u64::from(settings.weight) / weights, now);
        }
    }
}
