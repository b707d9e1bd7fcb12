//! The room as one would write it without a thought for speed: one list of tickets, searched from end to end.

use fairq::SlotMean;
use std::{cmp::Ordering, collections::BTreeMap, time::Duration};
use types::Moment;

/// What the reference says to a newcomer.
#[derive(Debug)]
pub(crate) enum Expected {
    Queued,
    Busy,
    /// One of these must go: the oldest tickets of the tenants that are furthest above their share.
    Shed(Vec<usize>),
}

#[derive(Debug)]
struct Ticket {
    number: usize,
    class: usize,
    tenant: u8,
}

/// What is known of a tenant besides its tickets.
#[derive(Debug, Default)]
struct Known {
    weight: usize,
    /// Nanoseconds that its requests take.
    mean: SlotMean,
    /// When its running requests began, and whether each counts as slow.
    running: Vec<(Moment, bool)>,
    /// It waits among the slow.
    is_slow: bool,
    /// It waits for one of its own slots.
    is_capped: bool,
}

#[derive(Debug)]
pub(crate) struct Naive {
    pub(crate) slots: usize,
    pub(crate) room: usize,
    tenant_room: usize,
    class_weights: Vec<usize>,
    /// In order of arrival.
    tickets: Vec<Ticket>,
    tenants: BTreeMap<(usize, u8), Known>,
    slow_after: Duration,
}

impl Naive {
    pub(crate) fn new(slots: usize, room: usize, tenant_room: usize, class_weights: Vec<usize>) -> Self {
        let (tickets, tenants) = (Vec::new(), BTreeMap::new());
        let slow_after = fairq::Settings::default().slow_after;
        Self { slots, room, tenant_room, class_weights, tickets, tenants, slow_after }
    }

    pub(crate) fn depth(&self) -> usize {
        self.tickets.len()
    }

    pub(crate) fn waiting_in(&self, class: usize) -> usize {
        self.tickets.iter().filter(|ticket| ticket.class == class).count()
    }

    pub(crate) fn waiting_of(&self, class: usize, tenant: u8) -> usize {
        self.tickets.iter().filter(|ticket| (ticket.class, ticket.tenant) == (class, tenant)).count()
    }

    /// One of the waiting tickets, by its place in the order of arrival.
    pub(crate) fn any_ticket(&self, choose: impl FnOnce(usize) -> usize) -> Option<usize> {
        (!self.tickets.is_empty()).then(|| self.tickets[choose(self.tickets.len())].number)
    }

    /// Whose a waiting ticket is.
    pub(crate) fn whose(&self, number: usize) -> Option<(usize, u8)> {
        let ticket = self.tickets.iter().find(|ticket| ticket.number == number)?;
        Some((ticket.class, ticket.tenant))
    }

    pub(crate) fn remove(&mut self, number: usize) {
        self.tickets.retain(|ticket| ticket.number != number);
    }

    pub(crate) fn set_weight(&mut self, class: usize, tenant: u8, weight: usize) {
        self.tenants.entry((class, tenant)).or_default().weight = weight;
    }

    fn known(&self, class: usize, tenant: u8) -> &Known {
        &self.tenants[&(class, tenant)]
    }

    /// A newcomer. On `Shed`, the caller removes the victim.
    pub(crate) fn push(
        &mut self,
        class: usize,
        tenant: u8,
        weight: u32,
        estimate: Duration,
        number: usize,
    ) -> Expected {
        self.set_weight(class, tenant, weight as usize);
        let known = self.tenants.entry((class, tenant)).or_default();
        known.mean = SlotMean::default().next(estimate);
        let verdict = self.verdict(class, tenant);
        if !matches!(verdict, Expected::Busy) {
            self.tickets.push(Ticket { number, class, tenant });
        }
        verdict
    }

    fn verdict(&self, class: usize, tenant: u8) -> Expected {
        if self.waiting_of(class, tenant) >= self.tenant_room {
            return Expected::Busy;
        }
        if self.depth() < self.room {
            return Expected::Queued;
        }
        let contending = (0..self.class_weights.len()).filter(|&at| at == class || self.waiting_in(at) > 0);
        let weights: usize = contending.map(|at| self.class_weights[at]).sum();
        if self.waiting_in(class) * weights >= self.room * self.class_weights[class] {
            let tenants = self.tenants_of(class);
            let own = tenants.iter().find(|(known, ..)| *known == tenant);
            let new_weight = if own.is_none() { self.weight(class, tenant) } else { 0 };
            let weights: usize = tenants.iter().map(|(_, _, weight)| weight).sum::<usize>() + new_weight;
            let waiting = own.map_or(0, |(_, waiting, _)| *waiting);
            if waiting * weights >= self.waiting_in(class) * self.weight(class, tenant) {
                return Expected::Busy;
            }
            return Expected::Shed(self.oldest_of_the_greediest(class));
        }
        let by_greed = |&a: &usize, &b: &usize| {
            greed((self.waiting_in(a), self.class_weights[a]), (self.waiting_in(b), self.class_weights[b]))
                // The first of equals, as `max_by` takes the last.
                .then(b.cmp(&a))
        };
        let greediest = (0..self.class_weights.len()).filter(|&at| self.waiting_in(at) > 0).max_by(by_greed);
        Expected::Shed(greediest.map(|class| self.oldest_of_the_greediest(class)).unwrap_or_default())
    }

