//! Leases against simulated gateways and a simulated store, on a clock of their own.

use std::time::Duration;

use proptest::prelude::*;
use quota::{FleetSize, Grant, LIFETIME, Lease, PATIENCE, Rate};
use types::Moment;

const STEP: Duration = Duration::from_millis(1);
const SWEEP_STEPS: u64 = 250;
const TIMEOUT: Duration = Duration::from_millis(500);

fn at(millis: u64) -> Moment {
    Moment::from_nanos(60_000_000_000).after(Duration::from_millis(millis))
}

fn rate(count: u32, per: Duration, burst: u32) -> Rate {
    Rate::new(count, per, burst).expect("a rate")
}

/// Numbers that follow from a seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }
}

/// A question on its way: when it was asked, when the store works on it, what that gave, and when the answer is there.
struct Question {
    asked: Moment,
    wanted: u32,
    works_at: Moment,
    grant: Option<Grant>,
    answered_at: Moment,
}

struct Gateway {
    lease: Lease,
    size: FleetSize,
    gateways: u32,
    question: Option<Question>,
    reaches_store: bool,
    was_cut_off: bool,
    /// Requests of one step, and how often it has any, in thousandths.
    demand: (u64, u64),
    passed: u64,
    refused: u64,
}

impl Gateway {
    fn new(rate: &Rate) -> Self {
        Self {
            lease: Lease::new(rate),
            size: FleetSize::default(),
            gateways: 1,
            question: None,
            reaches_store: true,
            was_cut_off: false,
            demand: (1, 100),
            passed: 0,
            refused: 0,
        }
    }

    fn hear(&mut self, gateways: u32, now: Moment) {
        self.gateways = self.size.hear(gateways, now);
    }
}

/// How much may have passed, held against what has.
#[derive(Default)]
struct Account {
    passed: f64,
    allowed: f64,
    least: f64,
    worst: f64,
}

impl Account {
    /// A window may begin now, in which this is allowed for what began before.
    fn window_begins(&mut self, still: f64) {
        self.least = self.least.min(self.passed - self.allowed + still);
    }

    fn window_ends(&mut self) {
        self.worst = self.worst.max(self.passed - self.allowed - self.least);
    }
}

struct Fleet {
    rate: Rate,
    tat: Moment,
    gateways: Vec<Gateway>,
    account: Account,
    random: Random,
    slowest: u64,
    now: Moment,
    steps: u64,
}

impl Fleet {
    fn new(rate: Rate, count: u32, seed: u64) -> Self {
        let mut gateways: Vec<_> = (0..count).map(|_| Gateway::new(&rate)).collect();
        gateways.iter_mut().for_each(|gateway| gateway.hear(count, at(0)));
        let (account, random) = (Account::default(), Random(seed));
        Self { rate, tat: Moment::ORIGIN, gateways, account, random, slowest: 5, now: at(0), steps: 0 }
    }

    fn count(&self) -> u32 {
        u32::try_from(self.gateways.len()).expect("few")
    }

    fn per(&self, rate: &Rate, time: Duration) -> f64 {
        time.as_secs_f64() / rate.interval().as_secs_f64()
    }

    /// What the formula allows beyond `r·t` in a window without outages, restarts and losses.
    fn constant(&self) -> f64 {
        let credit = self.rate.burst().div_ceil(self.count());
        f64::from(self.rate.burst())
            + self.per(&self.rate, LIFETIME)
            + f64::from(credit) * f64::from(self.count())
    }

    /// What a gateway may let pass because it is cut off already, or has not heard how many there are.
    fn still_allowed(&self, gateway: &Gateway) -> f64 {
        let share = gateway.lease.share(gateway.gateways).burst();
        let cut_off = if gateway.was_cut_off { share } else { 0 };
        let unheard = if gateway.gateways < self.count() { share } else { 0 };
        f64::from(cut_off) + f64::from(unheard)
    }

    fn restart(&mut self, index: usize) {
        let old = &self.gateways[index];
        let (reaches_store, demand) = (old.reaches_store, old.demand);
        self.gateways[index] = Gateway { reaches_store, demand, ..Gateway::new(&self.rate) };
        // It knows nothing of the others until it has heard from the store.
        self.account.allowed += f64::from(self.rate.burst());
    }

    fn lose_data(&mut self) {
        self.tat = Moment::ORIGIN;
        self.account.allowed += f64::from(self.rate.burst());
    }

