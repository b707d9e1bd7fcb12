//! The queue through its public surface.

use crate::support::Task;
use ron_sync::{
    phase::{Phase, PhaseCell, Stage},
    queue::{Closed, Receiver, Sender, TryRecvError, TrySendError, channel},
};
use std::{num::NonZeroUsize, sync::Arc, task::Poll};

fn queue_of<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    channel(NonZeroUsize::new(capacity).expect("tests ask for a capacity"))
}

#[test]
fn the_last_free_place_displaces_nothing_and_the_next_item_displaces_the_oldest() {
    let (sender, receiver) = queue_of(2);
    assert_eq!(sender.force_send(1), Ok(None));
    assert_eq!(sender.force_send(2), Ok(None));
    assert_eq!(sender.force_send(3), Ok(Some(1)));
    assert_eq!((sender.len(), sender.capacity()), (2, 2));
    assert_eq!(receiver.drain(), [2, 3]);
    assert!(sender.is_empty());
}

#[test]
fn after_a_close_sends_return_their_item_and_receivers_empty_the_queue() {
    let (sender, receiver) = queue_of(2);
    assert_eq!(sender.force_send(1), Ok(None));
    assert_eq!(receiver.clone().try_recv(), Ok(1));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    assert_eq!(sender.force_send(2), Ok(None));
    assert!(!sender.is_closed());
    receiver.close();
    assert!(sender.is_closed());
    assert_eq!(sender.force_send(3), Err(Closed(3)));
    assert_eq!(Task::new().poll(&mut receiver.recv()), Poll::Ready(Some(2)));
    assert_eq!(Task::new().poll(&mut receiver.recv()), Poll::Ready(None));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
}

#[test]
fn only_the_last_sender_closes_the_queue_and_wakes_every_receiver() {
    let (sender, receiver) = queue_of::<u32>(2);
    let (one, two) = (Task::new(), Task::new());
    let (mut first, mut second) = (receiver.recv(), receiver.recv());
    assert!(one.poll(&mut first).is_pending() && two.poll(&mut second).is_pending());
    let other = sender.clone();
    drop(sender);
    assert_eq!((one.wakes(), two.wakes()), (0, 0));
    drop(other);
    assert_eq!((one.wakes(), two.wakes()), (1, 1));
    assert_eq!(one.poll(&mut first), Poll::Ready(None));
}

#[test]
fn only_the_last_receiver_closes_the_queue_and_drops_what_is_left() {
    let (sender, receiver) = queue_of(2);
    let item = Arc::new(());
    assert_eq!(sender.force_send(Arc::clone(&item)), Ok(None));
    let other = receiver.clone();
    drop(receiver);
    assert!(!sender.is_closed());
    assert_eq!(Arc::strong_count(&item), 2);
    drop(other);
    assert!(sender.is_closed());
    assert_eq!(Arc::strong_count(&item), 1);
}

#[test]
fn one_item_wakes_one_receiver_in_order_of_arrival() {
    let (sender, receiver) = queue_of(2);
    let (one, two) = (Task::new(), Task::new());
    let (mut first, mut second) = (receiver.recv(), receiver.recv());
    assert!(one.poll(&mut first).is_pending() && two.poll(&mut second).is_pending());
    assert_eq!(sender.force_send('a'), Ok(None));
    assert_eq!((one.wakes(), two.wakes()), (1, 0));
    assert_eq!(sender.force_send('b'), Ok(None));
    assert_eq!((one.wakes(), two.wakes()), (1, 1));
    assert_eq!(two.poll(&mut second), Poll::Ready(Some('a')));
    assert_eq!(one.poll(&mut first), Poll::Ready(Some('b')));
}

#[test]
fn a_woken_receiver_passes_the_wake_on_only_if_the_item_is_still_there() {
    let (sender, receiver) = queue_of(2);
    let (one, two) = (Task::new(), Task::new());
    let (mut first, mut second) = (receiver.recv(), receiver.recv());
    assert!(one.poll(&mut first).is_pending() && two.poll(&mut second).is_pending());
    assert_eq!(sender.force_send('a'), Ok(None));
    assert_eq!(receiver.try_recv(), Ok('a'));
    drop(first);
    assert_eq!(two.wakes(), 0);
    let mut third = receiver.recv();
    assert!(one.poll(&mut third).is_pending());
    assert_eq!(sender.force_send('b'), Ok(None));
    assert_eq!((one.wakes(), two.wakes()), (1, 1));
    drop(second);
    assert_eq!((one.wakes(), two.wakes()), (2, 1));
    assert_eq!(one.poll(&mut third), Poll::Ready(Some('b')));
}

#[test]
fn a_sleeping_receiver_that_is_dropped_takes_no_wake_with_it() {
    let (sender, receiver) = queue_of(2);
    let (one, two) = (Task::new(), Task::new());
    let (mut first, mut second) = (receiver.recv(), receiver.recv());
    assert!(one.poll(&mut first).is_pending() && two.poll(&mut second).is_pending());
    drop(first);
    assert_eq!(sender.force_send('a'), Ok(None));
    assert_eq!((one.wakes(), two.wakes()), (0, 1));
}

#[test]
fn the_waker_of_the_latest_poll_is_the_one_that_is_woken() {
    let (sender, receiver) = queue_of(1);
    let (before, after) = (Task::new(), Task::new());
    let mut recv = receiver.recv();
    assert!(before.poll(&mut recv).is_pending() && after.poll(&mut recv).is_pending());
    assert_eq!(sender.force_send('a'), Ok(None));
    assert_eq!((before.wakes(), after.wakes()), (0, 1));
}

