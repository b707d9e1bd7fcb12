//! Models of how work passes through a service and ends with it: producers, the queue, tasks that receive until their stage
//! of the drain has come, and the drain.
//!
//! The tasks of all services receive through [`Receiver::recv_until`], and do one of three things at the end: finish
//! what is queued (writers), refuse it (schedulers), or leave it to be found again (workers of a pool).

use super::{
    model, model_within,
    queue::{queue_of, receive_to_the_end},
};
use loom::{future::block_on, thread};
use ron_sync::{
    phase::{Phase, PhaseCell, Stage},
    queue::{Receiver, Sender},
};

const INTAKE: Phase = Phase::Draining(Stage::Intake);

/// Offers items without waiting and counts those that were refused.
fn offer(sender: &Sender<u32>, items: impl IntoIterator<Item = u32>) -> usize {
    items.into_iter().filter(|&item| sender.try_send(item).is_err()).count()
}

/// Receives until the stage, or the end of the queue.
fn work(receiver: &Receiver<u32>, phase: &PhaseCell) -> Vec<u32> {
    let mut worked = Vec::new();
    while let Some(item) = block_on(receiver.recv_until(phase.reached(INTAKE))) {
        worked.push(item);
    }
    worked
}

#[test]
fn a_writer_notices_the_drain_at_any_moment_and_finishes_what_was_taken_in() {
    model(|| {
        let (sender, receiver) = queue_of(1);
        let phase = PhaseCell::new();
        let conductor = phase.clone();
        let producer = thread::spawn(move || {
            let refused = offer(&sender, 0..2);
            // Alive until the end, so that only the drain can end the writer.
            (refused, sender)
        });
        let drain = thread::spawn(move || conductor.advance(INTAKE));

        let mut written = work(&receiver, &phase);
        receiver.close();
        written.extend(receive_to_the_end(&receiver));

        assert!(drain.join().unwrap());
        let (refused, sender) = producer.join().unwrap();
        assert_eq!(written.len() + refused, 2, "written {written:?}, refused {refused}");
        assert!(written.is_sorted_by(|earlier, later| earlier < later), "out of order: {written:?}");
        assert!(sender.is_empty() && sender.is_closed());
        assert_eq!(phase.waiting(), 0);
    });
}

#[test]
fn a_writer_behind_a_sender_that_waits_leaves_it_neither_waiting_nor_in_doubt() {
    model_within(2, || {
        let (sender, receiver) = queue_of(1);
        let phase = PhaseCell::new();
        let conductor = phase.clone();
        let producer = thread::spawn(move || [0, 1].map(|item| block_on(sender.send(item)).is_ok()));
        let drain = thread::spawn(move || conductor.advance(INTAKE));

        let mut written = work(&receiver, &phase);
        receiver.close();
        written.extend(receive_to_the_end(&receiver));

        assert!(drain.join().unwrap());
        let sent = producer.join().unwrap();
        assert_eq!(sent.map(|sent| u32::from(sent)).iter().sum::<u32>() as usize, written.len());
    });
}

#[test]
fn a_scheduler_refuses_at_most_what_the_queue_holds_and_every_request_hears_of_it() {
    model(|| {
        let (sender, receiver) = queue_of(2);
        let phase = PhaseCell::new();
        let conductor = phase.clone();
        let producer = thread::spawn(move || (offer(&sender, 0..3), sender));
        let drain = thread::spawn(move || conductor.advance(INTAKE));

        let worked = work(&receiver, &phase);
        receiver.close();
        let turned_away = receiver.drain();

        assert!(drain.join().unwrap());
        let (refused, sender) = producer.join().unwrap();
        assert!(turned_away.len() <= 2);
        assert_eq!(worked.len() + turned_away.len() + refused, 3);
        assert_eq!(offer(&sender, [9]), 1, "whoever comes after the drain is refused");
    });
}

#[test]
fn both_workers_of_a_pool_end_with_the_drain_and_no_item_is_done_twice_or_lost() {
    model_within(2, || {
        let (sender, receiver) = queue_of(2);
        let phase = PhaseCell::new();
        let (other_receiver, other_phase) = (receiver.clone(), phase.clone());
        let other = thread::spawn(move || work(&other_receiver, &other_phase));
        let conductor = phase.clone();
        let drain = thread::spawn(move || conductor.advance(INTAKE));
        assert_eq!(offer(&sender, 0..2), 0, "there is room for both");

        let mut done = work(&receiver, &phase);

        assert!(drain.join().unwrap());
        done.extend(other.join().unwrap());
        done.extend(receiver.drain());
        done.sort_unstable();
        assert_eq!(done, [0, 1], "each item is done, or left in the queue");
        assert_eq!(phase.waiting(), 0);
    });
}

#[test]
fn without_a_drain_the_last_sender_ends_the_task() {
    model(|| {
        let (sender, receiver) = queue_of(1);
        let producer = thread::spawn(move || offer(&sender, 0..3));

        let worked = work(&receiver, &PhaseCell::new());

        assert_eq!(worked.len() + producer.join().unwrap(), 3);
        assert_eq!(worked.first(), Some(&0), "the first is never refused");
    });
}
