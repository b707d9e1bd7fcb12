//! A fair room on a clock that is set by hand.

use fairq::{Arrival, FairQueue, Grant, Pass, RetryAfter, Settings};
use ron_sync::gate::{Room, TicketId, Verdict};
use std::time::Duration;
use types::Moment;

pub(crate) struct FairRoom {
    queue: FairQueue<u32, TicketId>,
    now: Moment,
}

/// A newcomer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Guest {
    pub(crate) tenant: u32,
    pub(crate) estimate: Duration,
}

/// How a permit came to be.
pub(crate) enum Stay {
    WalkedIn(Guest),
    Granted(Pass),
}

impl FairRoom {
    pub(crate) fn new(settings: Settings) -> Self {
        let now = Moment::ORIGIN;
        Self { queue: FairQueue::new(settings, now).expect("sound settings"), now }
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, time: Duration) {
        self.now = self.now.after(time);
    }
}

impl Room for FairRoom {
    type Key = Guest;
    type Stay = Stay;
    type Denial = RetryAfter;

    fn walks_in(guest: &Guest) -> bool {
        guest.estimate <= Settings::default().slow_after
    }

    fn walk_in(guest: Guest) -> Stay {
        Stay::WalkedIn(guest)
    }

    fn must_hear(stay: &Stay) -> bool {
        matches!(stay, Stay::Granted(_))
    }

    fn push(&mut self, Guest { tenant, estimate }: Guest, id: TicketId) -> Verdict<RetryAfter> {
        let arrival = Arrival {
            class: 0,
            tenant,
            weight: 1,
            slot_time: estimate.into(),
            extra_units: 0,
            slow: false,
            slots_held: 0,
        };
        match self.queue.push(arrival, id.index(), id, self.now) {
            fairq::Verdict::Queued => Verdict::Queued,
            fairq::Verdict::Busy(retry_after) => Verdict::Refused(retry_after),
            fairq::Verdict::Shed { victim, retry_after } => Verdict::Evicted(victim, retry_after),
        }
    }

    fn pop(&mut self, _: u32) -> Option<(TicketId, Stay)> {
        self.queue.pop(self.now).map(|Grant { ticket, pass }| (ticket, Stay::Granted(pass)))
    }

    fn cancel(&mut self, id: TicketId) {
        self.queue.cancel(id.index(), self.now);
    }

    fn returned(&mut self, stay: Stay) {
        match stay {
            // Their start is not known here; they are charged as estimated.
            Stay::WalkedIn(guest) => self.queue.settle_unqueued(0, guest.tenant, 1, guest.estimate, self.now),
            Stay::Granted(pass) => self.queue.settle(pass, self.now),
        }
    }
}