#[test]
fn a_full_queue_refuses_the_newcomer_and_a_closed_one_says_so() {
    let (sender, receiver) = queue_of(2);
    assert_eq!([sender.try_send(1), sender.try_send(2)], [Ok(()), Ok(())]);
    assert_eq!(sender.try_send(3), Err(TrySendError::Full(3)));
    assert_eq!(receiver.try_recv(), Ok(1));
    assert_eq!(sender.try_send(4), Ok(()));
    receiver.close();
    assert_eq!(sender.try_send(5), Err(TrySendError::Closed(5)));
    assert_eq!(receiver.drain(), [2, 4]);
}

#[test]
fn senders_that_wait_are_served_in_order_and_no_newcomer_takes_their_place() {
    let (sender, receiver) = queue_of(1);
    assert_eq!(sender.try_send('a'), Ok(()));
    let (one, two) = (Task::new(), Task::new());
    let (mut first, mut second) = (sender.send('b'), sender.send('c'));
    assert!(one.poll(&mut first).is_pending() && two.poll(&mut second).is_pending());
    assert_eq!(receiver.try_recv(), Ok('a'));
    assert_eq!((one.wakes(), two.wakes()), (1, 0));
    assert_eq!(sender.try_send('d'), Err(TrySendError::Full('d')), "the place is the first sender's");
    assert_eq!(receiver.try_recv(), Ok('b'), "its item needs no poll of its own");
    assert_eq!(one.poll(&mut first), Poll::Ready(Ok(())));
    assert_eq!(two.poll(&mut second), Poll::Ready(Ok(())));
    assert_eq!(receiver.drain(), ['c']);
}

#[test]
fn a_send_that_is_given_up_says_whether_the_queue_has_the_item() {
    let (sender, receiver) = queue_of(1);
    assert_eq!(sender.send('a').cancel(), Some('a'), "it was never polled");
    assert_eq!(sender.try_send('b'), Ok(()));
    let task = Task::new();
    let (mut waits, mut taken) = (sender.send('c'), sender.send('d'));
    assert!(task.poll(&mut waits).is_pending() && task.poll(&mut taken).is_pending());
    assert_eq!(waits.cancel(), Some('c'));
    assert_eq!(receiver.try_recv(), Ok('b'));
    assert_eq!(taken.cancel(), None);
    assert_eq!(receiver.drain(), ['d']);
}

#[test]
fn a_close_returns_the_items_of_senders_that_wait_whoever_closes() {
    for by_drop in [false, true] {
        let (sender, receiver) = queue_of(1);
        assert_eq!(sender.try_send('a'), Ok(()));
        let task = Task::new();
        let mut waits = sender.send('b');
        assert!(task.poll(&mut waits).is_pending());
        if by_drop {
            drop(receiver);
        } else {
            receiver.close();
            assert_eq!(receiver.try_recv(), Ok('a'));
            assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed), "a closed queue takes nothing in");
        }
        assert_eq!(task.wakes(), 1);
        assert_eq!(task.poll(&mut waits), Poll::Ready(Err(Closed('b'))));
    }
}

#[test]
fn an_item_that_takes_a_freed_place_wakes_the_next_receiver() {
    let (sender, receiver) = queue_of(1);
    let (one, two, three) = (Task::new(), Task::new(), Task::new());
    let (mut first, mut second) = (receiver.recv(), receiver.recv());
    assert!(one.poll(&mut first).is_pending() && two.poll(&mut second).is_pending());
    assert_eq!(sender.try_send('a'), Ok(()));
    let mut waits = sender.send('b');
    assert!(three.poll(&mut waits).is_pending());
    assert_eq!((one.wakes(), two.wakes()), (1, 0));
    assert_eq!(one.poll(&mut first), Poll::Ready(Some('a')));
    assert_eq!((two.wakes(), three.wakes()), (1, 1));
    assert_eq!(two.poll(&mut second), Poll::Ready(Some('b')));
}

#[test]
fn receiving_until_a_phase_ends_with_it_and_leaves_the_items() {
    const INTAKE: Phase = Phase::Draining(Stage::Intake);
    let (sender, receiver) = queue_of(2);
    let (phase, task) = (PhaseCell::new(), Task::new());
    let mut waits = receiver.recv_until(phase.reached(INTAKE));
    assert!(task.poll(&mut waits).is_pending());
    assert_eq!(sender.try_send('a'), Ok(()));
    assert_eq!((task.wakes(), task.poll(&mut waits)), (1, Poll::Ready(Some('a'))));
    let mut waits = receiver.recv_until(phase.reached(INTAKE));
    assert!(task.poll(&mut waits).is_pending());
    assert!(phase.advance(INTAKE));
    assert_eq!(sender.try_send('b'), Ok(()));
    assert_eq!(task.poll(&mut waits), Poll::Ready(None), "the end comes before the item");
    drop(waits);
    assert_eq!(receiver.drain(), ['b']);
}

#[test]
fn debug_output_shows_no_item() {
    let (sender, receiver) = queue_of(1);
    assert_eq!(sender.force_send("secret"), Ok(None));
    let sending = sender.send("secret");
    receiver.close();
    let refused = (sender.force_send("secret"), sender.try_send("secret"));
    let (recv, until) = (receiver.recv(), receiver.recv_until(PhaseCell::new().reached(Phase::Stopped)));
    let shown = format!("{sender:?} {receiver:?} {recv:?} {until:?} {sending:?} {refused:?}");
    assert!(!shown.contains("secret"), "{shown}");
}
