//! Models of the queue.

use super::{model, model_within, poll_once};
use loom::{future::block_on, thread};
use ron_sync::queue::{Closed, Receiver, Sender, TrySendError, channel};
use std::{
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

/// What became of the items one producer sent.
#[derive(Default)]
struct Sent {
    accepted: usize,
    displaced: usize,
    refused: usize,
}

pub(crate) fn queue_of(capacity: usize) -> (Sender<u32>, Receiver<u32>) {
    channel(NonZeroUsize::new(capacity).unwrap())
}

fn produce(sender: &Sender<u32>, items: impl IntoIterator<Item = u32>) -> Sent {
    let mut sent = Sent::default();
    for item in items {
        match sender.force_send(item) {
            Ok(displaced) => {
                sent.accepted += 1;
                sent.displaced += usize::from(displaced.is_some());
            }
            Err(Closed(returned)) => {
                assert_eq!(returned, item);
                sent.refused += 1;
            }
        }
        assert!(sender.len() <= sender.capacity());
    }
    sent
}

pub(crate) fn receive_to_the_end(receiver: &Receiver<u32>) -> Vec<u32> {
    let mut received = Vec::new();
    while let Some(item) = block_on(receiver.recv()) {
        received.push(item);
    }
    received
}

#[test]
fn with_a_shutdown_at_any_moment_every_item_is_received_or_handed_back() {
    model(|| {
        let (sender, receiver) = queue_of(2);
        let closer = receiver.clone();
        let producer = thread::spawn(move || produce(&sender, 0..3));
        let shutdown = thread::spawn(move || closer.close());

        let received = receive_to_the_end(&receiver);

        shutdown.join().unwrap();
        let sent = producer.join().unwrap();
        assert!(received.is_sorted_by(|earlier, later| earlier < later), "out of order: {received:?}");
        assert_eq!(received.len() + sent.displaced, sent.accepted);
        assert_eq!(sent.accepted + sent.refused, 3);
    });
}

#[test]
fn the_last_sender_ends_a_consumer_that_has_seen_everything() {
    model(|| {
        let (sender, receiver) = queue_of(2);
        let producer = thread::spawn(move || produce(&sender, 0..3));

        let received = receive_to_the_end(&receiver);

        let sent = producer.join().unwrap();
        assert_eq!((sent.accepted, sent.refused), (3, 0));
        assert_eq!(received.len() + sent.displaced, 3);
        assert_eq!(received.last(), Some(&2), "the newest item is never displaced");
    });
}

#[test]
fn two_producers_lose_nothing_and_double_nothing() {
    model(|| {
        let (sender, receiver) = queue_of(2);
        let other_sender = sender.clone();
        let one = thread::spawn(move || produce(&sender, [0, 1]));
        let two = thread::spawn(move || produce(&other_sender, [10, 11]));

        let mut received = receive_to_the_end(&receiver);

        let displaced = one.join().unwrap().displaced + two.join().unwrap().displaced;
        assert_eq!(received.len() + displaced, 4);
        received.sort_unstable();
        received.dedup();
        assert_eq!(received.len() + displaced, 4, "an item came twice");
    });
}

#[test]
fn two_consumers_get_each_item_once_and_both_see_the_end() {
    model_within(2, || {
        let (sender, receiver) = queue_of(2);
        let other_receiver = receiver.clone();
        let other = thread::spawn(move || receive_to_the_end(&other_receiver));
        let producer = thread::spawn(move || produce(&sender, [0, 1]));

        let mut received = receive_to_the_end(&receiver);

        received.extend(other.join().unwrap());
        received.sort_unstable();
        assert_eq!(producer.join().unwrap().displaced, 0);
        assert_eq!(received, [0, 1]);
    });
}

#[test]
fn no_send_succeeds_after_a_close_has_returned() {
    model(|| {
        let (sender, receiver) = queue_of(2);
        let other_sender = sender.clone();
        let closed = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&closed);
        let closer = thread::spawn(move || {
            other_sender.close();
            closed.store(true, SeqCst);
        });

        let accepted = (0..2)
            .filter(|&item| {
                let was_closed = seen.load(SeqCst);
                let accepted = sender.force_send(item).is_ok();
                assert!(!(was_closed && accepted));
                accepted
            })
            .count();

        closer.join().unwrap();
        assert!(sender.force_send(2).is_err());
        assert_eq!(receiver.drain().len(), accepted);
    });
}

