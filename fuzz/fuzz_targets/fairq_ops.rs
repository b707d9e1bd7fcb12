//! Random operations on the fair queue: it neither panics nor loses a ticket, and in the end everything drains.

#![no_main]

use fairq::{Arrival, ClassSettings, FairQueue, Pass, Settings, Verdict};
use libfuzzer_sys::fuzz_target;
use std::{collections::BTreeSet, time::Duration};
use types::Moment;

const SLOTS: u32 = 4;

fuzz_target!(|input: &[u8]| {
    let mut run = Run::new();
    for step in input.chunks_exact(3) {
        run.apply(step[0], step[1], step[2]);
        assert_eq!(run.queue.depth(), run.waiting.len());
    }
    run.drain();
});

struct Run {
    queue: FairQueue<u8, usize>,
    waiting: BTreeSet<usize>,
    passes: Vec<Pass>,
    next_ticket: usize,
    now: Moment,
}

fn settings(room: u8) -> Settings {
    let classes = [1, 5, 10].map(ClassSettings::weighing).to_vec();
    Settings {
        slots: SLOTS,
        room: usize::from(room),
        tenant_room: 9,
        max_tenants: 12,
        classes,
        ..Settings::default()
    }
}

impl Run {
    fn new() -> Self {
        let now = Moment::ORIGIN;
        let queue = FairQueue::new(settings(16), now).expect("sound settings");
        Self { queue, waiting: BTreeSet::new(), passes: Vec::new(), next_ticket: 0, now }
    }

    fn apply(&mut self, what: u8, a: u8, b: u8) {
        match what % 8 {
            0..=2 => self.push(a, b),
            3 => self.pop(),
            4 if !self.passes.is_empty() => {
                let pass = self.passes.swap_remove(usize::from(a) % self.passes.len());
                self.queue.settle(pass, self.now);
            }
            5 => self.now = self.now.after(Duration::from_millis(u64::from(a) << (b % 16))),
            6 if a % 4 == 0 => {
                self.queue.housekeep(usize::from(b), self.now);
            }
            6 if a % 4 == 1 => {
                self.queue.reconfigure(settings(b), self.now).expect("sound settings");
            }
            6 => {
                let ran = Duration::from_millis(u64::from(b) << (a % 16));
                self.queue.settle_unqueued(usize::from(a) % 4, b % 16, u32::from(a), ran, self.now);
            }
            7 => {
                if let Some(&ticket) = self.waiting.iter().nth(usize::from(a) % self.waiting.len().max(1)) {
                    assert!(self.queue.cancel(ticket, self.now) && self.waiting.remove(&ticket));
                }
            }
            _ => {}
        }
    }

    fn push(&mut self, a: u8, b: u8) {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let estimate = Duration::from_micros(u64::from(a) << (b % 24));
        // One class more than there is, and weights from nothing to more than allowed.
        let arrival = Arrival {
            class: usize::from(a) % 4,
            tenant: b % 16,
            weight: u32::from(a) * 8,
            slot_time: estimate.into(),
            extra_units: u32::from(b) << (a % 24),
            slow: b % 5 == 0,
            slots_held: u32::from(a) % 32,
        };
        match self.queue.push(arrival, ticket, ticket, self.now) {
            Verdict::Queued => assert!(self.waiting.insert(ticket)),
            Verdict::Busy(retry) => assert!((1..=30).contains(&retry.seconds())),
            Verdict::Shed { victim, retry_after } => {
                assert!(self.waiting.remove(&victim) && self.waiting.insert(ticket));
                assert!((1..=30).contains(&retry_after.seconds()));
            }
        }
    }

    fn pop(&mut self) {
        if let Some(grant) = self.queue.pop(self.now) {
            assert!(self.waiting.remove(&grant.ticket));
            self.passes.push(grant.pass);
        }
    }

    fn drain(&mut self) {
        loop {
            for pass in self.passes.drain(..) {
                self.queue.settle(pass, self.now);
            }
            if self.waiting.is_empty() {
                break;
            }
            self.pop();
            assert_eq!(self.passes.len(), 1, "with every slot free, somebody goes");
        }
        for _ in 0..2 {
            self.now = self.now.after(Duration::from_secs(100_000));
            self.queue.housekeep(100, self.now);
        }
        assert_eq!((self.queue.depth(), self.queue.tenants()), (0, 0));
    }
}
