//! A virtual clock on which the queue proves itself: slots, tenants and their clients, without a socket or a second of
//! waiting.
//!
//! A [`Scenario`] names the slots, the tenants and what they send; [`Scenario::run`] plays it under a [`Policy`] and
//! returns a [`Report`]. The same seed gives the same report.

mod clients;
mod door;
mod report;
mod rng;

pub use clients::{Load, Service, Tenant};
pub use door::Policy;
pub use report::{Report, TenantReport};

use crate::{calendar::Promise, retry::Client, settings::Settings};
use clients::Clients;
use door::{Door, Refused};
use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};
use types::Moment;

/// The input of a simulation: capacity, tenants, duration and seed.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The slots, the room, the classes.
    pub settings: Settings,
    /// The tenants and the load that each of them sends.
    pub tenants: Vec<Tenant>,
    /// How long clients send. What is underway then is still played to its end.
    pub lasts: Duration,
    /// What happens before is not reported: the time in which queues fill and means are learnt.
    pub warm_up: Duration,
    /// A client gives up when it has waited this long for a slot.
    pub patience: Duration,
    /// Clients that are refused return after the whole seconds they were told.
    pub obey_retry_after: bool,
    /// Obedient clients cannot be recognised when they return: each time they have another connection.
    pub reconnect: bool,
    /// Obedient clients return after the exact time they were told, not after whole seconds.
    pub exact_returns: bool,
    /// Seed of every random choice, so that a run can be repeated.
    pub seed: u64,
}

impl Scenario {
    /// A scenario without tenants: ten seconds after one of warming up, patience of one second, no retries.
    #[must_use]
    pub fn new(settings: Settings, seed: u64) -> Self {
        Self {
            settings,
            tenants: Vec::new(),
            lasts: Duration::from_secs(11),
            warm_up: Duration::from_secs(1),
            patience: Duration::from_secs(1),
            obey_retry_after: false,
            reconnect: false,
            exact_returns: false,
            seed,
        }
    }

    /// Plays it to its end.
    #[must_use]
    pub fn run(&self, policy: Policy) -> Report {
        let mut play = Play {
            scenario: self,
            door: Door::new(policy, self),
            clients: Clients::new(&self.tenants, self.seed),
            report: Report::new(&self.tenants, self.lasts.saturating_sub(self.warm_up)),
            events: BinaryHeap::new(),
            requests: Vec::new(),
            sequence: 0,
            now: Moment::ORIGIN,
        };
        for tenant in 0..self.tenants.len() {
            play.first_arrivals(tenant);
        }
        play.play_out();
        play.report
    }
}

/// One request on its way through.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    pub(crate) tenant: usize,
    pub(crate) arrived: Moment,
    /// How often its client had been refused before it came.
    pub(crate) refusals: u32,
    pub(crate) started: Option<Moment>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A client comes that was refused so often before, and promised this if it can be recognised.
    Arrive {
        tenant: usize,
        refusals: u32,
        promise: Option<Promise>,
    },
    Finish {
        request: usize,
    },
    GiveUp {
        request: usize,
    },
}

struct Play<'a> {
    scenario: &'a Scenario,
    door: Door,
    clients: Clients<'a>,
    report: Report,
    events: BinaryHeap<Reverse<(Moment, u64, Event)>>,
    requests: Vec<Request>,
    sequence: u64,
    now: Moment,
}

