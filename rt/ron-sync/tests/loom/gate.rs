//! Models of the admission gate.

use super::{model, poll_once};
use loom::{
    future::block_on,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    thread,
};
use ron_sync::gate::{Denied, Fifo, Gate, Room, TicketId, Verdict};
use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

/// Counts those inside, and notices one too many.
#[derive(Default)]
struct Inside(AtomicUsize);

impl Inside {
    fn visit(&self, limit: usize) {
        assert!(self.0.fetch_add(1, SeqCst) < limit, "above the limit");
        thread::yield_now();
        self.0.fetch_sub(1, SeqCst);
    }
}

/// A room for one, where a newcomer takes the place of whoever is there.
#[derive(Default)]
struct Newest(VecDeque<TicketId>);

impl Room for Newest {
    type Key = ();
    type Stay = ();
    type Denial = ();

    fn walk_in((): ()) {}

    fn push(&mut self, (): (), id: TicketId) -> Verdict<()> {
        self.0.push_back(id);
        if self.0.len() == 1 {
            return Verdict::Queued;
        }
        self.0.pop_front().map_or(Verdict::Queued, |loser| Verdict::Evicted(loser, ()))
    }

    fn pop(&mut self, _: u32) -> Option<(TicketId, ())> {
        self.0.pop_front().map(|id| (id, ()))
    }

    fn cancel(&mut self, id: TicketId) {
        self.0.retain(|&queued| queued != id);
    }

    fn returned(&mut self, (): ()) {}
}

fn assert_empty<R: Room>(gate: &Gate<R>) {
    assert_eq!((gate.inflight(), gate.waiters()), (0, 0));
}

#[test]
fn an_arrival_racing_the_release_it_needs_gets_the_slot() {
    model(|| {
        let gate = Gate::new(1, Fifo::new(1));
        let permit = gate.try_enter(()).unwrap();
        let arriving = Arc::clone(&gate);
        let arrival = thread::spawn(move || drop(block_on(arriving.enter(())).unwrap()));

        drop(permit);

        arrival.join().unwrap();
        assert_empty(&gate);
    });
}

#[test]
fn holders_of_a_single_slot_exclude_and_see_each_other() {
    model(|| {
        let gate = Gate::new(1, Fifo::new(2));
        // Relaxed: only the gate orders these steps, so a missing barrier loses an increment.
        let visits = Arc::new(AtomicU32::new(0));
        let visit = |gate: &Arc<Gate<Fifo>>, visits: &AtomicU32| {
            let _permit = block_on(gate.enter(())).unwrap();
            visits.store(visits.load(Relaxed) + 1, Relaxed);
        };
        let others = [(); 2].map(|()| {
            let (gate, visits) = (Arc::clone(&gate), Arc::clone(&visits));
            thread::spawn(move || visit(&gate, &visits))
        });

        visit(&gate, &visits);

        for other in others {
            other.join().unwrap();
        }
        assert_eq!(visits.load(Relaxed), 3);
        assert_empty(&gate);
    });
}

#[test]
fn fast_and_slow_entries_together_stay_within_the_limit() {
    model(|| {
        let (gate, inside) = (Gate::new(1, Fifo::new(2)), Arc::new(Inside::default()));
        let (fast_gate, fast_inside) = (Arc::clone(&gate), Arc::clone(&inside));
        let fast = thread::spawn(move || {
            if let Ok(_permit) = fast_gate.try_enter(()) {
                fast_inside.visit(1);
            }
        });
        let (slow_gate, slow_inside) = (Arc::clone(&gate), Arc::clone(&inside));
        let slow = thread::spawn(move || {
            let _permit = block_on(slow_gate.enter(())).unwrap();
            slow_inside.visit(1);
        });

        let permit = block_on(gate.enter(())).unwrap();
        inside.visit(1);
        drop(permit);

        fast.join().unwrap();
        slow.join().unwrap();
        assert_empty(&gate);
    });
}

#[test]
fn a_cancel_racing_the_hand_over_neither_loses_nor_doubles_the_slot() {
    model(|| {
        let gate = Gate::new(1, Fifo::new(1));
        let permit = gate.try_enter(()).unwrap();
        let mut entry = gate.enter(());
        assert!(poll_once(&mut entry).is_pending());
        let cancel = thread::spawn(move || drop(entry));

        drop(permit);

        cancel.join().unwrap();
        assert_empty(&gate);
        assert!(gate.try_enter(()).is_ok());
    });
}

#[test]
fn a_granted_ticket_that_is_dropped_hands_its_slot_to_the_next() {
    model(|| {
        let gate = Gate::new(1, Fifo::new(2));
        let permit = gate.try_enter(()).unwrap();
        let mut first_in_line = gate.enter(());
        assert!(poll_once(&mut first_in_line).is_pending());
        let waiting = Arc::clone(&gate);
        let next = thread::spawn(move || drop(block_on(waiting.enter(())).unwrap()));
        let release = thread::spawn(move || drop(permit));

        drop(first_in_line);

        release.join().unwrap();
        next.join().unwrap();
        assert_empty(&gate);
    });
}

