//! A full room: who is refused, who is evicted, and when they should return.

use crate::{
    calendar::{BIN, Calendar, Flow, LONGEST_SECONDS, Promise},
    class::Class,
    drain::FASTEST,
    flows::{self, LaneKind},
    queue::FairQueue,
    retry::{Drain, RetryAfter},
};
use std::hash::Hash;
use types::Moment;

/// How long the tickets take of a tenant of which nothing is known, as far as promises are concerned, in nanoseconds: a
/// promise that comes too late does less harm than one that is not kept.
const UNKNOWN: u64 = 100_000_000;
/// The part of the rate at which the room empties that promises rely on, in percent.
const RELIED_ON: u64 = 90;

/// What a new ticket finds when it arrives at the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Free,
    /// The oldest ticket of this tenant is evicted.
    TakenFrom(u32),
    Refused,
}

impl<K: Clone + Eq + Hash, T: Copy> FairQueue<K, T> {
    /// Finds a place for one more ticket of this tenant; `promised` if a place has been kept for it.
    pub(crate) fn find_place(&self, id: u32, promised: bool, now: Moment) -> Place {
        let flow = self.flows.get(id);
        let class = flow.class;
        if flow.waiting >= self.settings.tenant_room {
            return Place::Refused;
        }
        if self.classes[class].waiting >= self.settings.classes[class].room {
            return self.place_within(class, id);
        }
        if self.depth < self.settings.room {
            let (depth, room) = (self.depth as u64, self.settings.room as u64);
            let kept = !promised && depth >= room - self.reserved(&self.calendar, room, id, now);
            // What is kept for clients of one class keeps no other class from its share of the room.
            return if kept && self.has_its_share_with_returns(id, now) {
                self.place_within(class, id)
            } else {
                Place::Free
            };
        }
        if self.has_its_share(class) {
            return self.place_within(class, id);
        }
        self.greediest_class().map_or(Place::Refused, |from| self.place_within(from, id))
    }

    /// The oldest ticket of the greediest tenant of `class`, unless the newcomer's tenant is no better.
    fn place_within(&self, class: usize, id: u32) -> Place {
        let flow = self.flows.get(id);
        let at_its_share = flow.class == class && {
            let known = &self.classes[class];
            let weights = known.waiting_weight + if flow.waiting == 0 { flow.weight() } else { 0 };
            flow.waiting as u64 * weights >= known.waiting as u64 * flow.weight()
        };
        match self.classes[class].shelves.highest() {
            Some(greediest) if !at_its_share && greediest != id => Place::TakenFrom(greediest),
            _ => Place::Refused,
        }
    }

    /// Whether a class takes its weighted share of the room or more, among the classes that wait and itself.
    fn has_its_share(&self, class: usize) -> bool {
        let weights = self.contending_class_weights(class);
        let share = self.settings.room as u64 * u64::from(self.settings.classes[class].weight);
        self.classes[class].waiting as u64 * weights >= share
    }

    /// Counts a ticket that does not get what it came for, if its tenant asks for no more than its share. So many of the
    /// tenant's tickets wait, this one included.
    pub(crate) fn count_if_inside_share(&mut self, id: u32, tickets: usize) {
        if self.is_inside_share(id, tickets) {
            let class = self.flows.get(id).class;
            self.classes[class].counts.inside_share += 1;
        }
    }

    /// Whether a tenant wants no more slots than its fair part of them, or only one, and its class does not crowd others
    /// out of the room.
    fn is_inside_share(&self, id: u32, tickets: usize) -> bool {
        let flow = self.flows.get(id);
        let wants_some = |class: &Class| class.waiting > 0 || class.contender.account.running() > 0;
        let others = self.classes.iter().enumerate().filter(|(index, _)| *index != flow.class);
        if others.into_iter().any(|(_, other)| wants_some(other)) && self.has_its_share(flow.class) {
            return false;
        }
        // Whose the slots are that were given around the queue is not known here: they count as this tenant's.
        let unknown = self.settings.slots.saturating_sub(self.given());
        let wanted = tickets as u64 + u64::from(flow.account.running()) + u64::from(unknown);
        wanted <= self.fair_part(id)
    }

    /// Whether those who run have no more slots than this tenant may. Otherwise somebody holds many for long, and no more
    /// can be done about it than not to give it others.
    pub(crate) fn slots_are_spread(&self, id: u32) -> bool {
        u64::from(self.given()) <= u64::from(self.running_tenants).saturating_mul(self.fair_part(id))
    }

