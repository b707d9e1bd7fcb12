//! Slow peers, slow subscribers, and what becomes of what they do not take.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use bytes::Bytes;
use oap::{Entry, Head, IHave, Message, Publication, Topic};
use svc_overlay::{Delivery, OverlayError};

use crate::{
    follower::Follower,
    support::{Hand, Node, any_node, eventually, plain, proof, publication},
};

/// A node that pushes to everybody, and to which waiting for a peer's system is never a reason to give the peer up.
fn pushing_node() -> Node {
    Node::start(&plain("topics = [\"news\"]\ngossip = { relay_fanout = 64 }"))
}

/// A peer that takes part and never reads.
fn join_deaf(node: &Node) -> Hand {
    let mut deaf = Hand::join_with_little_room(node.addr(), any_node(DEAF));
    deaf.say(Message::Subscribe(Topic::new("news").unwrap()));
    deaf
}

/// The number of the peer that never reads.
const DEAF: u64 = 50;

fn wait_for_subscriptions(node: &Node, count: usize) {
    eventually("all take part", || {
        node.overlay.peers().iter().filter(|peer| peer.frames_in > 0).count() == count
    });
}

fn is_there(node: &Node, number: u64) -> bool {
    node.overlay.peers().iter().any(|peer| peer.node == any_node(number))
}

#[test]
fn gaps_of_publishers_that_somebody_invents_leave_room_for_publications() {
    const PUBLISHED: usize = 400;
    let node = Node::start(&plain("topics = [\"news\"]"));
    let mut subscription = node.subscribe("news");
    // A peer that did not read what it is asked for would be dismissed.
    let mut inventor = Hand::join(node.addr(), any_node(2));
    let topic = Topic::new("news").unwrap();
    let invented: Vec<_> = (1000..2500).collect();
    for some in invented.chunks(oap::HEADS_MAX) {
        let head = |number: &u64| {
            // Each is named as a gap at once: the first of its publications are too old.
            let entry = Entry { publisher: any_node(*number), incarnation: 1, seq: 100 };
            Head { entry, proof: proof(*number, &entry.in_topic(&topic)) }
        };
        let heads = some.iter().map(head).collect();
        inventor.say(Message::IHave(IHave { topic: topic.clone(), entries: Vec::new(), heads }));
    }
    inventor.read_in_background();
    let mut peer = Hand::join(node.addr(), any_node(1));
    let last = PUBLISHED as u64;
    // Hardly anything is read before everything has come.
    for seq in 1..=last {
        peer.publish(publication(1, seq, Bytes::from_static(b"honest")));
    }
    let of_invented = invented.len() as u64 * 68;
    let (mut heard, mut gaps, mut missed) = (0, 0, 0);
    while heard < PUBLISHED || gaps + missed < of_invented {
        match node.next(&mut subscription) {
            Delivery::Publication { .. } => heard += 1,
            Delivery::Gap(gap) => gaps += gap.to - gap.from + 1,
            Delivery::Lagging(count) => missed += count,
            Delivery::NotResumed => panic!("nobody came back"),
            Delivery::NoRoom(topic) => panic!("there is room for {topic:?}"),
        }
    }
    assert_eq!(heard, PUBLISHED, "{gaps} in gaps, {missed} missed");
    assert_eq!(gaps + missed, of_invented, "and those that were not named are counted");
}

#[test]
fn a_peer_that_does_not_read_holds_nobody_else_up_and_its_losses_are_named() {
    const COUNT: u64 = 400;
    let node = pushing_node();
    let mut readers: Vec<Follower> = (0..10).map(|n| Follower::join(node.addr(), 100 + n, "news")).collect();
    let deaf = join_deaf(&node);
    wait_for_subscriptions(&node, 11);
    let mut publisher = Hand::join(node.addr(), any_node(1));
    let body = Bytes::from(vec![7; 32 * 1024]);
    std::thread::scope(|scope| {
        for reader in &mut readers {
            scope.spawn(move || (0..COUNT).for_each(|_| drop(reader.hear())));
        }
        (1..=COUNT).for_each(|seq| publisher.publish(publication(1, seq, body.clone())));
    });
    // The others have everything, and nothing was done about the deaf one yet.
    assert!(is_there(&node, DEAF));
    drop(deaf);
    eventually("it is gone", || !is_there(&node, DEAF));
    eventually("its losses are named", || !node.overlay.losses(0).1.is_empty());
    let (_, losses) = node.overlay.losses(0);
    assert!(losses.iter().all(|loss| loss.peer == Some(any_node(DEAF))), "{losses:?}");
}

