//! A node drains while a peer does not read: of what was published that peer gets each publication, or it is named.

use std::{collections::BTreeSet, ops::RangeInclusive, sync::Arc, time::Duration};

use bytes::Bytes;
use oap::{Entry, ErrorCode, Message, MessageId, Publication, Topic};
use ron_kernel::{Exit, ExitCode};
use svc_overlay::{LossSum, Overlay, OverlayError};

use crate::support::{Hand, Node, any_node, eventually, plain, publication};

/// More than a peer's box and the system's buffers hold, and less than the node keeps.
const PUBLISHED: u64 = 600;
/// What the deaf peer hears before it goes deaf.
const HEARD: u64 = 50;
const BODY: usize = 30 * 1024;
/// Frames that are written at a time.
const BATCH: usize = 4;
const PUBLISHER: u64 = 1;
const DEAF: u64 = 50;

fn news() -> Topic {
    Topic::new("news").unwrap()
}

fn id(seq: u64) -> MessageId {
    Entry { publisher: any_node(PUBLISHER), incarnation: 1, seq }.in_topic(&news())
}

/// A peer that takes part and does not read, for now.
fn join_deaf(node: &Node) -> Hand {
    let mut deaf = Hand::join_with_little_room(node.addr(), any_node(DEAF));
    deaf.say(Message::Subscribe(news()));
    eventually("it takes part", || node.overlay.peers().iter().any(|peer| peer.frames_in > 0));
    deaf
}

/// Publishes, and waits until the node has taken everything on.
fn publish(publisher: &mut Hand, seqs: RangeInclusive<u64>) {
    let body = Bytes::from(vec![7; BODY]);
    let mut accepted: BTreeSet<u64> = BTreeSet::new();
    for seq in seqs.clone() {
        publisher.say(Message::Publish(publication(PUBLISHER, seq, body.clone())));
    }
    while !seqs.clone().all(|seq| accepted.contains(&seq)) {
        if let Message::Accepted(more) = publisher.hear_one(|said| matches!(said, Message::Accepted(_))) {
            accepted.extend(more.seqs);
        }
    }
}

/// What a peer that begins to read now still hears.
fn hear_the_rest(mut peer: Hand) -> BTreeSet<u64> {
    let mut got = BTreeSet::new();
    while let Some(message) = peer.hear() {
        if let Message::Publish(publication) = message {
            got.insert(publication.id.seq);
        }
    }
    got
}

fn named(overlay: &Overlay) -> BTreeSet<u64> {
    overlay.losses(0).1.iter().flat_map(|loss| loss.id.seq..=loss.last).collect()
}

/// Drains a node with a peer that does not read before the node has gone. What it got and what is named are everything, and
/// all of the node's accounts agree.
fn drain_beside_a_deaf_peer(deadline: Duration) -> Exit {
    let node = Node::start(&plain(&format!(
        "topics = [\"news\"]\npeer = {{ inflight_frames = {BATCH}, max_rps = 0 }}"
    )));
    let mut deaf = join_deaf(&node);
    let mut publisher = Hand::join(node.addr(), any_node(PUBLISHER));
    publish(&mut publisher, 1..=HEARD);
    for _ in 1..=HEARD {
        deaf.hear_one(|said| matches!(said, Message::Publish(_)));
    }
    publish(&mut publisher, HEARD + 1..=PUBLISHED);
    node.scope.set_drain_deadline(deadline);
    let (overlay, metrics) = (Arc::clone(&node.overlay), node.scope.all_metrics().clone());
    let exit = node.stop();
    let got = hear_the_rest(deaf);
    let everything: BTreeSet<u64> = (HEARD + 1..=PUBLISHED).collect();
    // A busy machine may let go of the tasks that were cut off after it has said so.
    eventually("everything is accounted for", || &got | &named(&overlay) == everything);
    let ((total, losses), named) = (overlay.losses(0), named(&overlay));
    println!("{} came, {} are named: {exit}", got.len(), named.len());
    assert!(losses.iter().all(|loss| loss.peer == Some(any_node(DEAF))), "{losses:?}");
    assert!(losses.iter().any(|loss| loss.reason == "closed"), "{losses:?}");
    // Of what was being written at the end, some may have arrived.
    assert!((&got & &named).len() <= BATCH, "{:?}", &got & &named);
    assert_eq!(total, named.len() as u64, "each is named once: {losses:?}");
    let of_it = |sum: &LossSum| sum.peer == Some(any_node(DEAF)) && sum.topic == news();
    let sums = overlay.loss_sums().sums;
    assert!(sums.iter().all(of_it), "{sums:?}");
    assert_eq!(sums.iter().map(|sum| sum.count).sum::<u64>(), total);
    let scrape = metrics.prometheus_text();
    let counts = scrape.lines().filter(|line| line.starts_with("overlay_lost_total{"));
    let counted = counts.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap());
    assert_eq!(counted.sum::<u64>(), total);
    exit
}

