//! The admission gate through its public surface.

use crate::support::Task;
use ron_sync::gate::{Denied, Enter, Fifo, Gate, Permit, Room, TicketId, Verdict};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    task::Poll,
    thread,
};

/// `inflight`, `waiters`, `limit`.
fn counts<R: Room>(gate: &Gate<R>) -> (u32, u32, u32) {
    (gate.inflight(), gate.waiters(), gate.limit())
}

/// An entry that had to wait, and its task.
fn waiting<R: Room<Key = (), Stay = (), Denial = ()>>(gate: &Arc<Gate<R>>) -> (Enter<R>, Task) {
    let (mut entry, task) = (gate.enter(()), Task::new());
    assert!(task.poll(&mut entry).is_pending());
    (entry, task)
}

fn granted<R: Room<Denial = ()>>((entry, task): &mut (Enter<R>, Task)) -> Permit<R> {
    match task.poll(entry) {
        Poll::Ready(Ok(permit)) => permit,
        other => panic!("expected a permit, got {other:?}"),
    }
}

fn denied<R: Room<Denial = ()>>((entry, task): &mut (Enter<R>, Task)) -> Denied<()> {
    match task.poll(entry) {
        Poll::Ready(Err(denied)) => denied,
        other => panic!("expected a denial, got {other:?}"),
    }
}

#[test]
fn the_last_slot_admits_and_the_next_entry_does_not() {
    let gate = Gate::new(2, Fifo::new(0));
    let (one, two) = (gate.try_enter(()).ok(), gate.try_enter(()).ok());
    assert!(one.is_some() && two.is_some());
    assert!(gate.try_enter(()).is_err());
    assert_eq!(counts(&gate), (2, 0, 2));
    drop(one);
    assert!(gate.try_enter(()).is_ok());
}

#[test]
fn the_last_place_in_the_room_is_taken_and_the_next_newcomer_is_refused() {
    let gate = Gate::new(1, Fifo::new(2));
    let permit = gate.try_enter(()).ok();
    let (_first, _second) = (waiting(&gate), waiting(&gate));
    assert_eq!(denied(&mut (gate.enter(()), Task::new())), Denied::Refused(()));
    assert_eq!(counts(&gate), (1, 2, 1));
    drop(permit);
    let _third = waiting(&gate);
    assert_eq!(counts(&gate), (1, 2, 1));
}

#[test]
fn a_release_hands_its_slot_to_the_first_in_line_and_nobody_slips_in() {
    let gate = Gate::new(1, Fifo::new(2));
    let permit = gate.try_enter(()).ok();
    let (mut first, mut second) = (waiting(&gate), waiting(&gate));
    drop(permit);
    assert_eq!((first.1.wakes(), second.1.wakes()), (1, 0));
    assert_eq!(counts(&gate), (1, 1, 1));
    assert!(gate.try_enter(()).is_err());
    drop(granted(&mut first));
    assert_eq!((first.1.wakes(), second.1.wakes()), (1, 1));
    drop(granted(&mut second));
    assert_eq!(counts(&gate), (0, 0, 1));
}

#[test]
fn an_entry_that_was_never_polled_takes_no_place() {
    let gate = Gate::new(0, Fifo::new(1));
    drop(gate.enter(()));
    assert_eq!(counts(&gate), (0, 0, 0));
}

#[test]
fn a_ticket_dropped_in_the_room_is_skipped() {
    let gate = Gate::new(1, Fifo::new(2));
    let permit = gate.try_enter(()).ok();
    let (first, mut second) = (waiting(&gate), waiting(&gate));
    drop(first);
    assert_eq!(gate.waiters(), 1);
    drop(permit);
    drop(granted(&mut second));
    assert_eq!(counts(&gate), (0, 0, 1));
}

#[test]
fn a_granted_ticket_dropped_before_its_poll_passes_the_slot_on() {
    let gate = Gate::new(1, Fifo::new(2));
    let permit = gate.try_enter(()).ok();
    let (first, mut second) = (waiting(&gate), waiting(&gate));
    drop(permit);
    drop(first);
    assert_eq!(second.1.wakes(), 1);
    drop(granted(&mut second));
    assert_eq!(counts(&gate), (0, 0, 1));
}

#[test]
fn raising_the_limit_admits_as_many_as_it_was_raised_by() {
    let gate = Gate::new(0, Fifo::new(3));
    let mut entries = [waiting(&gate), waiting(&gate), waiting(&gate)];
    gate.set_limit(2);
    assert_eq!(entries.each_ref().map(|(_, task)| task.wakes()), [1, 1, 0]);
    assert_eq!(counts(&gate), (2, 1, 2));
    let _permits = (granted(&mut entries[0]), granted(&mut entries[1]));
    assert_eq!(counts(&gate), (2, 1, 2));
}

#[test]
fn a_lowered_limit_lets_inflight_fall_to_it_before_it_admits_again() {
    let gate = Gate::new(3, Fifo::new(1));
    let mut permits = [gate.try_enter(()).ok(), gate.try_enter(()).ok(), gate.try_enter(()).ok()];
    let mut entry = waiting(&gate);
    gate.set_limit(1);
    permits[0] = None;
    assert_eq!(counts(&gate), (2, 1, 1));
    permits[1] = None;
    assert_eq!((counts(&gate), entry.1.wakes()), ((1, 1, 1), 0));
    permits[2] = None;
    assert_eq!((counts(&gate), entry.1.wakes()), ((1, 0, 1), 1));
    drop(granted(&mut entry));
    assert_eq!(counts(&gate), (0, 0, 1));
}

