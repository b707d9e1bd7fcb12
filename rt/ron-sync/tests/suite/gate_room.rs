//! What the gate tells its room, and what the room can ask of the gate.

use crate::support::Task;
use ron_sync::gate::{Denied, Enter, Gate, Permit, Room, TicketId, Verdict};
use std::{collections::VecDeque, sync::Arc, task::Poll};

/// A newcomer with a name; some must be seen by the room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guest {
    Walker(&'static str),
    Seen(&'static str),
}

/// Who stays, and how it came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stay {
    name: &'static str,
    seen: bool,
}

/// First come, first served for two, with a note of all that happened. A third takes the place of the first.
#[derive(Default)]
struct Recorder {
    waiting: VecDeque<(TicketId, &'static str)>,
    held_back: bool,
    returned: Vec<Stay>,
}

impl Room for Recorder {
    type Key = Guest;
    type Stay = Stay;
    type Denial = &'static str;

    fn walks_in(key: &Guest) -> bool {
        matches!(key, Guest::Walker(_))
    }

    fn walk_in(key: Guest) -> Stay {
        let (Guest::Walker(name) | Guest::Seen(name)) = key;
        Stay { name, seen: false }
    }

    fn must_hear(stay: &Stay) -> bool {
        stay.seen
    }

    fn push(&mut self, key: Guest, id: TicketId) -> Verdict<&'static str> {
        let (Guest::Walker(name) | Guest::Seen(name)) = key;
        if name == "unwelcome" {
            return Verdict::Refused("not you");
        }
        self.waiting.push_back((id, name));
        match self.waiting.len() {
            3.. => self.waiting.pop_front().map_or(Verdict::Queued, |(id, name)| Verdict::Evicted(id, name)),
            _ => Verdict::Queued,
        }
    }

    fn pop(&mut self, _: u32) -> Option<(TicketId, Stay)> {
        let (id, name) = if self.held_back { None } else { self.waiting.pop_front() }?;
        Some((id, Stay { name, seen: true }))
    }

    fn cancel(&mut self, id: TicketId) {
        self.waiting.retain(|(waiting, _)| *waiting != id);
    }

    fn returned(&mut self, stay: Stay) {
        self.returned.push(stay);
    }
}

fn gate(limit: u32) -> Arc<Gate<Recorder>> {
    Gate::new(limit, Recorder::default())
}

fn enter(gate: &Arc<Gate<Recorder>>, guest: Guest) -> (Enter<Recorder>, Task) {
    (gate.enter(guest), Task::new())
}

fn poll((entry, task): &mut (Enter<Recorder>, Task)) -> Poll<Result<Permit<Recorder>, Denied<&'static str>>> {
    task.poll(entry)
}

fn granted(entry: &mut (Enter<Recorder>, Task)) -> Permit<Recorder> {
    match poll(entry) {
        Poll::Ready(Ok(permit)) => permit,
        other => panic!("expected a permit, got {other:?}"),
    }
}

fn names(gate: &Gate<Recorder>) -> Vec<&'static str> {
    gate.with_room(|room| room.returned.iter().map(|stay| stay.name).collect())
}

#[test]
fn a_walker_comes_and_goes_unseen_while_nobody_waits() {
    let gate = gate(1);
    let permit = gate.try_enter(Guest::Walker("w")).expect("a free slot");
    assert_eq!(permit.stay(), &Stay { name: "w", seen: false });
    drop(permit);
    assert_eq!(names(&gate), [""; 0]);
}

#[test]
fn the_room_hears_of_a_walker_whose_slot_somebody_waits_for_before_it_chooses() {
    let gate = gate(1);
    let permit = gate.try_enter(Guest::Walker("w")).expect("a free slot");
    let mut next = enter(&gate, Guest::Walker("next"));
    assert!(poll(&mut next).is_pending());
    drop(permit);
    assert_eq!(names(&gate), ["w"]);
    assert_eq!(granted(&mut next).stay(), &Stay { name: "next", seen: true });
}

#[test]
fn who_must_be_seen_does_not_walk_in_but_gets_a_free_slot_at_once() {
    let gate = gate(1);
    assert_eq!(gate.try_enter(Guest::Seen("s")).err(), Some(Guest::Seen("s")));
    let mut entry = enter(&gate, Guest::Seen("s"));
    let permit = granted(&mut entry);
    assert_eq!((entry.1.wakes(), gate.inflight(), gate.waiters()), (0, 1, 0), "no wake was needed");
    drop(permit);
    assert_eq!(names(&gate), ["s"], "nobody waited, and the room heard of it all the same");
    assert_eq!(gate.inflight(), 0);
}

#[test]
fn a_grant_that_is_dropped_unseen_is_returned_to_the_room() {
    let gate = gate(1);
    let permit = gate.try_enter(Guest::Walker("w")).expect("a free slot");
    let mut next = enter(&gate, Guest::Walker("next"));
    assert!(poll(&mut next).is_pending());
    drop(permit);
    drop(next);
    assert_eq!(names(&gate), ["w", "next"]);
    assert_eq!((gate.inflight(), gate.waiters()), (0, 0));
}

#[test]
fn denials_carry_what_the_room_says() {
    let gate = gate(0);
    let mut entries = ["a", "b"].map(|name| enter(&gate, Guest::Walker(name)));
    assert!(entries.iter_mut().all(|entry| poll(entry).is_pending()));
    let denial = |entry: &mut (Enter<Recorder>, Task)| match poll(entry) {
        Poll::Ready(Err(denied)) => denied,
        other => panic!("expected a denial, got {other:?}"),
    };
    assert_eq!(denial(&mut enter(&gate, Guest::Walker("unwelcome"))), Denied::Refused("not you"));
    assert!(poll(&mut enter(&gate, Guest::Walker("c"))).is_pending());
    assert_eq!(denial(&mut entries[0]), Denied::Evicted("a"));
    gate.close();
    assert_eq!(denial(&mut entries[1]), Denied::Closed);
}

#[test]
fn a_visit_that_lets_tickets_go_admits_them_at_once() {
    let gate = gate(2);
    gate.with_room(|room| room.held_back = true);
    let mut entries = ["a", "b"].map(|name| enter(&gate, Guest::Seen(name)));
    assert!(entries.iter_mut().all(|entry| poll(entry).is_pending()));
    assert_eq!((gate.inflight(), gate.waiters()), (0, 2));
    assert_eq!(gate.with_room(|room| room.waiting.len()), 2, "looking changes nothing");
    gate.with_room(|room| room.held_back = false);
    assert_eq!(entries.each_ref().map(|(_, task)| task.wakes()), [1, 1]);
    assert_eq!((gate.inflight(), gate.waiters()), (2, 0));
}