#[test]
fn a_peer_that_takes_nothing_is_given_up_and_its_losses_are_named() {
    let lines = "topics = [\"news\"]\ntimeouts = { read = \"60s\", write = \"500ms\" }";
    let node = Node::start(&plain(lines));
    let deaf = join_deaf(&node);
    wait_for_subscriptions(&node, 1);
    let mut publisher = Hand::join(node.addr(), any_node(1));
    let body = Bytes::from(vec![7; 32 * 1024]);
    (1..=400).for_each(|seq| publisher.say(Message::Publish(publication(1, seq, body.clone()))));
    eventually("the deaf one is given up", || node.closes("write_timeout") == 1);
    eventually("its losses are named", || !node.overlay.losses(0).1.is_empty());
    let (_, losses) = node.overlay.losses(0);
    assert!(losses.iter().all(|loss| loss.peer == Some(any_node(DEAF))), "{losses:?}");
    drop(deaf);
}

#[test]
fn a_peer_that_stops_reading_for_a_while_hears_everything_when_it_goes_on() {
    const OTHERS: u64 = 200;
    const COUNT: u64 = 100;
    // Longer than a publication waits for its turn, so that all that were on their way are given up.
    const STOPPED: Duration = Duration::from_secs(6);
    let lines = "topics = [\"bulk\", \"news\"]\ntimeouts = { read = \"60s\", write = \"60s\" }";
    let node = Node::start(&plain(lines));
    let join = |mut hand: Hand| {
        hand.say(Message::Subscribe(Topic::new("bulk").unwrap()));
        Follower::over(hand, "news")
    };
    let mut stopped = join(Hand::join_with_little_room(node.addr(), any_node(3)));
    let mut readers: Vec<_> = (4..7).map(|number| join(Hand::join(node.addr(), any_node(number)))).collect();
    wait_for_subscriptions(&node, 4);
    let mut publisher = Hand::join(node.addr(), any_node(1));
    let mut other = Hand::join(node.addr(), any_node(2));
    let hear_all = |follower: &mut Follower| {
        while follower.count() < OTHERS + COUNT {
            follower.hear();
        }
    };
    std::thread::scope(|scope| {
        readers.iter_mut().for_each(|reader| drop(scope.spawn(|| hear_all(reader))));
        // What is being written all the while is of another topic, so nothing of this one leaves.
        for seq in 1..=OTHERS {
            other.publish(large(2, seq));
        }
        let written = || node.overlay.peers().iter().map(|peer| peer.frames_out).collect::<Vec<_>>();
        eventually("no more of them can be written", || {
            let before = written();
            std::thread::sleep(Duration::from_millis(500));
            written() == before
        });
        for seq in 1..=COUNT {
            publisher.publish(publication(1, seq, Bytes::from_static(b"small")));
        }
    });
    let queued = || {
        let peers = node.overlay.peers();
        peers.iter().find(|peer| peer.node == any_node(3)).expect("it is still there").queued as u64
    };
    let waits_at_least = queued();
    assert!(waits_at_least > 0, "nothing waits for it");
    std::thread::sleep(STOPPED);
    let waits_at_most = queued();
    hear_all(&mut stopped);
    // All that waited was given up, and each counted for the peer that it waited for.
    let peer = &any_node(3).to_string()[..11];
    let given_up = node
        .metric(&format!("backpressure_events_total{{node=\"test\",service=\"overlay\",peer=\"{peer}\"}}"));
    assert!(
        (waits_at_least..=waits_at_most).contains(&given_up),
        "{given_up} of {waits_at_least}..={waits_at_most}"
    );
}

/// A large publication in a topic of its own.
fn large(publisher: u64, seq: u64) -> Publication {
    let entry = Entry { publisher: any_node(publisher), incarnation: 1, seq };
    let large =
        Publication::new(entry.in_topic(&Topic::new("bulk").unwrap()), Bytes::from(vec![7; 60 * 1024]));
    Publication { proof: Some(proof(publisher, &large.id).into()), ..large }
}

