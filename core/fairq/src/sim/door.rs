//! What stands before the slots: the fair queue, a plain queue, or nothing.

use super::Scenario;
use crate::{
    active::{ActiveTenants, LastSeen},
    calendar::Promise,
    cost::{SlotsHeld, nanos},
    queue::{Arrival, FairQueue, Pass, Verdict},
    retry::{Client, RetryAfter},
};
use std::{collections::VecDeque, time::Duration};
use types::Moment;

/// Who gets a slot when there are too few.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Nothing decides: all requests go to the upstream and queue there, first come, first served, without a limit.
    Off,
    /// One room, first come, first served; when it is full, newcomers are refused.
    Fifo,
    /// The fair queue, with the fast path around it that a gate has while nobody waits.
    Fair,
}

/// The result of a request's arrival.
pub(super) struct Outcome {
    pub(super) enters: bool,
    pub(super) waits: bool,
    /// Who was refused, itself or another.
    pub(super) refused: Option<Refused>,
}

/// A request that was refused.
pub(super) struct Refused {
    pub(super) request: usize,
    /// How long its client waits before it returns.
    pub(super) wait: Duration,
    /// The place that is kept for it.
    pub(super) promise: Option<Promise>,
}

/// The slots, and who waits for them.
pub(super) struct Door {
    slots: u32,
    slow_after: Duration,
    running: u32,
    /// Whether refused clients wait the exact time they are told, not whole seconds.
    exact: bool,
    /// The slots that each tenant holds.
    held: Vec<SlotsHeld>,
    active: ActiveTenants,
    last_seen: Vec<LastSeen>,
    line: Line,
}

enum Line {
    Plain { room: usize, waiting: VecDeque<usize> },
    Fair { queue: Box<FairQueue<usize, usize>>, places: Places, passes: Vec<Option<Pass>> },
}

/// Small numbers for waiting requests, used again when they no longer wait.
#[derive(Default)]
struct Places {
    of_request: Vec<Option<usize>>,
    vacant: Vec<usize>,
    used: usize,
}

impl Door {
    pub(super) fn new(policy: Policy, scenario: &Scenario) -> Self {
        let settings = &scenario.settings;
        let plain = |room| Line::Plain { room, waiting: VecDeque::new() };
        let line = match policy {
            Policy::Off => plain(usize::MAX),
            Policy::Fifo => plain(settings.room),
            Policy::Fair => Line::Fair {
                queue: Box::new(
                    FairQueue::new(settings.clone(), Moment::ORIGIN).expect("a scenario has sound settings"),
                ),
                places: Places::default(),
                passes: Vec::new(),
            },
        };
        let held = vec![SlotsHeld::default(); scenario.tenants.len()];
        let (slots, slow_after) = (settings.slots, settings.slow_after);
        let active = ActiveTenants::default();
        let last_seen = scenario.tenants.iter().map(|_| LastSeen::default()).collect();
        Self { slots, slow_after, running: 0, exact: scenario.exact_returns, held, active, last_seen, line }
    }

    pub(super) fn arrive(
        &mut self,
        request: usize,
        client: Client,
        mut arrival: Arrival<usize>,
        now: Moment,
    ) -> Outcome {
        let exact = self.exact;
        let free = self.running < self.slots;
        let held = self.held[arrival.tenant];
        arrival.slow = held.is_slow(arrival.slot_time, self.slow_after, now);
        arrival.slots_held = held.count;
        self.active.came(&self.last_seen[arrival.tenant], now);
        let enters = Outcome { enters: true, waits: false, refused: None };
        let waits = Outcome { enters: false, waits: true, refused: None };
        match &mut self.line {
            Line::Plain { waiting, .. } if free && waiting.is_empty() => {}
            Line::Fair { queue, .. }
                if queue.depth() == 0 && self.running < queue.settings().slow_slots() && !arrival.slow =>
            {
                let Arrival { class, tenant, .. } = arrival;
                client.promise.into_iter().for_each(|promise| queue.returned(class, &tenant, promise, now));
            }
            Line::Plain { room, waiting } if waiting.len() >= *room => {
                let refused = Refused { request, wait: Duration::from_secs(1), promise: None };
                return Outcome { enters: false, waits: false, refused: Some(refused) };
            }
            Line::Plain { waiting, .. } => {
                waiting.push_back(request);
                return waits;
            }
            Line::Fair { queue, places, .. } => {
                queue.set_active_tenants(self.active.count(now));
                let place = places.take(request);
                return match queue.push_from(client, arrival, place, request, now) {
                    Verdict::Queued => waits,
                    Verdict::Busy(retry) => {
                        places.give(request);
                        Outcome { enters: false, waits: false, refused: Some(told(request, retry, exact)) }
                    }
                    Verdict::Shed { victim, retry_after } => {
                        places.give(victim);
                        Outcome { refused: Some(told(victim, retry_after, exact)), ..waits }
                    }
                };
            }
        }
        self.running += 1;
        self.held[arrival.tenant].start(now);
        enters
    }