    fn oldest_of_the_greediest(&self, class: usize) -> Vec<usize> {
        let tenants = self.tenants_of(class);
        let most = tenants.iter().max_by(|a, b| greed((a.1, a.2), (b.1, b.2)));
        let greediest = tenants.iter().filter(|tenant| {
            most.is_some_and(|most| greed((tenant.1, tenant.2), (most.1, most.2)) == Ordering::Equal)
        });
        greediest.filter_map(|(tenant, ..)| self.oldest(class, *tenant)).collect()
    }

    /// Tenants that wait, with how much and their weight.
    fn tenants_of(&self, class: usize) -> Vec<(u8, usize, usize)> {
        let mut tenants: Vec<_> =
            self.tickets.iter().filter(|ticket| ticket.class == class).map(|ticket| ticket.tenant).collect();
        tenants.sort_unstable();
        tenants.dedup();
        tenants.iter().map(|&at| (at, self.waiting_of(class, at), self.weight(class, at))).collect()
    }

    fn oldest(&self, class: usize, tenant: u8) -> Option<usize> {
        let mut tickets = self.tickets.iter();
        tickets.find(|ticket| (ticket.class, ticket.tenant) == (class, tenant)).map(|ticket| ticket.number)
    }

    fn weight(&self, class: usize, tenant: u8) -> usize {
        self.tenants.get(&(class, tenant)).map_or(1, |known| known.weight)
    }

    pub(crate) fn slow_running(&self, now: Moment) -> usize {
        self.tenants.values().map(|known| known.slow_running(self.slow_after, now)).sum()
    }

    fn tolerated(&self) -> usize {
        self.slots / 16
    }

    fn slow_may(&self, now: Moment) -> bool {
        self.slow_running(now) < (self.slots * 4 / 5).clamp(1, self.slots.saturating_sub(1).max(1))
    }

    /// How many slots one slow tenant may hold.
    fn most_of_one(&self) -> usize {
        let most = (self.slots * 4 / 5).clamp(1, self.slots.saturating_sub(1).max(1));
        self.slots.div_ceil(2).min(most).max(1)
    }

    /// Takes over where the queue says that a tenant waits, if that can be.
    pub(crate) fn sync(&mut self, class: usize, tenant: u8, slow: bool, capped: bool, now: Moment) -> bool {
        let (most, slow_after, tolerated) = (self.most_of_one(), self.slow_after, self.tolerated());
        let waits = self.waiting_of(class, tenant) > 0;
        let Some(known) = self.tenants.get_mut(&(class, tenant)) else { return true };
        let sound = !waits
            || (!slow || known.is_slow || known.is_capped || known.judge(slow_after, tolerated, now))
                && (!capped || known.is_capped || known.slow_running(slow_after, now) >= most);
        (known.is_slow, known.is_capped) = (slow, capped);
        sound
    }

    /// Whether anybody who waits may have a slot.
    pub(crate) fn can_pop(&self, now: Moment) -> bool {
        self.tickets.iter().any(|ticket| {
            let known = self.known(ticket.class, ticket.tenant);
            let is_slow = known.is_slow || known.judge(self.slow_after, self.tolerated(), now);
            let has_most = !known.is_slow && known.slow_running(self.slow_after, now) >= self.most_of_one();
            !known.is_capped && (!is_slow || self.slow_may(now) && !has_most)
        })
    }

    /// A ticket was granted: says whether it could have been.
    pub(crate) fn grant(&mut self, number: usize, now: Moment) -> bool {
        let Some(ticket) = self.tickets.iter().find(|ticket| ticket.number == number) else { return false };
        let (class, tenant) = (ticket.class, ticket.tenant);
        let known = self.known(class, tenant);
        let slow = known.is_slow || known.judge(self.slow_after, self.tolerated(), now);
        let may = !known.is_capped && (!slow || self.slow_may(now));
        let oldest = self.oldest(class, tenant) == Some(number);
        self.remove(number);
        if let Some(known) = self.tenants.get_mut(&(class, tenant)) {
            known.running.push((now, slow));
        }
        may && oldest
    }

    /// A slot came back that was given at `start`.
    pub(crate) fn settle(&mut self, class: usize, tenant: u8, start: Moment, slow: bool, now: Moment) {
        let Some(known) = self.tenants.get_mut(&(class, tenant)) else { return };
        if let Some(at) = known.running.iter().position(|running| *running == (start, slow)) {
            known.running.remove(at);
        }
        known.mean = known.mean.next(now.since(start));
    }

    /// Whether the tenant's last slot was given to it as a slow one.
    pub(crate) fn last_was_slow(&self, class: usize, tenant: u8) -> bool {
        self.known(class, tenant).running.last().is_some_and(|(_, slow)| *slow)
    }
}

impl Known {
    fn slow_running(&self, slow_after: Duration, now: Moment) -> usize {
        self.running.iter().filter(|(start, slow)| *slow || now.since(*start) > slow_after).count()
    }

    fn overdue(&self, slow_after: Duration, now: Moment) -> usize {
        self.running.iter().filter(|(start, _)| now.since(*start) > slow_after).count()
    }

    fn judge(&self, slow_after: Duration, tolerated: usize, now: Moment) -> bool {
        Duration::from_nanos(self.mean.high) > slow_after || self.overdue(slow_after, now) > tolerated
    }
}

/// Which of two has more tickets for its weight.
fn greed((waiting_a, weight_a): (usize, usize), (waiting_b, weight_b): (usize, usize)) -> Ordering {
    (waiting_a * weight_b).cmp(&(waiting_b * weight_a))
}
