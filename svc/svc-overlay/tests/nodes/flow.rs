//! Slow peers, slow subscribers, and what becomes of what they do not take.

use std::time::{Duration, Instant};

use bytes::Bytes;
use oap::{Entry, Message, Publication, Topic};
use svc_overlay::Delivery;

use crate::support::{Hand, Node, SOON, any_node, eventually, plain};

fn publication(publisher: u64, seq: u64, body: Bytes) -> Publication {
    let topic = Topic::new("news").unwrap();
    let entry = Entry { publisher: any_node(publisher), incarnation: 1, seq };
    Publication::new(entry.in_topic(&topic), body)
}

/// Reads publications until `count` have come; the longest wait between sending and reading any of them.
fn read_all(hand: &mut Hand, count: u64, sent: Instant) -> Duration {
    for _ in 0..count {
        hand.hear_one(|m| matches!(m, Message::Publish(_)));
    }
    sent.elapsed()
}

#[test]
fn a_peer_that_does_not_read_holds_nobody_else_up_and_its_losses_are_named() {
    let node = Node::start(&plain(
        "topics = [\"news\"]\ngossip = { relay_fanout = 64 }\ntimeouts = { write = \"2s\" }",
    ));
    let topic = || Topic::new("news").unwrap();
    let mut readers: Vec<Hand> = (0..10).map(|n| Hand::join(node.addr(), any_node(100 + n))).collect();
    let mut deaf = Hand::join_with_little_room(node.addr(), any_node(50));
    readers.iter_mut().for_each(|reader| reader.say(Message::Subscribe(topic())));
    deaf.say(Message::Subscribe(topic()));
    let mut publisher = Hand::join(node.addr(), any_node(1));
    publisher.say(Message::Subscribe(topic()));
    publisher.say(Message::Ping(1));
    publisher.hear_one(|m| matches!(m, Message::Pong(_)));
    eventually("all take part", || node.overlay.peers().iter().all(|peer| peer.frames_in > 0));
    let body = Bytes::from(vec![7; 32 * 1024]);
    let count = 400;
    let sent = Instant::now();
    let sending = std::thread::spawn(move || {
        for seq in 1..=count {
            publisher.say(Message::Publish(publication(1, seq, body.clone())));
            // Steady, because readers of this test do not ask for what they are only told of.
            std::thread::sleep(Duration::from_millis(3));
        }
        publisher
    });
    let waits: Vec<Duration> = std::thread::scope(|scope| {
        let reading: Vec<_> =
            readers.iter_mut().map(|reader| scope.spawn(move || read_all(reader, count, sent))).collect();
        reading.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(waits.iter().all(|wait| *wait < SOON), "{waits:?}");
    drop(sending.join().unwrap());
    eventually("the deaf one is given up", || node.closes("write_timeout") == 1);
    let (_, losses) = node.overlay.losses(0);
    assert!(!losses.is_empty() && losses.iter().all(|loss| loss.peer == Some(any_node(50))), "{losses:?}");
    drop(deaf);
}

/// Publishes at a steady pace to many readers, and perhaps one that never reads. The 99th percentile of how long it took
/// the readers to hear, and what was lost.
fn steady(readers: u64, with_deaf: bool) -> (Duration, Vec<svc_overlay::Loss>) {
    const COUNT: u64 = 700;
    let lines = "topics = [\"news\"]\ngossip = { relay_fanout = 64 }\ntimeouts = { write = \"3s\" }";
    let node = Node::start(&plain(lines));
    let join = |number| {
        let mut hand = Hand::join(node.addr(), any_node(number));
        hand.say(Message::Subscribe(Topic::new("news").unwrap()));
        hand
    };
    let mut hands: Vec<Hand> = (0..readers).map(|number| join(100 + number)).collect();
    let deaf = with_deaf.then(|| {
        let mut hand = Hand::join_with_little_room(node.addr(), any_node(50));
        hand.say(Message::Subscribe(Topic::new("news").unwrap()));
        hand
    });
    let mut publisher = Hand::join(node.addr(), any_node(1));
    let everybody = usize::try_from(readers).unwrap() + usize::from(with_deaf);
    eventually("all take part", || {
        node.overlay.peers().iter().filter(|peer| peer.frames_in > 0).count() == everybody
    });
    let sent: Vec<std::sync::OnceLock<Instant>> = (0..=COUNT).map(|_| Default::default()).collect();
    let body = Bytes::from(vec![7; 16 * 1024]);
    let mut waits: Vec<Duration> = std::thread::scope(|scope| {
        let listen = |hand: &mut Hand| -> Vec<Duration> {
            let hear = |_| match hand.hear_one(|m| matches!(m, Message::Publish(_))) {
                Message::Publish(publication) => {
                    sent[usize::try_from(publication.id.seq).unwrap()].get().unwrap().elapsed()
                }
                other => panic!("{other:?}"),
            };
            (0..COUNT).map(hear).collect()
        };
        let reading: Vec<_> = hands.iter_mut().map(|hand| scope.spawn(move || listen(hand))).collect();
        for seq in 1..=COUNT {
            sent[usize::try_from(seq).unwrap()].set(Instant::now()).unwrap();
            publisher.say(Message::Publish(publication(1, seq, body.clone())));
            std::thread::sleep(Duration::from_millis(2));
        }
        reading.into_iter().flat_map(|one| one.join().unwrap()).collect()
    });
    waits.sort_unstable();
    if with_deaf {
        // Who does not take what is pushed is only told of more; what waits for it is lost when it is given up.
        eventually("what it does not take is named", || !node.overlay.losses(0).1.is_empty());
    }
    let losses = node.overlay.losses(0).1;
    drop(deaf);
    (waits[waits.len() * 99 / 100], losses)
}

#[test]
fn one_that_does_not_read_among_fifty_does_not_move_the_others_tail() {
    let (alone, nothing) = steady(49, false);
    let (beside, losses) = steady(49, true);
    println!("p99 without a deaf peer {alone:?}, beside one {beside:?}; {} losses named", losses.len());
    assert!(nothing.is_empty(), "{nothing:?}");
    assert!(!losses.is_empty() && losses.iter().all(|loss| loss.peer == Some(any_node(50))), "{losses:?}");
    // Generous, because the machine may be busy with other things.
    assert!(beside < alone * 4 + Duration::from_millis(100), "{alone:?} became {beside:?}");
}

#[test]
fn a_subscriber_that_falls_behind_is_told_how_many_it_missed() {
    let node = Node::start(&plain(""));
    let mut slow = node.subscribe("news");
    let mut quick = node.subscribe("news");
    let mut publisher = Hand::join(node.addr(), any_node(1));
    let count = 1500;
    for seq in 1..=count {
        publisher.say(Message::Publish(publication(1, seq, Bytes::from_static(b"x"))));
        node.hear(&mut quick);
    }
    let (mut heard, mut missed) = (0, 0);
    while heard + missed < count {
        match node.next(&mut slow) {
            Delivery::Publication { .. } => heard += 1,
            Delivery::Lagging(more) => missed += more,
            Delivery::Gap(gap) => panic!("{gap:?}"),
        }
        if heard == 1024 && missed == 0 {
            // What was missed is told with the next that comes.
            publisher.say(Message::Publish(publication(1, count + 1, Bytes::from_static(b"x"))));
            let Delivery::Lagging(more) = node.next(&mut slow) else { panic!("not told") };
            missed += more;
        }
    }
    assert_eq!((heard, missed), (1024, count - 1024));
    assert!(node.overlay.losses(0).1.iter().all(|loss| loss.reason == "lagging" && loss.peer.is_none()));
}

#[test]
fn what_is_published_while_a_peer_is_away_is_repaired_or_named() {
    let a = Node::start(&plain("topics = [\"news\"]"));
    let b = Node::start(&plain(&format!("topics = [\"news\"]\npeers = [\"{}\"]", a.peer())));
    a.wait_for_peers(1);
    let mut heard = b.subscribe("news");
    eventually("the neighbour takes part", || a.publish("news", "before").accepted);
    assert_eq!(b.hear(&mut heard), "before");
    b.reload(&plain("topics = [\"news\"]"));
    a.wait_for_peers(0);
    assert!(!a.publish("news", "meanwhile").accepted, "nobody is there to take it on");
    b.reload(&plain(&format!("topics = [\"news\"]\npeers = [\"{}\"]", a.peer())));
    b.wait_for_peers(1);
    while b.hear(&mut heard) != "meanwhile" {}
}