    fn step(&mut self) {
        let still: f64 = self.gateways.iter().map(|gateway| self.still_allowed(gateway)).sum();
        self.account.window_begins(still);
        let from = usize::try_from(self.random.below(self.gateways.len() as u64)).expect("few");
        for turn in 0..self.gateways.len() {
            self.turn((from + turn) % self.gateways.len());
        }
        self.account.window_ends();
        self.now = self.now.after(STEP);
        self.steps += 1;
        self.account.allowed += self.per(&self.rate, STEP);
    }

    fn turn(&mut self, index: usize) {
        self.talk(index);
        let (now, rate) = (self.now, self.rate);
        let is_cut_off = self.gateways[index].lease.is_cut_off(now);
        let share = self.gateways[index].lease.share(self.gateways[index].gateways);
        if is_cut_off {
            self.account.allowed += self.per(&share, STEP);
        }
        let gateway = &mut self.gateways[index];
        if is_cut_off && !gateway.was_cut_off {
            self.account.allowed += f64::from(share.burst());
        }
        gateway.was_cut_off = is_cut_off;
        let (many, often) = gateway.demand;
        let requests = if self.random.below(1000) < often { self.random.below(many + 1) } else { 0 };
        for _ in 0..requests {
            match gateway.lease.check(&rate, gateway.gateways, now) {
                Ok(passed) => {
                    assert!(passed.remaining < rate.burst());
                    gateway.passed += 1;
                    self.account.passed += 1.0;
                }
                Err(_) => gateway.refused += 1,
            }
        }
        let is_swept = self.steps.is_multiple_of(SWEEP_STEPS);
        let asks = gateway.lease.is_urgent(gateway.gateways, now)
            || is_swept && (gateway.lease.is_overdue(now) || is_cut_off);
        if asks {
            gateway.lease.waits(now);
        }
        if asks && gateway.question.is_none() {
            let delays = [self.random.below(self.slowest), self.random.below(self.slowest)];
            let works_at = now.after(Duration::from_millis(delays[0]));
            let answered_at = works_at.after(Duration::from_millis(delays[1]));
            let wanted = gateway.lease.ask(now).map(|ask| ask.tokens);
            gateway.question =
                wanted.map(|wanted| Question { asked: now, wanted, works_at, grant: None, answered_at });
        }
    }

    /// Has the store work on the gateway's question, and the gateway take the answer.
    fn talk(&mut self, index: usize) {
        let (now, count) = (self.now, self.count());
        let gateway = &mut self.gateways[index];
        let Some(question) = &mut gateway.question else { return };
        if question.grant.is_none() && now >= question.works_at && gateway.reaches_store {
            let grant = self.rate.grant(self.tat, now, question.wanted);
            self.tat = if grant.tokens > 0 { grant.tat } else { self.tat };
            question.grant = Some(grant);
        }
        match (question.grant, now >= question.answered_at && gateway.reaches_store) {
            (Some(grant), true) => {
                gateway.lease.answer(&grant, question.asked, now);
                gateway.question = None;
                gateway.hear(count, now);
            }
            _ if now.since(question.asked) >= TIMEOUT => gateway.question = None,
            _ => {}
        }
    }

    fn run(&mut self, steps: u64) {
        (0..steps).for_each(|_| self.step());
    }

    fn passed(&self) -> u64 {
        self.gateways.iter().map(|gateway| gateway.passed).sum()
    }

    /// Something that goes wrong, or right again.
    fn trouble(&mut self) {
        let index = usize::try_from(self.random.below(self.gateways.len() as u64)).expect("few");
        match self.random.below(8) {
            0 => self.gateways.iter_mut().for_each(|gateway| gateway.reaches_store = false),
            1 | 2 => self.gateways.iter_mut().for_each(|gateway| gateway.reaches_store = true),
            3 => self.gateways[index].reaches_store ^= true,
            4 => self.restart(index),
            5 => self.lose_data(),
            6 => self.slowest = [2, 20, 150, 700][usize::try_from(self.random.below(4)).expect("few")],
            _ => {
                let many = [1, 3, 50][usize::try_from(self.random.below(3)).expect("few")];
                self.gateways[index].demand = (many, self.random.below(1001));
            }
        }
    }
}

