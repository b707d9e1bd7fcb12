//! A hundred gateways that share slots, on a clock of their own: the sum, the time until a slot is where it is wanted, and
//! what a gateway's death costs.

use std::time::Duration;

use slotshare::{Demand, Held, SlotBook, share_out};
use types::Moment;

/// How often a gateway tells its demand and renews its slots, in milliseconds.
const EVERY: u64 = 50;

struct Gateway {
    is_alive: bool,
    demands: Vec<Demand>,
    /// What it told last, and when its next word is due.
    told: Vec<Demand>,
    due: u64,
    slots: u32,
}

struct Fleet {
    book: SlotBook,
    total: u32,
    has_store: bool,
    gateways: Vec<Gateway>,
    millis: u64,
    seed: u64,
}

impl Fleet {
    fn new(total: u32, count: usize, seed: u64) -> Self {
        let gateway = |index: usize| Gateway {
            is_alive: true,
            demands: Vec::new(),
            told: Vec::new(),
            due: index as u64 % EVERY,
            slots: 0,
        };
        let gateways = (0..count).map(gateway).collect();
        let mut fleet =
            Self { book: SlotBook::new(total), total, has_store: true, gateways, millis: 0, seed };
        // Until the book knows who is there.
        fleet.run(2 * u64::try_from(Held::LASTS.as_millis()).expect("short"));
        fleet
    }

    fn random(&mut self) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.seed >> 33
    }

    fn now(&self) -> Moment {
        Moment::ORIGIN.after(Duration::from_millis(self.millis))
    }

    fn run(&mut self, millis: u64) {
        for _ in 0..millis {
            self.millis += 1;
            for index in 0..self.gateways.len() {
                if self.gateways[index].is_alive && self.gateways[index].due <= self.millis {
                    self.renew(index);
                }
            }
            let used: u32 =
                self.gateways.iter().filter(|gateway| gateway.is_alive).map(|gateway| gateway.slots).sum();
            assert!(used <= self.total, "{used} of {} slots are in use", self.total);
        }
    }

    /// A gateway tells its demand, and takes the share that follows from what the others told last.
    fn renew(&mut self, index: usize) {
        let jitter = self.random() % 10;
        let now = self.now();
        let gateway = &mut self.gateways[index];
        gateway.due = self.millis + EVERY - 5 + jitter;
        if !self.has_store {
            return;
        }
        gateway.told = gateway.demands.clone();
        let told: Vec<&[Demand]> = self.gateways.iter().map(|gateway| gateway.told.as_slice()).collect();
        let target = share_out(self.total, &told)[index];
        let key = index as u64;
        let has = self.gateways[index].slots;
        self.gateways[index].slots = self.book.renew(key, has, target, now);
    }

    fn slots(&self) -> Vec<u32> {
        self.gateways.iter().map(|gateway| gateway.slots).collect()
    }
}

const fn wants(tenant: u64, slots: u32) -> Demand {
    Demand { tenant, weight: 1, slots }
}

#[test]
fn a_hundred_gateways_use_all_slots_and_never_more_while_demand_moves_about() {
    for seed in 0..2 {
        let mut fleet = Fleet::new(1000, 100, seed);
        for _ in 0..8 {
            for index in 0..100 {
                let (tenant, slots) =
                    (fleet.random() % 30, u32::try_from(fleet.random() % 60).expect("small"));
                fleet.gateways[index].demands = vec![wants(tenant, slots)];
            }
            // Two rounds: in the first, slots are given back; in the second, they are taken.
            fleet.run(3 * EVERY);
            let wanted: u32 = fleet.gateways.iter().map(|gateway| gateway.demands[0].slots).sum();
            let held: u32 = fleet.slots().iter().sum();
            assert!(held >= wanted.min(1000) * 9 / 10, "seed {seed}: {held} of {wanted} wanted are held");
        }
    }
}

#[test]
fn an_elephant_at_all_gateways_takes_nothing_from_a_victim_at_one() {
    let mut fleet = Fleet::new(400, 100, 1);
    fleet.gateways.iter_mut().for_each(|gateway| gateway.demands = vec![wants(1, 40)]);
    fleet.run(10 * EVERY);
    fleet.gateways[7].demands.push(wants(2, 25));
    fleet.run(5 * EVERY);
    assert!(fleet.slots()[7] > 25, "{}", fleet.slots()[7]);
    assert_eq!(fleet.slots().iter().sum::<u32>(), 400);
}

#[test]
fn the_slots_of_a_gateway_that_died_are_back_within_two_seconds() {
    let mut fleet = Fleet::new(20, 3, 2);
    fleet.gateways[0].demands = vec![wants(1, 200)];
    fleet.gateways[1].demands = vec![wants(2, 200)];
    fleet.gateways[2].demands = vec![wants(3, 200)];
    fleet.run(10 * EVERY);
    assert_eq!(fleet.slots().iter().sum::<u32>(), 20);
    fleet.gateways[0].is_alive = false;
    // Others hear of its end, too, when its slots end.
    let lasts = u64::try_from(Held::LASTS.as_millis()).expect("short");
    fleet.run(lasts + EVERY);
    fleet.gateways[0].told.clear();
    fleet.run(2000 - lasts - EVERY);
    let left: u32 = fleet.slots()[1..].iter().sum();
    assert!(left >= 19, "{left} of 20 slots are in use two seconds later");
}

#[test]
fn without_the_store_each_gateway_keeps_what_it_has() {
    let mut fleet = Fleet::new(100, 10, 3);
    fleet.gateways[4].demands = vec![wants(1, 70)];
    fleet.run(10 * EVERY);
    let before = fleet.slots();
    fleet.has_store = false;
    fleet.gateways[5].demands = vec![wants(2, 70)];
    fleet.run(20_000);
    assert_eq!(fleet.slots(), before);
    fleet.has_store = true;
    fleet.run(2000);
    assert!(fleet.slots()[5] >= 40, "{:?}", fleet.slots());
}