/// Publishes at a steady pace to many readers, and perhaps one that never reads, until each of the others has heard
/// everything. The 99th percentile of how long that took, and what was lost.
fn steady(readers: u64, with_deaf: bool) -> (Duration, Vec<svc_overlay::Loss>) {
    const COUNT: u64 = 700;
    let node = pushing_node();
    let mut followers: Vec<Follower> =
        (0..readers).map(|number| Follower::join(node.addr(), 100 + number, "news")).collect();
    let deaf = with_deaf.then(|| join_deaf(&node));
    wait_for_subscriptions(&node, usize::try_from(readers).unwrap() + usize::from(with_deaf));
    let mut publisher = Hand::join(node.addr(), any_node(1));
    let sent: Vec<std::sync::OnceLock<Instant>> = (0..=COUNT).map(|_| Default::default()).collect();
    let body = Bytes::from(vec![7; 16 * 1024]);
    let mut waits: Vec<Duration> = std::thread::scope(|scope| {
        let listen = |follower: &mut Follower| -> Vec<Duration> {
            let since = |seq: u64| sent[usize::try_from(seq).unwrap()].get().unwrap().elapsed();
            (0..COUNT).map(|_| since(follower.hear().id.seq)).collect()
        };
        let reading: Vec<_> =
            followers.iter_mut().map(|follower| scope.spawn(move || listen(follower))).collect();
        for seq in 1..=COUNT {
            sent[usize::try_from(seq).unwrap()].set(Instant::now()).unwrap();
            publisher.publish(publication(1, seq, body.clone()));
        }
        reading.into_iter().flat_map(|one| one.join().unwrap()).collect()
    });
    waits.sort_unstable();
    if let Some(deaf) = deaf {
        assert!(is_there(&node, DEAF), "it was not given up meanwhile");
        drop(deaf);
        eventually("it is gone", || !is_there(&node, DEAF));
        eventually("its losses are named", || !node.overlay.losses(0).1.is_empty());
    }
    (waits[waits.len() * 99 / 100], node.overlay.losses(0).1)
}

#[test]
fn one_that_does_not_read_among_fifty_keeps_nobody_waiting() {
    // Nobody waits for the deaf peer: the others have heard everything while it is still there and has read nothing.
    let (alone, nothing) = steady(49, false);
    let (beside, losses) = steady(49, true);
    println!("p99 without a deaf peer {alone:?}, beside one {beside:?}; {} losses", losses.len());
    assert!(nothing.is_empty(), "{nothing:?}");
    let is_deaf = |loss: &svc_overlay::Loss| loss.peer == Some(any_node(DEAF));
    assert!(!losses.is_empty() && losses.iter().all(is_deaf), "{losses:?}");
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
            other => panic!("{other:?}"),
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
fn what_a_peer_publishes_right_before_it_goes_is_heard() {
    let node = Node::start(&plain(""));
    let mut heard = node.subscribe("news");
    let mut publisher = Hand::join(node.addr(), any_node(1));
    for seq in 1..=300 {
        publisher.say(Message::Publish(publication(1, seq, Bytes::from(seq.to_string()))));
    }
    publisher.socket.shutdown(std::net::Shutdown::Write).unwrap();
    for seq in 1..=300 {
        assert_eq!(node.hear(&mut heard), seq.to_string());
    }
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

#[test]
fn who_publishes_more_than_its_neighbour_takes_is_refused_and_what_is_published_arrives() {
    const OFFERED: u32 = 4000;
    let limits = "topics = [\"news\"]\npeer = { max_rps = 500 }";
    let a = Node::start(&plain(limits));
    let b = Node::start(&plain(&format!("{limits}\npeers = [\"{}\"]", a.peer())));
    a.wait_for_peers(1);
    eventually("the neighbour takes part", || a.publish("news", "before").accepted);
    let mut heard = b.subscribe("news");
    let published = std::sync::OnceLock::<BTreeSet<u32>>::new();
    let mut came = BTreeSet::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let outcomes = a.publish_many("news", OFFERED);
            let is_refused = |outcome: &Result<_, OverlayError>| *outcome == Err(OverlayError::Busy);
            let refused = outcomes.iter().filter(|(_, outcome)| is_refused(outcome)).count();
            let taken = outcomes.iter().filter(|(_, outcome)| outcome.is_ok()).map(|(number, _)| *number);
            let taken = published.get_or_init(|| taken.collect());
            assert_eq!(taken.len() + refused, OFFERED as usize);
            assert!(refused > 0 && taken.len() >= 500, "{} were published", taken.len());
            // Whoever waits for more looks again.
            eventually("this is taken on", || a.publish("news", "the last").accepted);
        });
        while published.get().is_none_or(|all| came.len() < all.len()) {
            match b.next(&mut heard) {
                Delivery::Publication { body, .. } => {
                    came.extend(str::from_utf8(&body).unwrap().parse::<u32>());
                }
                Delivery::Gap(gap) => assert_eq!(gap.reason.name(), "before_joining"),
                other => panic!("{other:?}"),
            }
        }
    });
    assert_eq!(Some(&came), published.get());
    assert_eq!(b.rejects("quota"), 0, "nothing was sent only to be refused");
}