#[test]
fn a_drain_in_good_order_names_what_a_peer_did_not_take() {
    let exit = drain_beside_a_deaf_peer(Duration::from_secs(60));
    assert_eq!(exit.code, ExitCode::Clean, "{exit}");
}

#[test]
fn a_drain_that_is_cut_off_names_what_was_still_to_be_written() {
    // Shorter than a session waits for a peer that does not read.
    let exit = drain_beside_a_deaf_peer(Duration::from_millis(300));
    assert!(exit.aborted.iter().any(|name| name.starts_with("overlay/writer")), "{exit}");
}

#[test]
fn what_a_peer_publishes_while_other_work_keeps_the_drain_waiting_is_refused_and_named() {
    let node = Node::start(&plain("topics = [\"news\"]"));
    let mut publisher = Hand::join(node.addr(), any_node(PUBLISHER));
    node.wait_for_peers(1);
    let work = node.scope.work().enter();
    node.scope.shutdown().request("the test wants it");
    publisher.hear_one(|said| matches!(said, Message::Goaway(_)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let publish = || runtime.block_on(node.overlay.publish(news(), Bytes::new()));
    eventually("the shards have ended", || publish() == Err(OverlayError::Canceled));
    publisher.say(Message::Publish(Publication::new(id(1), Bytes::new())));
    let Message::Error(fault) = publisher.hear_one(|said| matches!(said, Message::Error(_))) else {
        panic!("only that was asked for")
    };
    assert_eq!((fault.code, fault.about), (ErrorCode::Draining, Some(id(1))));
    let (total, losses) = node.overlay.losses(0);
    let named: Vec<_> = losses.iter().map(|loss| (loss.id.clone(), loss.queue, loss.reason)).collect();
    assert_eq!((total, named), (1, vec![(id(1), "gossip_ingress", "closed")]));
    drop(work);
    let exit = node.stop();
    assert_eq!(exit.code, ExitCode::Clean, "{exit}");
}

#[test]
fn tasks_of_sessions_that_a_drain_ends_are_counted_as_canceled() {
    let node = Node::start(&plain(""));
    let peers = [1, 2].map(|number| Hand::join(node.addr(), any_node(number)));
    node.wait_for_peers(2);
    peers.into_iter().for_each(Hand::read_in_background);
    let metrics = node.scope.all_metrics().clone();
    let exit = node.stop();
    assert_eq!(exit.code, ExitCode::Clean, "{exit}");
    let scrape = metrics.prometheus_text();
    for kind in ["connection", "reader", "writer"] {
        for (name, count) in [("spawned", 2), ("canceled", 2), ("aborted", 0), ("panicked", 0)] {
            let line =
                format!("tasks_{name}_total{{node=\"test\",service=\"overlay\",kind=\"{kind}\"}} {count}\n");
            assert!(scrape.contains(&line), "{line} in\n{scrape}");
        }
    }
}
