//! The order in which a writer sends: control first, four to one, fairly between topics, within bounds.

use gossip::{Lanes, Next, Pushed, WhenFull};
use proptest::prelude::*;

fn lanes(full: WhenFull) -> Lanes<&'static str, u32> {
    Lanes::new(2, 4, full)
}

#[test]
fn control_goes_before_everything_else() {
    let mut lanes = lanes(WhenFull::RejectNew);
    assert_eq!(lanes.push_gossip(&"a", 1, 10), Pushed::Queued);
    assert_eq!(lanes.push_control(2), Ok(()));
    assert_eq!(lanes.next(true), Some(Next::Control(2)));
    assert_eq!(lanes.next(false), Some(Next::Gossip(1)));
    assert_eq!(lanes.next(false), None);
    assert_eq!(lanes.next(true), Some(Next::Bulk));
}

#[test]
fn a_full_lane_refuses_the_newcomer() {
    let mut lanes = lanes(WhenFull::RejectNew);
    for item in 0..4 {
        assert_eq!(lanes.push_gossip(&"a", item, 1), Pushed::Queued);
    }
    assert_eq!(lanes.push_gossip(&"b", 4, 1), Pushed::Refused(4));
    assert_eq!((lanes.push_control(5), lanes.push_control(6)), (Ok(()), Ok(())));
    assert_eq!(lanes.push_control(7), Err(7));
    assert_eq!((lanes.gossip_len(), lanes.control_len()), (4, 2));
}

#[test]
fn or_the_oldest_of_the_longest_makes_place() {
    let mut lanes = lanes(WhenFull::DropOldest);
    for (topic, item) in [("b", 0), ("a", 1), ("a", 2), ("a", 3)] {
        assert_eq!(lanes.push_gossip(&topic, item, 1), Pushed::Queued);
    }
    assert_eq!(lanes.push_gossip(&"b", 4, 1), Pushed::Shed(1));
    assert_eq!(lanes.gossip_len(), 4);
}

#[test]
fn publications_get_four_bytes_for_each_byte_of_objects() {
    let mut lanes: Lanes<u8, u32> = Lanes::new(1, 100_000, WhenFull::RejectNew);
    (0..50_000).for_each(|item| assert_eq!(lanes.push_gossip(&0, item, 1000), Pushed::Queued));
    let (mut gossip, mut bulk) = (0u64, 0u64);
    while gossip + bulk < 20_000_000 {
        match lanes.next(true) {
            Some(Next::Bulk) => {
                lanes.bulk_sent(16_384);
                bulk += 16_384;
            }
            Some(_) => gossip += 1000,
            None => unreachable!("there is enough of everything"),
        }
    }
    let ratio = gossip as f64 / bulk as f64;
    assert!((3.9..4.1).contains(&ratio), "{ratio}");
}

#[test]
fn objects_alone_leave_no_debt_that_keeps_them_waiting_for_long() {
    let mut lanes: Lanes<u8, u32> = Lanes::new(1, 1000, WhenFull::RejectNew);
    for _ in 0..1000 {
        assert_eq!(lanes.next(true), Some(Next::Bulk));
        lanes.bulk_sent(65_536);
    }
    (0..1000).for_each(|item| assert_eq!(lanes.push_gossip(&0, item, 1000), Pushed::Queued));
    let first_bulk = (0..1000).position(|_| lanes.next(true) == Some(Next::Bulk));
    assert!(first_bulk.is_some_and(|sent| (200..=263).contains(&sent)), "{first_bulk:?}: about 256 KiB");
}

#[test]
fn a_topic_with_much_to_say_does_not_hold_up_one_with_little() {
    let mut lanes: Lanes<&str, u32> = Lanes::new(1, 1000, WhenFull::RejectNew);
    (0..900).for_each(|item| assert_eq!(lanes.push_gossip(&"loud", item, 1000), Pushed::Queued));
    (900..910).for_each(|item| assert_eq!(lanes.push_gossip(&"quiet", item, 1000), Pushed::Queued));
    let sent: Vec<_> = lanes.drain().collect();
    let last_quiet = sent.iter().position(|item| *item == 909);
    assert!(last_quiet.is_some_and(|at| at < 30), "{last_quiet:?}");
}

proptest! {
    #[test]
    fn nothing_is_lost_or_doubled_and_each_topic_keeps_its_order(
        pushes in prop::collection::vec((0..5u8, 0..70_000u32), 0..200),
        pops in prop::collection::vec(any::<bool>(), 0..200),
    ) {
        let mut lanes: Lanes<u8, (u8, usize)> = Lanes::new(1, 64, WhenFull::RejectNew);
        let (mut queued, mut sent) = (Vec::new(), Vec::new());
        let mut pops = pops.into_iter();
        for (number, (topic, bytes)) in pushes.into_iter().enumerate() {
            if lanes.push_gossip(&topic, (topic, number), bytes) == Pushed::Queued {
                queued.push((topic, number));
            }
            if pops.next() == Some(true) && let Some(Next::Gossip(item)) = lanes.next(false) {
                sent.push(item);
            }
            prop_assert!(lanes.gossip_len() <= 64);
        }
        sent.extend(lanes.drain());
        for topic in 0..5 {
            let of_it = |items: &[(u8, usize)]| items.iter().filter(|item| item.0 == topic).copied().collect::<Vec<_>>();
            prop_assert_eq!(of_it(&queued), of_it(&sent));
        }
        prop_assert!(lanes.is_empty());
    }
}
