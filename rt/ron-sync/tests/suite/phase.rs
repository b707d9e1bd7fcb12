//! The shutdown phases through their public surface.

use crate::support::Task;
use ron_sync::phase::{Phase, PhaseCell, Stage};
use std::task::Poll;

const READINESS: Phase = Phase::Draining(Stage::Readiness);
const INTAKE: Phase = Phase::Draining(Stage::Intake);

#[test]
fn the_sequence_runs_forward_through_every_stage() {
    let cell = PhaseCell::new();
    assert_eq!(cell.get(), Phase::Running);
    let stages = [Stage::Readiness, Stage::Intake, Stage::Workers, Stage::Writers, Stage::Support];
    for phase in stages.map(Phase::Draining).into_iter().chain([Phase::Aborting, Phase::Stopped]) {
        assert!(cell.advance(phase));
        assert_eq!(cell.clone().get(), phase);
        assert!(!cell.advance(phase), "advancing to the current phase changes nothing");
        assert!(!cell.advance(Phase::Running), "the phase never goes back");
    }
}

#[test]
fn a_future_for_the_current_phase_or_an_earlier_one_is_ready_at_once() {
    let cell = PhaseCell::new();
    assert_eq!(Task::new().poll(&mut cell.reached(Phase::Running)), Poll::Ready(()));
    cell.advance(INTAKE);
    assert_eq!(Task::new().poll(&mut cell.reached(READINESS)), Poll::Ready(()));
    assert_eq!(Task::new().poll(&mut cell.reached(INTAKE)), Poll::Ready(()));
    assert_eq!(cell.waiting(), 0);
}

#[test]
fn an_advance_wakes_those_whose_phase_has_come_and_no_others() {
    let cell = PhaseCell::new();
    let mut waiting: Vec<_> = [READINESS, INTAKE, Phase::Aborting, Phase::Stopped]
        .map(|target| (cell.reached(target), Task::new()))
        .into();
    for (reached, task) in &mut waiting {
        assert!(task.poll(reached).is_pending());
    }
    assert_eq!(cell.waiting(), 4);
    assert!(cell.advance(Phase::Aborting));
    assert_eq!(cell.waiting(), 1);
    let wakes: Vec<_> = waiting.iter().map(|(_, task)| task.wakes()).collect();
    assert_eq!(wakes, [1, 1, 1, 0]);
    let ready: Vec<_> = waiting.iter_mut().map(|(reached, task)| task.poll(reached).is_ready()).collect();
    assert_eq!(ready, [true, true, true, false]);
}

#[test]
fn a_dropped_future_gives_its_seat_back_and_only_its_own() {
    let cell = PhaseCell::new();
    let (task, mut early, mut late) = (Task::new(), cell.reached(READINESS), cell.reached(Phase::Stopped));
    assert!(task.poll(&mut early).is_pending());
    cell.advance(READINESS);
    assert!(task.poll(&mut late).is_pending(), "sits where the early one sat");
    drop(early);
    assert_eq!(cell.waiting(), 1);
    drop(late);
    assert_eq!(cell.waiting(), 0);
}

#[test]
fn the_waker_of_the_latest_poll_is_the_one_that_is_woken() {
    let cell = PhaseCell::new();
    let (before, after, mut reached) = (Task::new(), Task::new(), cell.reached(READINESS));
    assert!(before.poll(&mut reached).is_pending());
    assert!(after.poll(&mut reached).is_pending() && after.poll(&mut reached).is_pending());
    assert_eq!(cell.waiting(), 1);
    cell.advance(READINESS);
    assert_eq!((before.wakes(), after.wakes()), (0, 1));
}

#[test]
fn ten_thousand_waiters_are_each_woken_once() {
    let cell = PhaseCell::new();
    let task = Task::new();
    let mut waiting: Vec<_> = (0..10_000).map(|_| cell.reached(INTAKE)).collect();
    assert!(waiting.iter_mut().all(|reached| task.poll(reached).is_pending()));
    assert_eq!(cell.waiting(), 10_000);
    cell.advance(READINESS);
    assert_eq!((cell.waiting(), task.wakes()), (10_000, 0));
    cell.advance(Phase::Stopped);
    assert_eq!((cell.waiting(), task.wakes()), (0, 10_000));
}
