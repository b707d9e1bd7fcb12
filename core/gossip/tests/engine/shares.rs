//! What many publishers, many topics and greedy peers cost others.

use std::time::Duration;

use gossip::{Action, Claim, Event, Settings};
use oap::{Entry, LIST_MAX, Message, Topic};

use crate::support::{Bench, entry};

/// How many publications a neighbour is asked for in each message.
fn asked(bench: &mut Bench, number: u8) -> Vec<usize> {
    let asked = |message: &Message| match message {
        Message::IWant(want) => Some(want.entries.len()),
        _ => None,
    };
    bench.said_to(number).iter().filter_map(asked).collect()
}

#[test]
fn what_is_missing_of_many_publishers_is_asked_for_in_one_message() {
    let mut bench = Bench::new(Settings::default());
    bench.join(1);
    let heads: Vec<Entry> = (10..90).map(|publisher| entry(publisher, 1)).collect();
    bench.hear_heads(1, &heads);
    bench.take();
    bench.pass(Settings::default().graft_after);
    let grafted = bench.said_to(1).iter().filter(|message| matches!(message, Message::Graft(_))).count();
    let asked = asked(&mut bench, 1);
    assert_eq!((asked.len(), asked.iter().sum::<usize>() + grafted), (1, heads.len()));
}

#[test]
fn no_message_asks_for_more_than_fits_it() {
    let settings = Settings { history: 2000, dedupe_window: 4096, ..Settings::default() };
    let mut bench = Bench::new(settings);
    bench.join(1);
    let heads: Vec<Entry> = (10..20).map(|publisher| entry(publisher, 1000)).collect();
    bench.hear_heads(1, &heads);
    bench.take();
    bench.pass(Settings::default().graft_after + Duration::from_millis(10));
    let asked = asked(&mut bench, 1);
    assert!(asked.len() <= 3 && asked.iter().all(|count| *count <= LIST_MAX), "{asked:?}");
    assert_eq!(asked.first(), Some(&LIST_MAX));
}

fn topic(number: u32) -> Topic {
    Topic::new(&format!("topic/{number}")).expect("a good name")
}

/// Neighbours that were to be dismissed since that was last looked at.
fn dismissed(bench: &mut Bench) -> usize {
    bench.take().iter().filter(|action| matches!(action, Action::Misbehaved { .. })).count()
}

#[test]
fn a_peer_that_takes_part_in_everything_makes_room_for_others() {
    let mut bench = Bench::new(Settings { max_topics: 16, ..Settings::default() });
    (1..=3).for_each(|number| bench.connect(number));
    for number in 0..12 {
        bench.hear(1, Message::Subscribe(topic(number)));
    }
    assert_eq!(dismissed(&mut bench), 0, "three quarters of the topics are for those of peers");
    for number in 20..26 {
        bench.hear(2, Message::Subscribe(topic(number)));
    }
    assert_eq!(dismissed(&mut bench), 0, "the other one has the most, and makes room");
    // Beyond its share it is not heard. It may have applications that want so many, and keeps its session.
    (30..60).for_each(|number| bench.hear(2, Message::Subscribe(topic(number))));
    assert_eq!(bench.engine.peers_in(&topic(30)).count(), 0);
    assert_eq!(dismissed(&mut bench), 0);
    for number in 70..73 {
        bench.tell(Event::Subscribe { topic: topic(number), claim: Claim::Own });
    }
    let refused = |action: &Action| matches!(action, Action::SubscribeRefused { .. });
    assert!(!bench.take().iter().any(refused), "this node itself has room");
    assert_eq!(bench.engine.stats().topics, 16);
}

/// Whether this node was refused a topic since that was last looked at.
fn is_refused(bench: &mut Bench) -> bool {
    bench.take().iter().any(|action| matches!(action, Action::SubscribeRefused { .. }))
}

fn subscribe(bench: &mut Bench, number: u32, claim: Claim) -> bool {
    bench.tell(Event::Subscribe { topic: topic(number), claim });
    !is_refused(bench)
}

#[test]
fn topics_that_are_relayed_leave_what_is_reserved_to_the_node() {
    // Of sixteen topics four are reserved, one of which the node has.
    let mut bench = Bench::new(Settings { max_topics: 16, ..Settings::default() });
    (1..=3).for_each(|number| bench.connect(number));
    for number in 0..12 {
        bench.hear(1 + (number % 2) as u8, Message::Subscribe(topic(number)));
    }
    (0..4).for_each(|number| assert!(subscribe(&mut bench, number, Claim::Peers)));
    for number in 20..26 {
        bench.hear(3, Message::Subscribe(topic(number)));
    }
    assert_eq!(dismissed(&mut bench), 0, "what others took is not the peer's fault");
    assert_eq!(bench.engine.stats().topics, 13);
    (50..53).for_each(|number| assert!(subscribe(&mut bench, number, Claim::Own), "{number}"));
    assert_eq!(bench.engine.stats().topics, 16);
}

#[test]
fn what_the_node_wants_itself_takes_the_place_of_what_only_peers_want() {
    let mut bench = Bench::new(Settings { max_topics: 16, ..Settings::default() });
    bench.connect(1);
    (0..12).for_each(|number| bench.hear(1, Message::Subscribe(topic(number))));
    (20..35).for_each(|number| assert!(subscribe(&mut bench, number, Claim::Own), "{number}"));
    assert!(!subscribe(&mut bench, 40, Claim::Own), "sixteen are all");
    assert_eq!(bench.engine.stats().topics, 16);
}

/// How many topics an application gets.
fn taken(bench: &mut Bench, first: u32, application: u64) -> usize {
    let claim = Claim::Application(application);
    (first..first + 100)
        .filter(|number| {
            bench.engine.has_room_for(&topic(*number), claim) && subscribe(bench, *number, claim)
        })
        .count()
}

#[test]
fn one_application_leaves_topics_to_others_and_to_peers() {
    // Of 32 topics eight are reserved.
    let mut bench = Bench::new(Settings { max_topics: 32, ..Settings::default() });
    bench.connect(1);
    assert_eq!(taken(&mut bench, 100, 1), 18, "three times what is left");
    assert_eq!(taken(&mut bench, 200, 2), 5);
    assert_eq!(taken(&mut bench, 300, 3), 1);
    assert!(bench.engine.has_room_for(&topic(100), Claim::Application(4)), "it is there already");
    // What was published in counts until it is forgotten.
    bench.tell(Event::Publish { ticket: 1, topic: topic(100), body: bytes::Bytes::new() });
    bench.tell(Event::Unsubscribe { topic: topic(100) });
    bench.tell(Event::Unsubscribe { topic: topic(101) });
    assert_eq!(taken(&mut bench, 400, 4), 1);
    assert!(subscribe(&mut bench, 500, Claim::Own));
}

#[test]
fn peers_that_invent_topics_do_not_keep_applications_out() {
    let mut bench = Bench::new(Settings { max_topics: 32, ..Settings::default() });
    bench.connect(1);
    (0..24).for_each(|number| bench.hear(1, Message::Subscribe(topic(number))));
    assert_eq!(taken(&mut bench, 100, 1), 12, "of all but the eight that are left to peers");
    assert_eq!(bench.engine.stats().topics, 25);
    assert_eq!(bench.engine.peers_in(&topic(100)).count(), 0);
}