#[test]
fn a_close_denies_the_waiting_and_the_new_but_not_the_granted() {
    let gate = Gate::new(1, Fifo::new(2));
    let permit = gate.try_enter(()).ok();
    let (mut first, mut second) = (waiting(&gate), waiting(&gate));
    drop(permit);
    assert!(!gate.is_closed());
    gate.close();
    assert!(gate.is_closed());
    assert_eq!(second.1.wakes(), 1);
    assert_eq!(denied(&mut second), Denied::Closed);
    drop(granted(&mut first));
    assert_eq!(counts(&gate), (0, 0, 1));
    assert!(gate.try_enter(()).is_err());
    assert_eq!(denied(&mut (gate.enter(()), Task::new())), Denied::Closed);
}

/// A stack of one: the newcomer sheds whoever waits. Holds its ticket back while `held`.
#[derive(Default)]
struct Lone {
    ticket: Option<TicketId>,
    held: Arc<AtomicU32>,
}

impl Room for Lone {
    type Key = ();
    type Stay = ();
    type Denial = ();

    fn walk_in((): ()) {}

    fn push(&mut self, (): (), id: TicketId) -> Verdict<()> {
        self.ticket.replace(id).map_or(Verdict::Queued, |loser| Verdict::Evicted(loser, ()))
    }

    fn pop(&mut self, _: u32) -> Option<(TicketId, ())> {
        if self.held.load(SeqCst) > 0 { None } else { self.ticket.take().map(|id| (id, ())) }
    }

    fn cancel(&mut self, id: TicketId) {
        assert_eq!(self.ticket.take(), Some(id), "only a waiting ticket is cancelled");
    }

    fn returned(&mut self, (): ()) {}
}

#[test]
fn an_evicted_ticket_is_shed_and_its_place_is_the_newcomers() {
    let gate = Gate::new(1, Lone::default());
    let permit = gate.try_enter(()).ok();
    let mut loser = waiting(&gate);
    let mut newcomer = waiting(&gate);
    assert_eq!(counts(&gate), (1, 1, 1));
    assert_eq!((loser.1.wakes(), newcomer.1.wakes()), (1, 0));
    assert_eq!(denied(&mut loser), Denied::Evicted(()));
    drop(permit);
    drop(granted(&mut newcomer));
    assert_eq!(counts(&gate), (0, 0, 1));
}

#[test]
fn a_shed_ticket_that_is_dropped_unseen_gives_nothing_back() {
    let gate = Gate::new(1, Lone::default());
    let permit = gate.try_enter(()).ok();
    let loser = waiting(&gate);
    let _newcomer = waiting(&gate);
    drop(loser);
    assert_eq!(counts(&gate), (1, 1, 1));
    drop(permit);
    assert_eq!(counts(&gate), (1, 0, 1));
}

#[test]
fn a_room_that_holds_back_is_asked_again_at_the_next_change() {
    let held = Arc::new(AtomicU32::new(1));
    let gate = Gate::new(1, Lone { ticket: None, held: Arc::clone(&held) });
    let permit = gate.try_enter(()).ok();
    let mut entry = waiting(&gate);
    drop(permit);
    assert_eq!((counts(&gate), entry.1.wakes()), ((0, 1, 1), 0));
    assert!(gate.try_enter(()).is_err(), "nobody overtakes a ticket that is held back");
    held.store(0, SeqCst);
    gate.set_limit(1);
    assert_eq!((counts(&gate), entry.1.wakes()), ((1, 0, 1), 1));
    drop(granted(&mut entry));
    assert_eq!(counts(&gate), (0, 0, 1));
}

#[test]
fn permits_and_entries_can_move_to_other_threads() {
    fn assert_send<T: Send + 'static>() {}
    assert_send::<Permit<Fifo>>();
    assert_send::<Enter<Fifo>>();
    assert_send::<Arc<Gate<Fifo>>>();
}

#[test]
fn threads_in_a_hurry_stay_within_the_limit_and_leave_it_empty() {
    const LIMIT: u32 = 2;
    let gate = Gate::new(LIMIT, Fifo::new(1));
    let inside = AtomicU32::new(0);
    thread::scope(|scope| {
        for worker in 0..4 {
            let (gate, inside) = (&gate, &inside);
            scope.spawn(move || {
                for round in 0..5_000 {
                    let mut entry = gate.enter(());
                    let task = Task::new();
                    let mut outcome = task.poll(&mut entry);
                    // Some give up at once, so that cancels race hand-overs too.
                    while outcome.is_pending() && (round + worker) % 3 != 0 {
                        thread::yield_now();
                        outcome = task.poll(&mut entry);
                    }
                    if let Poll::Ready(Ok(_permit)) = outcome {
                        assert!(inside.fetch_add(1, SeqCst) < LIMIT);
                        inside.fetch_sub(1, SeqCst);
                    }
                }
            });
        }
    });
    assert_eq!(counts(&gate), (0, 0, LIMIT));
}
