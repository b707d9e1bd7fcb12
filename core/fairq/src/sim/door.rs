//! What stands before the slots: the fair queue, a plain queue, or nothing.

use crate::{
    queue::{Arrival, FairQueue, Pass, Verdict},
    settings::Settings,
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

/// What a newcomer met.
pub(super) struct Outcome {
    pub(super) enters: bool,
    pub(super) waits: bool,
    /// Who was refused, itself or another, and when they should return.
    pub(super) refused: Option<(usize, Duration)>,
}

/// The slots, and who waits for them.
pub(super) struct Door {
    slots: u32,
    running: u32,
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
    pub(super) fn new(policy: Policy, settings: &Settings) -> Self {
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
        Self { slots: settings.slots, running: 0, line }
    }

    pub(super) fn arrive(&mut self, request: usize, arrival: Arrival<usize>, now: Moment) -> Outcome {
        let free = self.running < self.slots;
        let enters = Outcome { enters: true, waits: false, refused: None };
        let waits = Outcome { enters: false, waits: true, refused: None };
        match &mut self.line {
            Line::Plain { waiting, .. } if free && waiting.is_empty() => {}
            Line::Fair { queue, .. } if free && queue.depth() == 0 && !queue.is_slow(arrival.estimate) => {}
            Line::Plain { room, waiting } if waiting.len() >= *room => {
                return Outcome {
                    enters: false,
                    waits: false,
                    refused: Some((request, Duration::from_secs(1))),
                };
            }
            Line::Plain { waiting, .. } => {
                waiting.push_back(request);
                return waits;
            }
            Line::Fair { queue, places, .. } => {
                let place = places.take(request);
                return match queue.push(arrival, place, request, now) {
                    Verdict::Queued => waits,
                    Verdict::Busy(retry) => {
                        places.give(request);
                        let whole = Duration::from_secs(retry.seconds());
                        Outcome { enters: false, waits: false, refused: Some((request, whole)) }
                    }
                    Verdict::Shed { victim, retry_after } => {
                        places.give(victim);
                        let whole = Duration::from_secs(retry_after.seconds());
                        Outcome { refused: Some((victim, whole)), ..waits }
                    }
                };
            }
        }
        self.running += 1;
        enters
    }

    /// Whoever is next for a free slot.
    pub(super) fn call(&mut self, now: Moment) -> Option<usize> {
        if self.running >= self.slots {
            return None;
        }
        let request = match &mut self.line {
            Line::Plain { waiting, .. } => waiting.pop_front()?,
            Line::Fair { queue, places, passes } => {
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
        Some(request)
    }

    pub(super) fn leave(&mut self, request: usize, arrival: Arrival<usize>, ran: Duration, now: Moment) {
        self.running -= 1;
        if let Line::Fair { queue, passes, .. } = &mut self.line {
            match passes.get_mut(request).and_then(Option::take) {
                Some(pass) => queue.settle(pass, now),
                None => queue.settle_unqueued(arrival.class, arrival.tenant, arrival.weight, ran, now),
            }
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
