//! A full room: who is refused, who makes place, and when they should return.

use crate::{
    class::Class,
    flows::{self, LaneKind},
    queue::FairQueue,
    retry::{Drain, RetryAfter},
};
use std::hash::Hash;
use types::Moment;

/// What a newcomer finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Free,
    /// This tenant's oldest ticket makes place.
    TakenFrom(u32),
    Refused,
}

impl<K: Clone + Eq + Hash, T: Copy> FairQueue<K, T> {
    /// Finds a place for one more ticket of this tenant.
    pub(crate) fn find_place(&self, id: u32) -> Place {
        let flow = self.flows.get(id);
        let class = flow.class;
        if flow.waiting >= self.settings.tenant_room {
            return Place::Refused;
        }
        if self.classes[class].waiting >= self.settings.classes[class].room {
            return self.place_within(class, id);
        }
        if self.depth < self.settings.room {
            return Place::Free;
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
    fn given(&self) -> u32 {
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

    /// When one more refused client of this tenant should return.
    pub(crate) fn promise(&mut self, id: u32, estimate: u64, now: Moment) -> RetryAfter {
        let drain = self.drain(id, estimate);
        let flow = self.flows.get_mut(id);
        flow.promises.promise(flow.waiting as u64, drain, now)
    }

    fn drain(&self, id: u32, estimate: u64) -> Drain {
        let flow = self.flows.get(id);
        let known = &self.classes[flow.class];
        let settings = &self.settings.classes[flow.class];
        let slots = match flow.lane {
            LaneKind::Quick => self.settings.slots,
            LaneKind::Slow => self.slow_slots,
        };
        let tenants = known.waiting_weight + if flow.waiting == 0 { flow.weight() } else { 0 };
        let all = u128::from(self.contending_class_weights(flow.class)) * u128::from(tenants);
        let own = u128::from(settings.weight) * u128::from(flow.weight);
        let gap = u128::from(estimate) * all / (own * u128::from(slots.max(1)));
        let share = u64::try_from(self.settings.room as u128 * own / all).unwrap_or(u64::MAX);
        let room = share.max(self.settings.room.saturating_sub(self.depth - flow.waiting) as u64);
        Drain {
            owed_gap: u64::try_from(gap).unwrap_or(u64::MAX),
            room: room.min(self.settings.tenant_room as u64).min(settings.room as u64),
        }
    }
}
