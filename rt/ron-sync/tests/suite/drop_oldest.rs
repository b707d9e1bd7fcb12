//! The drop-oldest queue through its public surface.

use crate::support::Task;
use ron_sync::drop_oldest::{Closed, Receiver, Sender, TryRecvError, channel};
use std::{num::NonZeroUsize, sync::Arc, task::Poll};

fn queue_of<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    channel(NonZeroUsize::new(capacity).expect("tests ask for a capacity"))
}

#[test]
fn the_last_free_place_displaces_nothing_and_the_next_item_displaces_the_oldest() {
    let (sender, receiver) = queue_of(2);
    assert_eq!(sender.send(1), Ok(None));
    assert_eq!(sender.send(2), Ok(None));
    assert_eq!(sender.send(3), Ok(Some(1)));
    assert_eq!((sender.len(), sender.capacity()), (2, 2));
    assert_eq!(receiver.drain(), [2, 3]);
    assert!(sender.is_empty());
}

#[test]
fn after_a_close_sends_return_their_item_and_receivers_empty_the_queue() {
    let (sender, receiver) = queue_of(2);
    assert_eq!(sender.send(1), Ok(None));
    assert_eq!(receiver.clone().try_recv(), Ok(1));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    assert_eq!(sender.send(2), Ok(None));
    assert!(!sender.is_closed());
    receiver.close();
    assert!(sender.is_closed());
    assert_eq!(sender.send(3), Err(Closed(3)));
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
    assert_eq!(sender.send(Arc::clone(&item)), Ok(None));
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
    assert_eq!(sender.send('a'), Ok(None));
    assert_eq!((one.wakes(), two.wakes()), (1, 0));
    assert_eq!(sender.send('b'), Ok(None));
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
    assert_eq!(sender.send('a'), Ok(None));
    assert_eq!(receiver.try_recv(), Ok('a'));
    drop(first);
    assert_eq!(two.wakes(), 0);
    let mut third = receiver.recv();
    assert!(one.poll(&mut third).is_pending());
    assert_eq!(sender.send('b'), Ok(None));
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
    assert_eq!(sender.send('a'), Ok(None));
    assert_eq!((one.wakes(), two.wakes()), (0, 1));
}

#[test]
fn the_waker_of_the_latest_poll_is_the_one_that_is_woken() {
    let (sender, receiver) = queue_of(1);
    let (before, after) = (Task::new(), Task::new());
    let mut recv = receiver.recv();
    assert!(before.poll(&mut recv).is_pending() && after.poll(&mut recv).is_pending());
    assert_eq!(sender.send('a'), Ok(None));
    assert_eq!((before.wakes(), after.wakes()), (0, 1));
}

#[test]
fn debug_output_shows_no_item() {
    let (sender, receiver) = queue_of(1);
    assert_eq!(sender.send("secret"), Ok(None));
    receiver.close();
    let refused = sender.send("secret");
    assert!(!format!("{sender:?} {receiver:?} {:?} {refused:?}", receiver.recv()).contains("secret"));
}