fn rates() -> impl Strategy<Value = Rate> {
    prop_oneof![
        (1..400_u32, 1..30_u32).prop_map(|(count, tenths)| rate(
            count,
            Duration::from_secs(1),
            (count * tenths / 10).max(1)
        )),
        (5..20_u32, 1..20_u32).prop_map(|(count, burst)| rate(count, Duration::from_secs(10), burst)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn no_window_has_more_than_the_formula_says(
        rate in rates(),
        count in 1..9_u32,
        seed: u64,
        calm in 20..2000_u64,
    ) {
        let mut fleet = Fleet::new(rate, count, seed);
        let constant = fleet.constant();
        let window = u64::try_from(rate.window().as_millis()).expect("short");
        // Longer than any window, so that what comes back has been used more than once.
        for _ in 0..(3 * window + 8_000) {
            if fleet.random.one_in(calm) {
                fleet.trouble();
            }
            fleet.step();
        }
        let Account { worst, .. } = fleet.account;
        prop_assert!(worst <= constant + 1e-3, "{worst} passed where {constant} are allowed");
    }

    #[test]
    fn a_batch_is_what_so_many_requests_would_have_been(
        rate in rates(),
        used in 0..40_u32,
        wanted in 1..100_u32,
        later in 0..3_000_u64,
    ) {
        let before = rate.grant(Moment::ORIGIN, at(0), used).tat;
        let (now, mut tat, mut single) = (at(later), before, 0);
        while single < wanted && let Ok(passed) = rate.check(tat, now) {
            (tat, single) = (passed.tat, single + 1);
        }
        let grant = rate.grant(before, now, wanted);
        prop_assert_eq!((grant.tokens, grant.tat.max(now)), (single, tat.max(now)));
        match rate.check(grant.tat, now) {
            Ok(passed) => prop_assert_eq!((grant.left, grant.wait), (passed.remaining + 1, Duration::ZERO)),
            Err(exhausted) => prop_assert_eq!((grant.left, grant.wait), (0, exhausted.wait)),
        }
    }
}

#[test]
fn a_crowd_gets_the_whole_rate_and_no_more_from_a_hundred_gateways() {
    let limit = rate(200, Duration::from_secs(1), 400);
    let mut fleet = Fleet::new(limit, 100, 7);
    fleet.gateways.iter_mut().for_each(|gateway| gateway.demand = (2, 300));
    fleet.run(30_000);
    let passed = fleet.passed();
    assert!(passed >= 200 * 30 * 95 / 100, "only {passed} of 6000 passed");
    assert!(fleet.account.worst <= fleet.constant(), "{}", fleet.account.worst);
}

#[test]
fn one_busy_gateway_gets_what_idle_ones_leave() {
    let mut fleet = Fleet::new(rate(100, Duration::from_secs(1), 200), 10, 3);
    fleet.gateways.iter_mut().for_each(|gateway| gateway.demand = (0, 0));
    fleet.gateways[0].demand = (1, 1000);
    fleet.run(20_000);
    assert!(fleet.passed() >= 100 * 20 * 95 / 100, "{}", fleet.passed());
}

#[test]
fn a_client_within_its_limit_is_not_refused_however_it_spreads() {
    for (count, often) in [(1, 800), (3, 260), (10, 80)] {
        let mut fleet = Fleet::new(rate(500, Duration::from_secs(1), 1000), count, 11);
        fleet.gateways.iter_mut().for_each(|gateway| gateway.demand = (1, often));
        fleet.run(20_000);
        let refused: u64 = fleet.gateways.iter().map(|gateway| gateway.refused).sum();
        assert_eq!(refused, 0, "with {count} gateways, of {}", fleet.passed());
    }
}

#[test]
fn a_gateway_that_loses_the_store_keeps_its_last_share() {
    let mut fleet = Fleet::new(rate(100, Duration::from_secs(1), 100), 4, 5);
    fleet.gateways.iter_mut().for_each(|gateway| gateway.demand = (0, 0));
    // One has all the use there is: 60 a second of 100.
    fleet.gateways[0].demand = (1, 120);
    fleet.run(5_000);
    assert_eq!(fleet.gateways[0].refused, 0);
    fleet.gateways.iter_mut().for_each(|gateway| gateway.reaches_store = false);
    let before = fleet.gateways[0].passed;
    fleet.run(10_000);
    let kept = fleet.gateways[0].passed - before;
    assert!((450..=900).contains(&kept), "{kept} of 600 passed in ten seconds without the store");
    // Those that had no use have their even part.
    fleet.gateways[1].demand = (1, 1000);
    fleet.run(10_000);
    let even = fleet.gateways[1].passed;
    assert!((240..=320).contains(&even), "{even} of 250 passed in ten seconds");
    // It heals by itself.
    fleet.gateways.iter_mut().for_each(|gateway| gateway.reaches_store = true);
    fleet.run(3_000);
    let before = fleet.passed();
    fleet.gateways[2].demand = (5, 1000);
    fleet.run(10_000);
    let together = fleet.passed() - before;
    assert!((900..=1300).contains(&together), "{together} of 1000 passed in ten seconds after the outage");
}

#[test]
fn a_limit_that_is_seldom_used_is_not_leased_ahead() {
    let limit = rate(10, Duration::from_secs(3600), 10);
    let mut lease = Lease::new(&limit);
    assert!(lease.check(&limit, 3, at(0)).is_ok());
    // One of four: a quarter of the credit.
    assert!(lease.is_urgent(3, at(0)));
    lease.waits(at(0));
    assert_eq!(lease.ask(at(0)).map(|ask| ask.tokens), Some(1), "the debt, and nothing ahead");
    lease.answer(&limit.grant(Moment::ORIGIN, at(1), 1), at(0), at(2));
    assert!(!lease.is_urgent(3, at(2)) && lease.is_settled(at(2)));
    assert_eq!(lease.ask(at(2)), None);
}

#[test]
fn tokens_end_and_so_does_credit() {
    let limit = rate(1000, Duration::from_secs(1), 40);
    let mut lease = Lease::new(&limit);
    for _ in 0..10 {
        assert!(lease.check(&limit, 4, at(0)).is_ok());
    }
    assert!(lease.check(&limit, 4, at(0)).is_err(), "the credit of one gateway of four is ten");
    let ask = lease.ask(at(1)).expect("a debt");
    assert!(ask.tokens > 10, "{ask:?}");
    lease.answer(&limit.grant(Moment::ORIGIN, at(2), ask.tokens), at(1), at(3));
    let late = at(1).after(LIFETIME);
    for _ in 0..10 {
        assert!(lease.check(&limit, 4, late).is_ok());
    }
    assert!(lease.check(&limit, 4, late).is_err(), "what was leased ahead has ended");
}

#[test]
fn a_limit_that_is_used_up_is_asked_for_again_when_it_may_have_come_back() {
    let limit = rate(2, Duration::from_secs(1), 1);
    let mut lease = Lease::new(&limit);
    assert!(lease.check(&limit, 1, at(0)).is_ok());
    lease.waits(at(0));
    let ask = lease.ask(at(0)).expect("a debt");
    let used_up = limit.grant(at(500), at(0), ask.tokens);
    assert_eq!((used_up.tokens, used_up.wait), (0, Duration::from_millis(500)));
    lease.answer(&used_up, at(0), at(1));
    let refused = lease.check(&limit, 1, at(1)).expect_err("used up");
    assert_eq!(refused.wait, Duration::from_millis(500));
    assert!(!lease.is_urgent(1, at(500)) && lease.is_urgent(1, at(501)));
    // It is not cut off: the store has answered.
    assert!(lease.check(&limit, 1, at(400)).is_err());
}

#[test]
fn without_an_answer_a_gateway_goes_by_its_share_after_a_tenth_of_a_second() {
    let limit = rate(100, Duration::from_secs(1), 4);
    let mut lease = Lease::new(&limit);
    for _ in 0..2 {
        assert!(lease.check(&limit, 2, at(0)).is_ok());
    }
    lease.waits(at(0));
    let cut_off = at(0).after(PATIENCE);
    assert!(lease.check(&limit, 2, at(99)).is_err());
    assert!(lease.is_cut_off(cut_off));
    for _ in 0..2 {
        assert!(lease.check(&limit, 2, cut_off).is_ok());
    }
    assert!(lease.check(&limit, 2, cut_off).is_err());
    // Half of the rate.
    assert!(lease.check(&limit, 2, cut_off.after(Duration::from_millis(19))).is_err());
    assert!(lease.check(&limit, 2, cut_off.after(Duration::from_millis(20))).is_ok());
    assert!(!lease.is_settled(at(10_000)));
}

#[test]
fn a_request_that_was_not_used_is_given_back() {
    let limit = rate(1, Duration::from_secs(1), 3);
    let mut lease = Lease::new(&limit);
    for _ in 0..5 {
        assert!(lease.check(&limit, 3, at(0)).is_ok());
        lease.refund(3, at(0));
    }
    assert!(lease.is_settled(at(0)));
    assert!(lease.check(&limit, 3, at(0)).is_ok() && lease.check(&limit, 3, at(0)).is_err());
}

#[test]
fn a_fleet_grows_at_once_and_shrinks_after_half_a_minute() {
    let mut size = FleetSize::default();
    assert_eq!(size.hear(5, at(0)), 5);
    assert_eq!(size.hear(1, at(1)), 5, "the store may have lost its data");
    assert_eq!(size.hear(5, at(10_000)), 5);
    assert_eq!(size.hear(3, at(39_999)), 5);
    assert_eq!(size.hear(3, at(40_000)), 3);
    assert_eq!(size.hear(0, at(80_000)), 1);
}