    /// Returns the next request for a free slot.
    pub(super) fn call(&mut self, tenant_of: impl Fn(usize) -> usize, now: Moment) -> Option<usize> {
        if self.running >= self.slots {
            return None;
        }
        let request = match &mut self.line {
            Line::Plain { waiting, .. } => waiting.pop_front()?,
            Line::Fair { queue, places, passes } => {
                queue.set_slots_in_use(self.running);
                let grant = queue.pop(now)?;
                places.give(grant.ticket);
                if passes.len() <= grant.ticket {
                    passes.resize_with(grant.ticket + 1, || None);
                }
                passes[grant.ticket] = Some(grant.pass);
                grant.ticket
            }
        };
        self.running += 1;
        self.held[tenant_of(request)].start(now);
        Some(request)
    }

    pub(super) fn leave(
        &mut self,
        request: usize,
        arrival: Arrival<usize>,
        ran: Duration,
        is_stalled: bool,
        now: Moment,
    ) {
        self.running -= 1;
        let start = Moment::from_nanos(now.as_nanos() - nanos(ran));
        self.held[arrival.tenant].end(start);
        if let Line::Fair { queue, passes, .. } = &mut self.line {
            match passes.get_mut(request).and_then(Option::take) {
                Some(pass) if is_stalled => queue.settle_stalled(pass, now),
                Some(pass) => queue.settle(pass, now),
                None => queue.settle_unqueued(arrival.class, arrival.tenant, arrival.weight, ran, now),
            }
        }
    }

    /// A client that was promised a place can no longer be recognised.
    pub(super) fn release(&mut self, arrival: Arrival<usize>, promise: Option<Promise>) {
        if let (Line::Fair { queue, .. }, Some(promise)) = (&mut self.line, promise) {
            queue.release(arrival.class, &arrival.tenant, promise);
        }
    }

    /// Says whether the request still waited.
    pub(super) fn give_up(&mut self, request: usize, now: Moment) -> bool {
        match &mut self.line {
            Line::Plain { waiting, .. } => {
                let at = waiting.binary_search(&request);
                at.ok().and_then(|at| waiting.remove(at)).is_some()
            }
            Line::Fair { queue, places, .. } => {
                let place = places.of_request.get(request).copied().flatten();
                place.is_some_and(|place| {
                    places.give(request);
                    queue.cancel(place, now)
                })
            }
        }
    }
}

fn told(request: usize, retry_after: RetryAfter, exact: bool) -> Refused {
    let wait = if exact { retry_after.exact() } else { Duration::from_secs(retry_after.seconds()) };
    Refused { request, wait, promise: retry_after.promise() }
}

impl Places {
    fn take(&mut self, request: usize) -> usize {
        let place = self.vacant.pop().unwrap_or_else(|| {
            self.used += 1;
            self.used - 1
        });
        if self.of_request.len() <= request {
            self.of_request.resize(request + 1, None);
        }
        self.of_request[request] = Some(place);
        place
    }

    fn give(&mut self, request: usize) {
        let place = self.of_request.get_mut(request).and_then(Option::take);
        self.vacant.extend(place);
    }
}
