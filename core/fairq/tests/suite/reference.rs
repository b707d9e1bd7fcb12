//! The queue against an independent, slow reference: every verdict, and nothing lost or doubled, over random operations.

#[path = "support/naive.rs"]
mod naive;

use fairq::{Arrival, ClassSettings, FairQueue, Pass, Settings, Verdict};
use naive::{Expected, Naive};
use proptest::{prelude::*, sample::Index};
use std::time::Duration;
use types::Moment;

#[derive(Debug, Clone)]
enum Step {
    /// Of class, tenant and weight (as a power of two), quick or slow.
    Push {
        class: usize,
        tenant: u8,
        weight: u32,
        slow: bool,
    },
    Pop,
    Cancel(Index),
    Settle(Index),
    SettleUnqueued {
        class: usize,
        tenant: u8,
        millis: u64,
    },
    Wait(u64),
    Housekeep,
    Resize {
        slots: u32,
        room: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        40 => (0_usize..3, 0_u8..5, 0_u32..3, prop::bool::weighted(0.3))
            .prop_map(|(class, tenant, weight, slow)| Step::Push { class, tenant, weight, slow }),
        30 => Just(Step::Pop),
        6 => any::<Index>().prop_map(Step::Cancel),
        20 => any::<Index>().prop_map(Step::Settle),
        4 => (0_usize..3, 0_u8..5, 0_u64..2_000)
            .prop_map(|(class, tenant, millis)| Step::SettleUnqueued { class, tenant, millis }),
        20 => (0_u64..300).prop_map(Step::Wait),
        2 => Just(Step::Housekeep),
        2 => (1_u32..8, 1_usize..16).prop_map(|(slots, room)| Step::Resize { slots, room }),
    ]
}

fn settings(slots: u32, room: usize) -> Settings {
    let classes = [1, 5, 10].map(ClassSettings::weighing).to_vec();
    Settings {
        slots,
        room,
        // The reference knows of no promises.
        reserved_percent: 0,
        tenant_room: 8,
        classes,
        idle_after: Duration::from_secs(1),
        ..Settings::default()
    }
}

/// The queue and its reference, with all that was taken from them.
struct Bench {
    queue: FairQueue<u8, usize>,
    naive: Naive,
    passes: Vec<Granted>,
    next_ticket: usize,
    now: Moment,
}

/// A slot that was given.
struct Granted {
    class: usize,
    tenant: u8,
    slow: bool,
    start: Moment,
    pass: Pass,
}

impl Bench {
    fn settle(&mut self, granted: Granted) {
        let Granted { class, tenant, slow, start, pass } = granted;
        self.queue.settle(pass, self.now);
        self.naive.settle(class, tenant, start, slow, self.now);
    }

    /// Takes over where tenants wait, as far as that can be.
    fn sync(&mut self) -> Result<(), TestCaseError> {
        for (class, tenant) in (0..3).flat_map(|class| (0..5).map(move |tenant| (class, tenant))) {
            if let Some(stats) = self.queue.tenant(class, &tenant, self.now) {
                let sound = self.naive.sync(class, tenant, stats.is_slow, stats.is_capped, self.now);
                prop_assert!(sound, "{class}/{tenant} is held back without a reason: {stats:?}");
            }
        }
        Ok(())
    }