    /// A tenant's fair part of the slots, and one at least.
    fn fair_part(&self, id: u32) -> u64 {
        let flow = self.flows.get(id);
        let newcomer = if flow.place == flows::Place::Idle { flow.weight() } else { 0 };
        let tenants = u128::from(self.classes[flow.class].busy_weight + newcomer);
        let all = u128::from(self.contending_class_weights(flow.class)) * tenants;
        let own = u128::from(self.settings.classes[flow.class].weight) * u128::from(flow.weight);
        let part = u128::from(self.settings.slots) * own / all.max(1);
        u64::try_from(part).unwrap_or(u64::MAX).max(1)
    }

    /// Slots that were given through the queue and not returned yet.
    pub(crate) fn given(&self) -> u32 {
        self.classes.iter().map(|class| class.contender.account.running()).sum()
    }

    /// The class with most waiting tickets for its weight.
    fn greediest_class(&self) -> Option<usize> {
        let mut greediest: Option<(usize, u64, u64)> = None;
        for (index, (class, settings)) in self.classes.iter().zip(&self.settings.classes).enumerate() {
            let (waiting, weight) = (class.waiting as u64, u64::from(settings.weight));
            if waiting > 0
                && greediest.is_none_or(|(_, most, its_weight)| waiting * its_weight > most * weight)
            {
                greediest = Some((index, waiting, weight));
            }
        }
        greediest.map(|(index, ..)| index)
    }

    /// The weights of the classes that wait, and of `class`.
    fn contending_class_weights(&self, class: usize) -> u64 {
        let classes = self.classes.iter().zip(&self.settings.classes).enumerate();
        let contending = classes.filter(|(index, (known, _))| *index == class || known.waiting > 0);
        contending.map(|(_, (_, settings))| u64::from(settings.weight)).sum()
    }

    /// How many of so many places are kept for those of a calendar who will return soon; never all of them.
    fn reserved(&self, calendar: &Calendar, places: u64, id: u32, now: Moment) -> u64 {
        let most = places.saturating_mul(u64::from(self.settings.reserved_percent.min(100))) / 100;
        calendar.reserve(self.milli_per_bin(id, now), now).min(most).min(places.saturating_sub(1))
    }

    /// Whether the class of a tenant takes its weighted share of the room, with those of it who will return soon.
    fn has_its_share_with_returns(&self, id: u32, now: Moment) -> bool {
        let class = self.flows.get(id).class;
        let weights = self.contending_class_weights(class).max(1);
        let share = self.settings.room as u64 * u64::from(self.settings.classes[class].weight) / weights;
        let known = &self.classes[class];
        known.waiting as u64 + self.reserved(&known.calendar, share, id, now) >= share
    }

    /// Forgets the promises whose time is over.
    fn advance_calendars(&mut self, class: usize, now: Moment) {
        self.calendar.advance(now);
        self.classes[class].calendar.advance(now);
    }

    /// Whether a place was kept for this client, which is not kept any longer.
    pub(crate) fn claim(&mut self, id: u32, own: Option<Promise>, now: Moment) -> bool {
        self.advance_calendars(self.flows.get(id).class, now);
        let flow = self.flows.get_mut(id);
        let Some(promise) = flow.promises.claim(own, now) else { return false };
        self.calendar.keep(promise);
        let class = &mut self.classes[flow.class];
        class.calendar.keep(promise);
        class.counts.returned += 1;
        true
    }

    /// A client that was promised a place got a slot without having to wait here.
    pub fn returned(&mut self, class: usize, tenant: &K, promise: Promise, now: Moment) {
        let class = if class < self.classes.len() { class } else { 0 };
        if let Some(id) = self.flows.find(class, tenant) {
            self.claim(id, Some(promise), now);
        }
    }

    /// The client that was promised this can no longer be recognised: the next request of its tenant that arrives
    /// on time takes its place.
    pub fn release(&mut self, class: usize, tenant: &K, promise: Promise) {
        let class = if class < self.classes.len() { class } else { 0 };
        if let Some(id) = self.flows.find(class, tenant) {
            self.flows.get_mut(id).promises.release(promise);
        }
    }

    /// When a client of this tenant should return that has waited in vain.
    pub fn retry_after(&mut self, class: usize, tenant: &K, now: Moment) -> RetryAfter {
        let class = if class < self.classes.len() { class } else { 0 };
        self.flows.find(class, tenant).map_or(RetryAfter::SHORTEST, |id| self.promise(id, now))
    }

