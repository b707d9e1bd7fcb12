//! The gate with a fair room: the way the two are meant to be put together.

#[path = "support/fair.rs"]
mod fair;
use crate::support::Task;
use fair::{FairRoom, Guest};
use fairq::Settings;
use ron_sync::gate::{Denied, Enter, Gate, Permit};
use std::{sync::Arc, task::Poll, time::Duration};

const SLOTS: u32 = 5;

fn gate(room: usize) -> Arc<Gate<FairRoom>> {
    let settings = Settings { slots: SLOTS, room, ..Settings::default() };
    Gate::new(SLOTS, FairRoom::new(settings))
}

fn quick(tenant: u32) -> Guest {
    Guest { tenant, estimate: Duration::from_millis(10) }
}

fn slow(tenant: u32) -> Guest {
    Guest { tenant, estimate: Duration::from_secs(1) }
}

/// Enters at once.
fn inside(gate: &Arc<Gate<FairRoom>>, guest: Guest) -> Permit<FairRoom> {
    match Task::new().poll(&mut gate.enter(guest)) {
        Poll::Ready(Ok(permit)) => permit,
        other => panic!("expected a permit, got {other:?}"),
    }
}

/// An entry that has to wait, and its task.
fn waiting(gate: &Arc<Gate<FairRoom>>, guest: Guest) -> (Enter<FairRoom>, Task) {
    let (mut entry, task) = (gate.enter(guest), Task::new());
    assert!(task.poll(&mut entry).is_pending());
    (entry, task)
}

#[test]
fn a_slot_goes_to_the_tenant_that_has_had_less() {
    let gate = gate(10);
    let mut permits: Vec<_> = (0..SLOTS).map(|_| inside(&gate, quick(1))).collect();
    let (same, other) = (waiting(&gate, quick(1)), waiting(&gate, quick(2)));
    gate.with_room(|room| room.pass(Duration::from_millis(10)));
    permits.pop();
    assert_eq!((same.1.wakes(), other.1.wakes()), (0, 1), "the first tenant was just charged for the slot");
}

#[test]
fn slow_tenants_leave_a_slot_for_the_quick_and_get_theirs_back() {
    let gate = gate(10);
    let mut permits: Vec<_> = (0..4).map(|at| inside(&gate, slow(3 + at % 2))).collect();
    let held_back = waiting(&gate, slow(3));
    assert_eq!((gate.inflight(), gate.waiters()), (4, 1));
    drop(inside(&gate, quick(2)));
    assert_eq!(held_back.1.wakes(), 0);
    permits.pop();
    assert_eq!((held_back.1.wakes(), gate.inflight(), gate.waiters()), (1, 4, 0));
}

#[test]
fn a_full_room_says_when_to_return() {
    let gate = gate(1);
    let _permits: Vec<_> = (0..SLOTS).map(|_| inside(&gate, quick(1))).collect();
    let (mut first, task) = waiting(&gate, quick(1));
    let Poll::Ready(Err(Denied::Refused(retry))) = Task::new().poll(&mut gate.enter(quick(1))) else {
        panic!("the tenant has its share of the room");
    };
    assert_eq!(retry.seconds(), 1);
    let _newcomer = waiting(&gate, quick(2));
    let Poll::Ready(Err(Denied::Evicted(retry))) = task.poll(&mut first) else {
        panic!("the other tenant was below its share");
    };
    assert_eq!(retry.seconds(), 2);
}
