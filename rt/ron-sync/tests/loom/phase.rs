//! Models of the shutdown phases.

use super::{model, poll_once};
use loom::{future::block_on, thread};
use ron_sync::phase::{Phase, PhaseCell, Stage};

const READINESS: Phase = Phase::Draining(Stage::Readiness);

#[test]
fn waiters_that_register_during_an_advance_never_miss_it() {
    model(|| {
        let cell = PhaseCell::new();
        let waiters = [READINESS, Phase::Aborting].map(|target| {
            let reached = cell.reached(target);
            thread::spawn(move || block_on(reached))
        });

        assert!(cell.advance(Phase::Aborting));

        for waiter in waiters {
            waiter.join().unwrap();
        }
        assert_eq!(cell.waiting(), 0);
    });
}

#[test]
fn a_waiter_sleeps_through_the_advances_before_its_own() {
    model(|| {
        let cell = PhaseCell::new();
        let (reached, seen) = (cell.reached(Phase::Stopped), cell.clone());
        let waiter = thread::spawn(move || {
            block_on(reached);
            seen.get()
        });

        assert!(cell.advance(READINESS));
        assert!(cell.advance(Phase::Stopped));

        assert_eq!(waiter.join().unwrap(), Phase::Stopped);
    });
}

#[test]
fn two_advancers_never_move_the_phase_back() {
    model(|| {
        let cell = PhaseCell::new();
        let (one, two) = (cell.clone(), cell.clone());
        let earlier = thread::spawn(move || one.advance(READINESS));
        let later = thread::spawn(move || two.advance(Phase::Aborting));

        let readings = [cell.get(), cell.get()];

        assert!(readings.is_sorted(), "went back: {readings:?}");
        assert!(later.join().unwrap());
        assert_eq!(cell.get(), Phase::Aborting);
        earlier.join().unwrap();
        assert_eq!(cell.get(), Phase::Aborting);
    });
}

#[test]
fn of_two_advancers_to_one_phase_exactly_one_changes_it() {
    model(|| {
        let cell = PhaseCell::new();
        let other = cell.clone();
        let racing = thread::spawn(move || other.advance(READINESS));

        let changed = cell.advance(READINESS);

        assert_ne!(changed, racing.join().unwrap());
    });
}

#[test]
fn a_waiter_dropped_during_an_advance_does_not_free_anothers_seat() {
    model(|| {
        let cell = PhaseCell::new();
        let mut dropped = cell.reached(READINESS);
        assert!(poll_once(&mut dropped).is_pending());
        let advancing = cell.clone();
        let advance = thread::spawn(move || advancing.advance(READINESS));
        // May sit down on the seat that the advance frees.
        let reached = cell.reached(Phase::Stopped);
        let waiter = thread::spawn(move || block_on(reached));

        drop(dropped);

        assert!(advance.join().unwrap());
        assert!(cell.advance(Phase::Stopped));
        waiter.join().unwrap();
        assert_eq!(cell.waiting(), 0);
    });
}
