//! A peer that reads too slowly and stays: of everything that was published it gets each publication, or that is named.

use std::{collections::BTreeSet, time::Instant};

use bytes::Bytes;
use oap::Message;
use svc_overlay::LossSum;

use crate::{
    follower::Follower,
    support::{Hand, Node, SOON, any_node, eventually, plain, publication},
};

/// Half as much again as a node keeps, and more than it remembers for one that does not read.
const PUBLISHED: u64 = 3000;
/// As many as may be on their way at once fit into a peer's box, so that what is asked for comes soon.
const BODY: usize = 30 * 1024;
const SLOW: u64 = 50;

/// Publishes everything while the slow one does not read, and waits until the node has taken it on.
fn publish_all(node: &Node) {
    let mut publisher = Hand::join(node.addr(), any_node(1));
    let body = Bytes::from(vec![7; BODY]);
    let reading = publisher.socket.try_clone().unwrap();
    // The publisher is told what was taken on; it reads that, because a peer that does not is given up.
    let drain = std::thread::spawn(move || std::io::copy(&mut &reading, &mut std::io::sink()).unwrap());
    for seq in 1..=PUBLISHED {
        publisher.say(Message::Publish(publication(1, seq, body.clone())));
    }
    let taken_on =
        || node.overlay.peers().iter().any(|peer| peer.node == any_node(1) && peer.frames_in >= PUBLISHED);
    eventually("everything is taken on", taken_on);
    publisher.socket.shutdown(std::net::Shutdown::Write).unwrap();
    let _told = drain.join().unwrap();
}

/// The numbers that are named as lost on the way to the slow one.
fn named(node: &Node) -> BTreeSet<u64> {
    let (_, losses) = node.overlay.losses(0);
    assert!(losses.iter().all(|loss| loss.peer == Some(any_node(SLOW))), "{losses:?}");
    assert!(losses.iter().all(|loss| loss.id.publisher == any_node(1)), "{losses:?}");
    losses.iter().flat_map(|loss| loss.id.seq..=loss.last).collect()
}

#[test]
fn a_slow_reader_that_stays_gets_each_publication_or_that_is_named() {
    let node = Node::start(&plain("topics = [\"news\"]"));
    let mut slow = Follower::over(Hand::join_with_little_room(node.addr(), any_node(SLOW)), "news");
    eventually("it takes part", || node.overlay.peers().iter().any(|peer| peer.frames_in > 0));
    publish_all(&node);
    // Now it reads, and asks for what it missed.
    let begun = Instant::now();
    while slow.count() + (named(&node).len() as u64) < PUBLISHED {
        assert!(begun.elapsed() < SOON * 2, "{} came, {} are named", slow.count(), named(&node).len());
        slow.step();
    }
    let (got, named) = (slow.got(any_node(1)), named(&node));
    assert!(!named.is_empty() && !got.is_empty(), "{} came, {} are named", got.len(), named.len());
    assert!(got.is_disjoint(&named), "{:?}", got.intersection(&named).collect::<Vec<_>>());
    assert_eq!(&got | &named, (1..=PUBLISHED).collect());
    let of_it = |sum: &LossSum| sum.peer == Some(any_node(SLOW)) && sum.topic.as_str() == "news";
    let sums = node.overlay.loss_sums();
    assert!(sums.sums.iter().all(of_it) && sums.others == 0, "{sums:?}");
    assert_eq!(sums.sums.iter().map(|sum| sum.count).sum::<u64>(), named.len() as u64);
    assert!(node.overlay.peers().iter().any(|peer| peer.node == any_node(SLOW)), "it is still there");
}
