//! Models of what the gate tells its room: slots held back and let go, stays returned, denials with a word.

use super::{model, poll_once};
use loom::{future::block_on, thread};
use ron_sync::gate::{Denied, Gate, Room, TicketId, Verdict};
use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::Poll,
};

/// What became of the stays, counted outside of the model.
#[derive(Default)]
struct Tally {
    begun: AtomicUsize,
    returned: AtomicUsize,
}

/// Lets in at most `most` of those that must be seen, and whoever walks in besides. Full with two waiting.
struct HoldBack {
    most: usize,
    inside: usize,
    waiting: VecDeque<TicketId>,
    tally: Arc<Tally>,
}

impl HoldBack {
    fn new(most: usize) -> (Self, Arc<Tally>) {
        let tally = Arc::new(Tally::default());
        (Self { most, inside: 0, waiting: VecDeque::new(), tally: Arc::clone(&tally) }, tally)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Guest {
    Walker,
    Seen,
}

impl Room for HoldBack {
    type Key = Guest;
    /// How it came in.
    type Stay = Guest;
    type Denial = u8;

    fn walks_in(key: &Guest) -> bool {
        *key == Guest::Walker
    }

    fn walk_in(key: Guest) -> Guest {
        key
    }

    fn must_hear(stay: &Guest) -> bool {
        *stay == Guest::Seen
    }

    fn push(&mut self, _: Guest, id: TicketId) -> Verdict<u8> {
        self.waiting.push_back(id);
        if self.waiting.len() <= 2 {
            return Verdict::Queued;
        }
        self.waiting.pop_front().map_or(Verdict::Queued, |loser| Verdict::Evicted(loser, 7))
    }

    fn pop(&mut self, _: u32) -> Option<(TicketId, Guest)> {
        if self.inside >= self.most {
            return None;
        }
        let id = self.waiting.pop_front()?;
        self.inside += 1;
        self.tally.begun.fetch_add(1, SeqCst);
        Some((id, Guest::Seen))
    }

    fn cancel(&mut self, id: TicketId) {
        self.waiting.retain(|&waiting| waiting != id);
    }

    fn returned(&mut self, stay: Guest) {
        if stay == Guest::Seen {
            self.inside -= 1;
            self.tally.returned.fetch_add(1, SeqCst);
        }
    }
}

/// Empty, and every stay that the room began has come back to it.
fn assert_settled(gate: &Gate<HoldBack>, tally: &Tally) {
    assert_eq!((gate.inflight(), gate.waiters()), (0, 0));
    assert_eq!(tally.begun.load(SeqCst), tally.returned.load(SeqCst));
}

#[test]
fn those_held_back_get_their_turn_when_the_room_hears_of_a_return() {
    model(|| {
        let (room, tally) = HoldBack::new(1);
        // Two slots, of which those that must be seen share one.
        let gate = Gate::new(2, room);
        let entering = Arc::clone(&gate);
        let other = thread::spawn(move || drop(block_on(entering.enter(Guest::Seen)).unwrap()));

        drop(block_on(gate.enter(Guest::Seen)).unwrap());

        other.join().unwrap();
        assert_eq!(tally.begun.load(SeqCst), 2);
        assert_settled(&gate, &tally);
    });
}

#[test]
fn a_walker_racing_the_seen_loses_no_slot() {
    model(|| {
        let (room, tally) = HoldBack::new(1);
        let gate = Gate::new(1, room);
        let walking = Arc::clone(&gate);
        let walker = thread::spawn(move || drop(block_on(walking.enter(Guest::Walker)).unwrap()));

        drop(block_on(gate.enter(Guest::Seen)).unwrap());

        walker.join().unwrap();
        assert_settled(&gate, &tally);
        assert!(gate.try_enter(Guest::Walker).is_ok());
    });
}

#[test]
fn a_grant_dropped_while_it_is_made_comes_back_to_the_room() {
    model(|| {
        let (room, tally) = HoldBack::new(1);
        let gate = Gate::new(1, room);
        let permit = block_on(gate.enter(Guest::Seen)).unwrap();
        let mut entry = gate.enter(Guest::Seen);
        assert!(poll_once(&mut entry).is_pending());
        let cancel = thread::spawn(move || drop(entry));

        drop(permit);

        cancel.join().unwrap();
        assert_settled(&gate, &tally);
    });
}

#[test]
fn a_visit_that_lets_go_admits_an_arrival_on_either_side_of_it() {
    model(|| {
        let (room, tally) = HoldBack::new(0);
        let gate = Gate::new(1, room);
        let arriving = Arc::clone(&gate);
        let arrival = thread::spawn(move || drop(block_on(arriving.enter(Guest::Seen)).unwrap()));

        gate.with_room(|room| room.most = 1);

        arrival.join().unwrap();
        assert_settled(&gate, &tally);
    });
}

#[test]
fn an_evicted_ticket_hears_what_the_room_says_even_during_a_release() {
    model(|| {
        let (room, tally) = HoldBack::new(1);
        let gate = Gate::new(1, room);
        let permit = block_on(gate.enter(Guest::Seen)).unwrap();
        let mut waiting = [gate.enter(Guest::Seen), gate.enter(Guest::Seen)];
        assert!(waiting.iter_mut().all(|entry| poll_once(entry).is_pending()));
        let arriving = Arc::clone(&gate);
        let arrival = thread::spawn(move || {
            let _ = poll_once(&mut arriving.enter(Guest::Seen));
        });

        drop(permit);

        arrival.join().unwrap();
        for mut entry in waiting {
            match poll_once(&mut entry) {
                Poll::Ready(Err(denied)) => assert_eq!(denied, Denied::Evicted(7)),
                Poll::Ready(Ok(permit)) => drop(permit),
                Poll::Pending => {}
            }
        }
        assert_settled(&gate, &tally);
    });
}