impl Play<'_> {
    fn schedule(&mut self, after: Duration, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((self.now.after(after), self.sequence, event)));
    }

    fn first_arrivals(&mut self, tenant: usize) {
        for after in self.clients.first_arrivals(tenant) {
            self.schedule(after, Event::Arrive { tenant, refusals: 0, promise: None });
        }
    }

    fn play_out(&mut self) {
        let end = Moment::ORIGIN.after(self.scenario.lasts);
        while let Some(Reverse((now, _, event))) = self.events.pop() {
            self.now = now;
            match event {
                Event::Arrive { tenant, refusals, promise } if now < end || refusals > 0 => {
                    self.arrive(tenant, refusals, promise, end);
                }
                Event::Arrive { .. } => {}
                Event::Finish { request } => self.finish(request),
                Event::GiveUp { request } => self.give_up(request),
            }
        }
    }

    fn arrive(&mut self, tenant: usize, refusals: u32, promise: Option<Promise>, end: Moment) {
        if refusals == 0
            && let Some(gap) = self.clients.next_gap(tenant)
        {
            self.schedule(gap, Event::Arrive { tenant, refusals: 0, promise: None });
        }
        let request = self.requests.len();
        self.requests.push(Request { tenant, arrived: self.now, refusals, started: None });
        self.count(request, |report| report.came(refusals));
        let arrival = self.clients.arrival(tenant);
        let client = Client { promise, guessed: self.clients.is_guessed(tenant), address: None };
        let outcome = self.door.arrive(request, client, arrival, self.now);
        if let Some(refused) = outcome.refused {
            let shed = refused.request != request;
            self.count(refused.request, |report| if shed { report.shed += 1 } else { report.busy += 1 });
            self.refused(&refused, end);
        }
        if outcome.waits {
            let patience = self.scenario.tenants[tenant].patience.unwrap_or(self.scenario.patience);
            self.schedule(patience, Event::GiveUp { request });
        }
        self.start_all(outcome.enters.then_some(request));
    }

    fn refused(&mut self, refused: &Refused, end: Moment) {
        let &Refused { request, wait, promise } = refused;
        let Request { tenant, refusals, .. } = self.requests[request];
        if self.scenario.obey_retry_after && self.now < end {
            self.count(request, |report| report.was_told(wait));
            let promise = if self.scenario.reconnect {
                self.door.release(self.clients.arrival(tenant), promise);
                None
            } else {
                promise
            };
            self.schedule(wait, Event::Arrive { tenant, refusals: refusals + 1, promise });
        } else if self.clients.is_closed(tenant) {
            self.schedule(wait, Event::Arrive { tenant, refusals: 0, promise: None });
        }
    }

    /// Starts the requests that were admitted at once, and those that get a slot.
    fn start_all(&mut self, entered: Option<usize>) {
        let mut next = entered.or_else(|| self.call());
        while let Some(request) = next {
            let tenant = self.requests[request].tenant;
            self.requests[request].started = Some(self.now);
            let takes = self.clients.service_time(tenant);
            self.schedule(takes, Event::Finish { request });
            next = self.call();
        }
    }

    /// The request that the door calls next.
    fn call(&mut self) -> Option<usize> {
        self.door.call(|request| self.requests[request].tenant, self.now)
    }

    fn finish(&mut self, request: usize) {
        let Request { tenant, arrived, refusals, started } = self.requests[request];
        let began = started.unwrap_or(self.now);
        let ran = self.now.since(began);
        let slow_after = self.scenario.settings.slow_after;
        let stalled = (self.scenario.tenants[tenant].stalls && ran >= slow_after).then_some(slow_after);
        self.clients.learn(tenant, ran, stalled);
        self.door.leave(request, self.clients.arrival(tenant), ran, stalled.is_some(), self.now);
        let latency = self.now.since(arrived);
        self.count(request, |report| report.completed(latency, refusals));
        self.report.used_slot(tenant, began.max(self.warm_end()), self.now.min(self.send_end()));
        self.send_again(tenant);
        self.start_all(None);
    }

    fn give_up(&mut self, request: usize) {
        if self.door.give_up(request, self.now) {
            self.count(request, |report| report.gave_up += 1);
            let tenant = self.requests[request].tenant;
            self.send_again(tenant);
            self.start_all(None);
        }
    }

    /// A client of a closed loop has its answer, or has given up on it.
    fn send_again(&mut self, tenant: usize) {
        if self.clients.is_closed(tenant) {
            let pause = self.clients.pause(tenant, self.now);
            self.schedule(pause, Event::Arrive { tenant, refusals: 0, promise: None });
        }
    }

    fn warm_end(&self) -> Moment {
        Moment::ORIGIN.after(self.scenario.warm_up)
    }

    fn send_end(&self) -> Moment {
        Moment::ORIGIN.after(self.scenario.lasts)
    }

    /// Counts for the tenant of a request that arrived after the time of warming up.
    fn count(&mut self, request: usize, count: impl FnOnce(&mut TenantReport)) {
        let Request { tenant, arrived, .. } = self.requests[request];
        if arrived >= self.warm_end() {
            count(&mut self.report.tenants[tenant]);
        }
    }
}