#[test]
fn a_woken_receiver_that_is_dropped_passes_the_wake_on() {
    model(|| {
        let (sender, receiver) = queue_of(2);
        let other_receiver = receiver.clone();
        let mut first_in_line = receiver.recv();
        assert!(poll_once(&mut first_in_line).is_pending());
        let other = thread::spawn(move || block_on(other_receiver.recv()));
        let producer = thread::spawn(move || {
            sender.try_send(7).unwrap();
            // Alive until the end, so that only the wake can end the other receiver's sleep.
            sender
        });

        drop(first_in_line);

        assert_eq!(other.join().unwrap(), Some(7));
        drop(producer.join().unwrap());
    });
}

#[test]
fn a_queue_that_refuses_keeps_what_it_has_taken_and_no_more_than_it_holds() {
    model_within(2, || {
        let (sender, receiver) = queue_of(1);
        let other_sender = sender.clone();
        let offer = |sender: Sender<u32>, items: [u32; 2]| {
            items
                .into_iter()
                .filter(|&item| match sender.try_send(item) {
                    Ok(()) => false,
                    Err(TrySendError::Full(returned) | TrySendError::Closed(returned)) => returned == item,
                })
                .count()
        };
        let one = thread::spawn(move || offer(sender, [0, 1]));
        let two = thread::spawn(move || offer(other_sender, [10, 11]));

        let received = receive_to_the_end(&receiver);

        let refused = one.join().unwrap() + two.join().unwrap();
        assert_eq!(received.len() + refused, 4);
        assert!(!received.is_empty(), "the first of all is never refused");
    });
}

#[test]
fn senders_that_wait_for_room_lose_nothing_and_none_waits_for_ever() {
    model_within(2, || {
        let (sender, receiver) = queue_of(1);
        let other_sender = sender.clone();
        let one = thread::spawn(move || [0, 1].map(|item| block_on(sender.send(item))));
        let two = thread::spawn(move || block_on(other_sender.send(10)));

        let mut received = receive_to_the_end(&receiver);

        assert_eq!(one.join().unwrap(), [Ok(()), Ok(())]);
        assert_eq!(two.join().unwrap(), Ok(()));
        received.sort_unstable();
        assert_eq!(received, [0, 1, 10]);
    });
}

#[test]
fn a_close_at_any_moment_hands_the_items_of_waiting_senders_back() {
    model(|| {
        let (sender, receiver) = queue_of(1);
        let closer = receiver.clone();
        let producer = thread::spawn(move || [0, 1].map(|item| block_on(sender.send(item))));
        let shutdown = thread::spawn(move || closer.close());

        let received = receive_to_the_end(&receiver);

        shutdown.join().unwrap();
        let sent = producer.join().unwrap();
        for (item, sent) in (0..).zip(sent) {
            match sent {
                Ok(()) => assert!(received.contains(&item)),
                Err(Closed(returned)) => assert!(returned == item && !received.contains(&item)),
            }
        }
    });
}

#[test]
fn the_last_receiver_leaves_no_sender_waiting() {
    model(|| {
        let (sender, receiver) = queue_of(1);
        let producer = thread::spawn(move || [0, 1].map(|item| block_on(sender.send(item))));

        let first = block_on(receiver.recv());
        drop(receiver);

        assert_eq!(first, Some(0));
        // Taken in and dropped with the receiver, or handed back; but it does not wait.
        assert_eq!(producer.join().unwrap()[0], Ok(()));
    });
}

#[test]
fn a_waiting_send_that_is_given_up_leaves_its_item_in_one_place() {
    model(|| {
        let (sender, receiver) = queue_of(1);
        sender.try_send(0).unwrap();
        let mut waits = sender.send(1);
        assert!(poll_once(&mut waits).is_pending());
        let consumer = thread::spawn(move || {
            let first = block_on(receiver.recv());
            (first, receiver)
        });

        let returned = waits.cancel();

        let (first, receiver) = consumer.join().unwrap();
        assert_eq!(first, Some(0));
        let left = receiver.drain();
        assert_eq!(left.len() + usize::from(returned.is_some()), 1, "{left:?}, {returned:?}");
        assert_eq!(sender.try_send(2), Ok(()), "no place is lost");
    });
}

#[test]
fn a_place_given_to_a_waiting_sender_wakes_the_second_of_two_receivers() {
    model_within(2, || {
        let (sender, receiver) = queue_of(1);
        let other_receiver = receiver.clone();
        // Each receiver takes one item and no more, so both items arrive only if both are woken.
        let other = thread::spawn(move || block_on(other_receiver.recv()));
        let producer = thread::spawn(move || {
            let sent = [0, 1].map(|item| block_on(sender.send(item)));
            (sent, sender)
        });

        let one = block_on(receiver.recv());

        let mut received = [one, other.join().unwrap()];
        received.sort_unstable();
        assert_eq!(received, [Some(0), Some(1)]);
        let (sent, _sender) = producer.join().unwrap();
        assert_eq!(sent, [Ok(()), Ok(())]);
    });
}