    /// When one more refused client of this tenant should return: at its tenant's pace, when there is place for it.
    pub(crate) fn promise(&mut self, id: u32, now: Moment) -> RetryAfter {
        self.advance_calendars(self.flows.get(id).class, now);
        let (drain, flow) = (self.drain(id, now), self.flows.get(id));
        let pace = flow.promises.pace(flow.waiting as u64, drain, now);
        if pace.least > LONGEST_SECONDS {
            return RetryAfter::LONGEST;
        }
        let limit = promised_room(self.settings.room);
        let milli_per_bin = self.milli_per_bin(id, now) * RELIED_ON / 100;
        let flow = Flow { depth: self.depth as u64, milli_per_bin, limit };
        let booked = self.calendar.book(pace.least, flow, now);
        // Nobody has to wait for what others were promised beyond their share.
        let far = |seconds: u64| seconds > pace.least * 2;
        let booked = match booked {
            Some(booked) if !far(booked.0) => Some(booked),
            later => {
                if self.has_few_promises(id, now) {
                    later.iter().for_each(|(_, promise)| self.calendar.cancel(*promise));
                    Some(self.calendar.overbook(pace.least, now))
                } else {
                    later
                }
            }
        };
        let Some(booked) = booked else { return RetryAfter::LONGEST };
        let flow = self.flows.get_mut(id);
        flow.promises.promised(booked.1, pace, now);
        self.classes[flow.class].calendar.note(booked.1);
        RetryAfter::promised(booked)
    }

    /// Whether a tenant has been promised less than half of its share of all promises.
    fn has_few_promises(&mut self, id: u32, now: Moment) -> bool {
        let (own, all) = self.share(id);
        let its = self.flows.get_mut(id).promises.outstanding(now);
        u128::from(its + 1) * 2 * all <= own * u128::from(self.calendar.pending())
    }

    /// Thousandths of a ticket that leave the room in a bin: as seen, or else as the estimate of a tenant says.
    fn milli_per_bin(&self, id: u32, now: Moment) -> u64 {
        self.drain_rate.milli_per_bin(now).unwrap_or_else(|| {
            let slots = u128::from(self.settings.slots) * 1000 * u128::from(BIN);
            u64::try_from(slots / u128::from(self.estimate(id).max(1))).unwrap_or(FASTEST).min(FASTEST)
        })
    }

    /// How long the tickets of a tenant take, in nanoseconds; if that is a guess, no less than most servers need.
    fn estimate(&self, id: u32) -> u64 {
        match self.flows.get(id).promises.estimate {
            (estimate, false) => estimate,
            (estimate, true) => estimate.max(UNKNOWN),
        }
    }

    /// A tenant's weight and all weights, among the classes and tenants that wait and itself.
    fn share(&self, id: u32) -> (u128, u128) {
        let flow = self.flows.get(id);
        let known = &self.classes[flow.class];
        let tenants = known.waiting_weight + if flow.waiting == 0 { flow.weight() } else { 0 };
        let all = u128::from(self.contending_class_weights(flow.class)) * u128::from(tenants);
        (u128::from(self.settings.classes[flow.class].weight) * u128::from(flow.weight), all.max(1))
    }

    fn drain(&self, id: u32, now: Moment) -> Drain {
        let flow = self.flows.get(id);
        let settings = &self.settings.classes[flow.class];
        let slots = match flow.lane {
            LaneKind::Quick => self.settings.slots,
            LaneKind::Slow => self.slow_slots,
        };
        let (own, all) = self.share(id);
        let gap = match (flow.promises.estimate, self.drain_rate.milli_per_bin(now)) {
            ((_, true), Some(rate)) => u128::from(BIN) * 1000 * all / (own * u128::from(rate.max(1))),
            _ => u128::from(self.estimate(id)) * all / (own * u128::from(slots.max(1))),
        };
        let share = u64::try_from(self.settings.room as u128 * own / all).unwrap_or(u64::MAX);
        let room = share.max(self.settings.room.saturating_sub(self.depth - flow.waiting) as u64);
        let room = room.min(self.settings.tenant_room as u64).min(settings.room as u64);
        Drain {
            owed_gap: u64::try_from(gap).unwrap_or(u64::MAX),
            limit: promised_room(usize::try_from(room).unwrap_or(usize::MAX)),
        }
    }
}

/// How many may wait in a room of this size when clients return to it: three quarters.
fn promised_room(room: usize) -> u64 {
    (room / 4 * 3 + room % 4 * 3 / 4).max(1) as u64
}
