//! The addresses of one tenant: none of them keeps the others from the tenant's slots.

use fairq::{Arrival, Client, FairQueue, Grant, Settings, Verdict};
use proptest::prelude::*;
use std::time::Duration;
use types::Moment;

const NOW: Moment = Moment::from_nanos(1_000_000_000);
/// An address that asks for much, and one that does not.
const GREEDY: u64 = 1;
const MODEST: u64 = 2;

struct Tenant {
    queue: FairQueue<u8, (u64, usize)>,
    tickets: usize,
}

impl Tenant {
    fn new(settings: Settings) -> Self {
        Self { queue: FairQueue::new(settings, NOW).expect("sound settings"), tickets: 0 }
    }

    /// A ticket of an address, of a tenant whose requests are slow or not.
    fn push(&mut self, address: u64, slow: bool) -> Verdict<(u64, usize)> {
        let index = self.tickets;
        self.tickets += 1;
        let estimate = Duration::from_millis(if slow { 2_000 } else { 10 });
        let arrival = Arrival {
            class: 0,
            tenant: 7,
            weight: 1,
            slot_time: estimate.into(),
            extra_units: 0,
            slow,
            slots_held: 0,
        };
        let client = Client { address: Some(address), ..Client::default() };
        self.queue.push_from(client, arrival, index, (address, index), NOW)
    }

    fn pop(&mut self) -> Option<Grant<(u64, usize)>> {
        self.queue.pop(NOW)
    }
}

#[test]
fn a_modest_address_does_not_wait_behind_the_tickets_of_a_greedy_one() {
    let mut tenant = Tenant::new(Settings::default());
    (0..50).for_each(|_| assert_eq!(tenant.push(GREEDY, false), Verdict::Queued));
    assert_eq!(tenant.push(MODEST, false), Verdict::Queued);
    let order: Vec<u64> = std::iter::from_fn(|| tenant.pop()).map(|grant| grant.ticket.0).collect();
    let place = order.iter().position(|address| *address == MODEST);
    assert_eq!((order.len(), place), (51, Some(1)), "only the first ticket of the greedy one is ahead of it");
}

#[test]
fn a_greedy_address_leaves_a_slot_to_the_others_of_a_slow_tenant() {
    let mut tenant = Tenant::new(Settings { slots: 20, ..Settings::default() });
    (0..30).for_each(|_| assert_eq!(tenant.push(GREEDY, true), Verdict::Queued));
    let held: Vec<_> = std::iter::from_fn(|| tenant.pop()).collect();
    assert_eq!(held.len(), 8, "of the 10 slots that a slow tenant may hold");
    assert_eq!(tenant.push(MODEST, true), Verdict::Queued);
    let grant = tenant.pop().expect("a slot is left for it");
    assert_eq!(grant.ticket.0, MODEST);
    assert!(tenant.pop().is_none());
    tenant.queue.settle(grant.pass, NOW);
    assert!(tenant.pop().is_none(), "what the modest one returns is not the greedy one's");
    let mut held = held.into_iter();
    tenant.queue.settle(held.next().expect("some are held").pass, NOW);
    assert_eq!(tenant.pop().map(|grant| grant.ticket.0), Some(GREEDY));
}

#[test]
fn in_a_full_room_a_greedy_address_makes_place_for_a_modest_one_of_its_tenant() {
    let mut tenant = Tenant::new(Settings { room: 4, ..Settings::default() });
    (0..4).for_each(|_| assert_eq!(tenant.push(GREEDY, false), Verdict::Queued));
    assert!(matches!(tenant.push(GREEDY, false), Verdict::Busy(_)));
    let verdict = tenant.push(MODEST, false);
    assert!(matches!(verdict, Verdict::Shed { victim: (GREEDY, _), .. }), "{verdict:?}");
    assert_eq!(tenant.queue.depth(), 4);
}

#[test]
fn a_tenant_with_one_address_loses_its_oldest_ticket() {
    let mut tenant = Tenant::new(Settings { room: 3, ..Settings::default() });
    (0..3).for_each(|_| assert_eq!(tenant.push(GREEDY, false), Verdict::Queued));
    let other = Arrival {
        class: 0,
        tenant: 8,
        weight: 1,
        slot_time: Duration::from_millis(10).into(),
        extra_units: 0,
        slow: false,
        slots_held: 0,
    };
    let verdict = tenant.queue.push_from(Client::default(), other, 3, (MODEST, 3), NOW);
    assert!(matches!(verdict, Verdict::Shed { victim: (GREEDY, 0), .. }), "{verdict:?}");
}

proptest! {
    #[test]
    fn every_ticket_is_granted_shed_or_refused_once_and_nothing_is_left(
        steps in prop::collection::vec((0_u8..4, 0_u64..3, any::<bool>()), 1..300),
    ) {
        let mut tenant = Tenant::new(Settings { slots: 6, room: 12, ..Settings::default() });
        let (mut waiting, mut held) = (0_usize, Vec::new());
        for (step, address, slow) in steps {
            match step {
                0 | 1 => match tenant.push(address, slow) {
                    Verdict::Queued => waiting += 1,
                    Verdict::Shed { .. } | Verdict::Busy(_) => {}
                },
                2 if held.len() < 6 => {
                    let grant = tenant.pop();
                    waiting -= usize::from(grant.is_some());
                    held.extend(grant);
                }
                _ => if let Some(grant) = held.pop() {
                    tenant.queue.settle(grant.pass, NOW);
                },
            }
            prop_assert_eq!(tenant.queue.depth(), waiting);
        }
        held.into_iter().for_each(|grant| tenant.queue.settle(grant.pass, NOW));
        while let Some(grant) = tenant.pop() {
            waiting -= 1;
            tenant.queue.settle(grant.pass, NOW);
        }
        prop_assert_eq!((waiting, tenant.queue.depth()), (0, 0));
    }
}