    fn apply(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Push { class, tenant, weight, slow } => self.push(class, tenant, 1 << weight, slow)?,
            Step::Pop => self.pop()?,
            Step::Cancel(which) => {
                if let Some(ticket) = self.naive.any_ticket(|count| which.index(count)) {
                    prop_assert!(self.queue.cancel(ticket, self.now));
                    prop_assert!(!self.queue.cancel(ticket, self.now), "it no longer waits");
                    self.naive.remove(ticket);
                }
            }
            Step::Settle(which) => {
                if !self.passes.is_empty() {
                    let granted = self.passes.remove(which.index(self.passes.len()));
                    self.settle(granted);
                }
            }
            Step::SettleUnqueued { class, tenant, millis } => {
                self.queue.settle_unqueued(class, tenant, 1, Duration::from_millis(millis), self.now);
                self.naive.set_weight(class, tenant, 1);
            }
            Step::Wait(millis) => {
                self.now = self.now.after(Duration::from_millis(millis));
                // So that it notices what is overdue, without forgetting anybody.
                self.queue.housekeep(0, self.now);
            }
            Step::Housekeep => {
                self.queue.housekeep(100, self.now);
            }
            Step::Resize { slots, room } => {
                let changed = self.queue.reconfigure(settings(slots, room), self.now);
                prop_assert_eq!(changed, Ok(()));
                (self.naive.slots, self.naive.room) = (slots as usize, room);
            }
        }
        self.sync()?;
        self.compare()
    }

    fn push(&mut self, class: usize, tenant: u8, weight: u32, slow: bool) -> Result<(), TestCaseError> {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let estimate = Duration::from_millis(if slow { 500 } else { 7 });
        let arrival = Arrival {
            class,
            tenant,
            weight,
            slot_time: estimate.into(),
            extra_units: u32::from(tenant),
            slow: false,
            slots_held: 0,
        };
        let verdict = self.queue.push(arrival, ticket, ticket, self.now);
        match (self.naive.push(class, tenant, weight, estimate, ticket), verdict) {
            (Expected::Queued, Verdict::Queued) => {}
            (Expected::Busy, Verdict::Busy(retry)) => prop_assert!((1..=30).contains(&retry.seconds())),
            (Expected::Shed(among), Verdict::Shed { victim, retry_after }) => {
                prop_assert!(among.contains(&victim), "{} instead of one of {:?}", victim, among);
                prop_assert!((1..=30).contains(&retry_after.seconds()));
                self.naive.remove(victim);
            }
            (expected, verdict) => prop_assert!(false, "{verdict:?} instead of {expected:?}"),
        }
        Ok(())
    }

    fn pop(&mut self) -> Result<(), TestCaseError> {
        let expected = self.naive.can_pop(self.now);
        let grant = self.queue.pop(self.now);
        prop_assert_eq!(grant.is_some(), expected, "a slot stays empty only if nobody may have it");
        if let Some(grant) = grant {
            let Some((class, tenant)) = self.naive.whose(grant.ticket) else {
                return Err(TestCaseError::fail("the ticket does not wait"));
            };
            prop_assert!(
                self.naive.grant(grant.ticket, self.now),
                "{} is not the oldest of a tenant that may go",
                grant.ticket
            );
            let (slow, start) = (self.naive.last_was_slow(class, tenant), self.now);
            self.passes.push(Granted { class, tenant, slow, start, pass: grant.pass });
        }
        self.sync()
    }

    fn compare(&self) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.queue.depth(), self.naive.depth());
        prop_assert_eq!(self.queue.slow_running() as usize, self.naive.slow_running(self.now));
        for class in 0..3 {
            let stats = self.queue.class(class, self.now).expect("three classes");
            prop_assert_eq!(stats.waiting, self.naive.waiting_in(class));
            let counts = stats.counts;
            let ended = counts.granted + counts.shed + counts.cancelled + stats.waiting as u64;
            prop_assert_eq!(counts.queued, ended, "every ticket comes to one end");
            for tenant in 0..5 {
                let waiting = self.queue.tenant(class, &tenant, self.now).map_or(0, |tenant| tenant.waiting);
                prop_assert_eq!(waiting, self.naive.waiting_of(class, tenant));
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn every_operation_agrees_with_the_reference(steps in prop::collection::vec(step(), 0..300)) {
        let now = Moment::from_nanos(1_000_000_000);
        let queue = FairQueue::new(settings(4, 8), now).expect("sound settings");
        let naive = Naive::new(4, 8, 8, vec![1, 5, 10]);
        let mut bench = Bench { queue, naive, passes: Vec::new(), next_ticket: 0, now };
        for step in steps {
            bench.apply(step)?;
        }
        for granted in std::mem::take(&mut bench.passes) {
            bench.settle(granted);
        }
        bench.sync()?;
        while bench.naive.depth() > 0 {
            let before = bench.naive.depth();
            bench.pop()?;
            prop_assert!(bench.naive.depth() < before, "with all slots free, everything drains");
            for granted in std::mem::take(&mut bench.passes) {
                bench.settle(granted);
            }
            bench.sync()?;
        }
        bench.now = bench.now.after(Duration::from_secs(100_000));
        bench.queue.housekeep(100, bench.now);
        bench.now = bench.now.after(Duration::from_secs(100_000));
        bench.queue.housekeep(100, bench.now);
        prop_assert_eq!(bench.queue.tenants(), 0, "in the end nobody owes anything");
    }
}