#[test]
fn raising_the_limit_during_a_release_admits_everyone_within_it() {
    model(|| {
        let (gate, inside) = (Gate::new(1, Fifo::new(2)), Arc::new(Inside::default()));
        let permit = gate.try_enter(()).unwrap();
        let (arriving, other_inside) = (Arc::clone(&gate), Arc::clone(&inside));
        let arrival = thread::spawn(move || {
            let _permit = block_on(arriving.enter(())).unwrap();
            other_inside.visit(2);
        });
        let raising = Arc::clone(&gate);
        let raise = thread::spawn(move || raising.set_limit(2));

        drop(permit);
        let permit = block_on(gate.enter(())).unwrap();
        inside.visit(2);
        drop(permit);

        raise.join().unwrap();
        arrival.join().unwrap();
        assert_empty(&gate);
    });
}

#[test]
fn raising_the_limit_alone_admits_a_racing_arrival() {
    model(|| {
        let gate = Gate::new(0, Fifo::new(1));
        let arriving = Arc::clone(&gate);
        let arrival = thread::spawn(move || drop(block_on(arriving.enter(())).unwrap()));

        gate.set_limit(1);

        arrival.join().unwrap();
        assert_empty(&gate);
    });
}

#[test]
fn once_the_limit_is_lowered_inflight_does_not_rise_above_it() {
    model(|| {
        let gate = Gate::new(2, Fifo::new(2));
        let entries = [(); 2].map(|()| {
            let gate = Arc::clone(&gate);
            thread::spawn(move || gate.try_enter(()).ok())
        });

        gate.set_limit(1);
        let at_the_change = gate.inflight();

        let permits = entries.map(|entry| entry.join().unwrap());
        assert!(gate.inflight() <= at_the_change.max(1));
        drop(permits);
        assert_empty(&gate);
    });
}

#[test]
fn lowering_the_limit_during_a_release_lets_inflight_fall_before_it_admits() {
    model(|| {
        let gate = Gate::new(2, Fifo::new(1));
        let (one, two) = (gate.try_enter(()).unwrap(), gate.try_enter(()).unwrap());
        let mut entry = gate.enter(());
        assert!(poll_once(&mut entry).is_pending());
        let lowering = Arc::clone(&gate);
        let lower = thread::spawn(move || lowering.set_limit(1));

        let was_lowered = gate.limit() == 1;
        drop(one);

        lower.join().unwrap();
        match (gate.inflight(), gate.waiters()) {
            (1, 1) => {}
            (2, 0) => assert!(!was_lowered, "handed over above the limit"),
            other => panic!("a slot was lost or doubled: {other:?}"),
        }
        drop(two);
        assert_eq!((gate.inflight(), gate.waiters()), (1, 0));
        assert!(poll_once(&mut entry).is_ready());
        assert_empty(&gate);
    });
}

#[test]
fn a_close_denies_whoever_waits_or_arrives() {
    model(|| {
        let gate = Gate::new(1, Fifo::new(1));
        let permit = gate.try_enter(()).unwrap();
        let arriving = Arc::clone(&gate);
        let arrival = thread::spawn(move || block_on(arriving.enter(())).map(drop));

        gate.close();

        assert_eq!(arrival.join().unwrap(), Err(Denied::Closed));
        assert_eq!((gate.inflight(), gate.waiters()), (1, 0));
        drop(permit);
        assert!(gate.try_enter(()).is_err());
        assert_empty(&gate);
    });
}

#[test]
fn a_close_racing_a_release_settles_the_ticket_once() {
    model(|| {
        let gate = Gate::new(1, Fifo::new(1));
        let permit = gate.try_enter(()).unwrap();
        let arriving = Arc::clone(&gate);
        let arrival = thread::spawn(move || block_on(arriving.enter(())).map(drop));
        let closing = Arc::clone(&gate);
        let close = thread::spawn(move || closing.close());

        drop(permit);

        close.join().unwrap();
        assert!(matches!(arrival.join().unwrap(), Ok(()) | Err(Denied::Closed)));
        assert_empty(&gate);
    });
}

#[test]
fn an_eviction_racing_a_release_denies_only_the_evicted() {
    model(|| {
        let gate = Gate::new(1, Newest::default());
        let permit = gate.try_enter(()).unwrap();
        let entries = [(); 2].map(|()| {
            let gate = Arc::clone(&gate);
            thread::spawn(move || block_on(gate.enter(())).map(drop))
        });

        drop(permit);

        let outcomes = entries.map(|entry| entry.join().unwrap());
        assert!(outcomes.contains(&Ok(())), "nobody got the slot: {outcomes:?}");
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Ok(()) | Err(Denied::Evicted(())))));
        assert_empty(&gate);
    });
}
