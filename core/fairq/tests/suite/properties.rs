//! What holds for any weights and costs: bounded lag, nobody starves, the shares of a textbook round robin.

use fairq::{Arrival, ClassSettings, FairQueue, Settings, Verdict};
use proptest::prelude::*;
use std::{collections::VecDeque, time::Duration};
use types::Moment;

/// Weight, and milliseconds that each request takes.
type Tenant = (u32, u64);

const NOW: Moment = Moment::from_nanos(1_000_000_000);

fn tenants() -> impl Strategy<Value = Vec<Tenant>> {
    prop::collection::vec((1_u32..20, 1_u64..90), 2..8)
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A queue in which every tenant always waits, served by one slot.
struct Backlog {
    queue: FairQueue<usize, usize>,
    tenants: Vec<Tenant>,
    /// Slot-milliseconds that each has had.
    served: Vec<u64>,
    now: Moment,
}

impl Backlog {
    fn new(tenants: Vec<Tenant>) -> Self {
        let queue =
            // Nobody is slow: what is said here holds among the quick, and among the slow.
            FairQueue::new(Settings { room: 10_000, slow_after: ms(10_000), ..Settings::default() }, NOW)
                .expect("sound settings");
        let mut backlog = Self { queue, served: vec![0; tenants.len()], tenants, now: NOW };
        for ticket in 0..2 * backlog.tenants.len() {
            backlog.push(ticket);
        }
        backlog
    }

    fn push(&mut self, ticket: usize) {
        let tenant = ticket % self.tenants.len();
        let (weight, cost) = self.tenants[tenant];
        let arrival = Arrival {
            class: 0,
            tenant,
            weight,
            slot_time: ms(cost).into(),
            extra_units: 0,
            slow: false,
            slots_held: 0,
        };
        assert_eq!(self.queue.push(arrival, ticket, ticket, self.now), Verdict::Queued);
    }

    /// Serves whoever is next, and lets it wait again.
    fn serve(&mut self, actual: impl FnOnce(u64) -> u64) -> usize {
        let grant = self.queue.pop(self.now).expect("everybody waits");
        let tenant = grant.ticket % self.tenants.len();
        let cost = actual(self.tenants[tenant].1);
        self.push(grant.ticket);
        self.now = self.now.after(ms(cost));
        self.queue.settle(grant.pass, self.now);
        self.served[tenant] += cost;
        tenant
    }
}

/// Deficit round robin as in the textbooks: each visit adds a quantum, and serves while the deficit lasts.
fn textbook(tenants: &[Tenant], until: u64) -> Vec<u64> {
    let mut served = vec![0; tenants.len()];
    let mut deficits = vec![0_u64; tenants.len()];
    let mut line: VecDeque<usize> = (0..tenants.len()).collect();
    while served.iter().sum::<u64>() < until {
        line.rotate_left(1);
        let at = line[0];
        let (weight, cost) = tenants[at];
        deficits[at] += u64::from(weight);
        let count = deficits[at] / cost;
        deficits[at] -= count * cost;
        served[at] += count * cost;
    }
    served
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn the_shares_are_those_of_a_textbook_round_robin(tenants in tenants()) {
        let mut backlog = Backlog::new(tenants.clone());
        while backlog.served.iter().sum::<u64>() < 60_000 {
            backlog.serve(|estimate| estimate);
        }
        let weights: u64 = tenants.iter().map(|(weight, _)| u64::from(*weight)).sum();
        let theirs = textbook(&tenants, 60_000);
        for (at, (weight, _)) in tenants.iter().enumerate() {
            // Either may be ahead of its exact share by the longest request, or by what others get meanwhile.
            let slack = 2 * 90 * u64::from(*weight).max(1) + 2 * 90 + weights;
            let (ours, theirs) = (backlog.served[at], theirs[at]);
            prop_assert!(ours.abs_diff(theirs) <= slack, "{ours} and {theirs} of {tenants:?}");
        }
    }

    #[test]
    fn no_two_that_wait_drift_apart_by_more_than_a_request_and_a_round(
        tenants in tenants(),
        wrong in prop::collection::vec(1_u64..300, 400),
    ) {
        let mut backlog = Backlog::new(tenants.clone());
        // Requests take anything but what was estimated.
        for percent in wrong {
            backlog.serve(|estimate| estimate * percent / 100);
            for (a, (weight_a, cost_a)) in tenants.iter().enumerate() {
                for (b, (weight_b, cost_b)) in tenants.iter().enumerate() {
                    let had = |at: usize, weight: u32| backlog.served[at] as f64 / f64::from(weight);
                    let longest = |cost: u64, weight: u32| 3.0 * cost as f64 / f64::from(weight);
                    let lag = had(a, *weight_a) - had(b, *weight_b);
                    let bound = longest(*cost_a, *weight_a) + longest(*cost_b, *weight_b) + 2.0;
                    prop_assert!(lag <= bound, "{a} is {lag} ahead of {b}, more than {bound}, of {tenants:?}");
                }
            }
        }
    }

    #[test]
    fn a_debt_is_never_more_than_what_ran_and_is_bounded_at_ten_minutes(
        ran in prop::collection::vec(0_u64..2_000_000, 1..20),
    ) {
        let settings = Settings { slots: 100, ..Settings::default() };
        let mut queue = FairQueue::<u8, usize>::new(settings, NOW).expect("sound settings");
        let arrival = |tenant| Arrival { class: 0, tenant, weight: 1, slot_time: ms(1).into(), extra_units: 0, slow: false, slots_held: 0 };
        queue.push(arrival(9), 99, 99, NOW);
        let mut passes = Vec::new();
        for ticket in 0..ran.len() {
            queue.push(arrival(1), ticket, ticket, NOW);
        }
        passes.extend(std::iter::from_fn(|| queue.pop(NOW)).map(|grant| grant.pass));
        queue.push(arrival(9), 99, 99, NOW);
        let mut now = NOW;
        // The first was another tenant's.
        for (pass, millis) in passes.into_iter().zip([0].iter().chain(&ran)) {
            now = now.after(ms(*millis));
            queue.settle(pass, now);
        }
        for _ in 0..3 {
            let debt = queue.tenant(0, &1, now).map_or(Duration::ZERO, |tenant| tenant.debt);
            prop_assert!(debt <= ms(ran.iter().sum::<u64>() * ran.len() as u64 + ran.len() as u64));
            queue.push(arrival(1), 50, 50, now);
            prop_assert!(queue.tenant(0, &1, now).is_some_and(|tenant| tenant.debt <= Duration::from_secs(600)));
            queue.cancel(50, now);
        }
    }

    #[test]
    fn whoever_waits_is_served_however_many_newcomers_come(weight in 1_u32..20, flood in 1_usize..4) {
        let classes = vec![ClassSettings::weighing(1)];
        let settings = Settings { room: 10_000, classes, ..Settings::default() };
        let mut queue = FairQueue::<usize, usize>::new(settings, NOW).expect("sound settings");
        let arrival = |tenant, weight| Arrival { class: 0, tenant, weight, slot_time: ms(10).into(), extra_units: 0, slow: false, slots_held: 0 };
        for ticket in 0..20 {
            queue.push(arrival(0, weight), ticket, ticket, NOW);
        }
        let (mut now, mut next, mut last_served, mut served) = (NOW, 100, 0, 0);
        for nth in 0..400_usize {
            for _ in 0..flood {
                queue.push(arrival(next, 20), next, next, now);
                next += 1;
            }
            let grant = queue.pop(now).expect("somebody waits");
            now = now.after(ms(10));
            queue.settle(grant.pass, now);
            if grant.ticket < 20 {
                prop_assert!(nth - last_served <= 8, "it waited for {} others", nth - last_served);
                (last_served, served) = (nth, served + 1);
            }
            if served == 20 {
                return Ok(());
            }
        }
        prop_assert!(false, "only {served} of 20 were served");
    }
}

#[test]
fn a_newcomer_flood_of_one_class_starves_no_other_class() {
    let classes = [1, 1000].map(ClassSettings::weighing).to_vec();
    let settings = Settings { room: 10_000, classes, ..Settings::default() };
    let mut queue = FairQueue::<usize, usize>::new(settings, NOW).expect("sound settings");
    let arrival = |class, tenant| Arrival {
        class,
        tenant,
        weight: 1,
        slot_time: ms(10).into(),
        extra_units: 0,
        slow: false,
        slots_held: 0,
    };
    queue.push(arrival(0, 0), 0, 0, NOW);
    queue.push(arrival(0, 0), 1, 1, NOW);
    let mut served = Vec::new();
    let mut now = NOW;
    for nth in 2..2_100 {
        queue.push(arrival(1, nth), nth, nth, now);
        let grant = queue.pop(now).expect("somebody waits");
        now = now.after(ms(10));
        queue.settle(grant.pass, now);
        served.extend((grant.ticket < 2).then_some(nth));
    }
    assert_eq!(served.len(), 2, "one in a thousand is its share: {served:?}");
}

#[test]
fn finding_the_next_takes_a_few_steps_whatever_anybody_owes() {
    // Ten thousand tenants with debts from nothing to ten minutes; the calendar holds three seconds.
    let settings = Settings { room: 100_000, slots: 10_000, ..Settings::default() };
    let mut queue = FairQueue::<usize, usize>::new(settings, NOW).expect("sound settings");
    let arrival = |tenant| Arrival {
        class: 0,
        tenant,
        weight: 1,
        slot_time: ms(1).into(),
        extra_units: 0,
        slow: false,
        slots_held: 0,
    };
    for (tenant, seconds) in (0..10_000).zip((0..600).cycle()) {
        queue.push(Arrival { extra_units: seconds * 1000, ..arrival(tenant) }, tenant, tenant, NOW);
    }
    let passes: Vec<_> = std::iter::from_fn(|| queue.pop(NOW)).map(|grant| grant.pass).collect();
    for tenant in 0..10_000 {
        queue.push(arrival(tenant), tenant, tenant, NOW);
    }
    passes.into_iter().for_each(|pass| queue.settle(pass, NOW.after(ms(1))));
    let order: Vec<_> =
        std::iter::from_fn(|| queue.pop(NOW.after(ms(1)))).map(|grant| grant.ticket % 600).collect();
    assert_eq!(order.len(), 10_000);
    assert!(order.is_sorted(), "who owes less goes first");
}
