//! The room as one would write it without a thought for speed: one list of tickets, searched from end to end.

use std::cmp::Ordering;

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
    slow: bool,
}

#[derive(Debug)]
pub(crate) struct Naive {
    pub(crate) slots: usize,
    pub(crate) room: usize,
    pub(crate) slow_running: usize,
    tenant_room: usize,
    class_weights: Vec<usize>,
    /// In order of arrival.
    tickets: Vec<Ticket>,
    weights: Vec<((usize, u8), usize)>,
    /// Tenants that wait as slow ones.
    slow: Vec<(usize, u8)>,
}

impl Naive {
    pub(crate) fn new(slots: usize, room: usize, tenant_room: usize, class_weights: Vec<usize>) -> Self {
        let (tickets, weights, slow) = (Vec::new(), Vec::new(), Vec::new());
        Self { slots, room, slow_running: 0, tenant_room, class_weights, tickets, weights, slow }
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

    pub(crate) fn remove(&mut self, number: usize) {
        self.tickets.retain(|ticket| ticket.number != number);
    }

    pub(crate) fn set_weight(&mut self, class: usize, tenant: u8, weight: usize) {
        self.weights.retain(|(known, _)| *known != (class, tenant));
        self.weights.push(((class, tenant), weight));
    }

    /// A newcomer. On `Shed`, the caller removes the victim.
    pub(crate) fn push(
        &mut self,
        class: usize,
        tenant: u8,
        weight: u32,
        slow: bool,
        number: usize,
    ) -> Expected {
        self.set_weight(class, tenant, weight as usize);
        let verdict = self.verdict(class, tenant);
        if !matches!(verdict, Expected::Busy) {
            if self.waiting_of(class, tenant) == 0 {
                self.set_slow(class, tenant, slow);
            }
            self.tickets.push(Ticket { number, class, tenant, slow });
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
        self.weights.iter().find(|(known, _)| *known == (class, tenant)).map_or(1, |(_, weight)| *weight)
    }

    fn set_slow(&mut self, class: usize, tenant: u8, slow: bool) {
        self.slow.retain(|known| *known != (class, tenant));
        if slow {
            self.slow.push((class, tenant));
        }
    }

    fn slow_may(&self) -> bool {
        self.slow_running < (self.slots * 4 / 5).clamp(1, self.slots.saturating_sub(1).max(1))
    }

    /// Whether anybody who waits may have a slot.
    pub(crate) fn can_pop(&self) -> bool {
        let quick = |ticket: &Ticket| !self.slow.contains(&(ticket.class, ticket.tenant));
        self.tickets.iter().any(|ticket| self.slow_may() || quick(ticket))
    }

    /// A ticket was granted: says whether to a slow tenant, or nothing if it could not have been.
    pub(crate) fn grant(&mut self, number: usize) -> Option<bool> {
        let ticket = self.tickets.iter().find(|ticket| ticket.number == number)?;
        let (class, tenant) = (ticket.class, ticket.tenant);
        let slow = self.slow.contains(&(class, tenant));
        if self.oldest(class, tenant) != Some(number) || slow && !self.slow_may() {
            return None;
        }
        self.remove(number);
        self.slow_running += usize::from(slow);
        let next = self.tickets.iter().find(|ticket| (ticket.class, ticket.tenant) == (class, tenant));
        if let Some(next) = next.map(|ticket| ticket.slow) {
            self.set_slow(class, tenant, next);
        }
        Some(slow)
    }
}

/// Which of two has more tickets for its weight.
fn greed((waiting_a, weight_a): (usize, usize), (waiting_b, weight_b): (usize, usize)) -> Ordering {
    (waiting_a * weight_b).cmp(&(waiting_b * weight_a))
}
