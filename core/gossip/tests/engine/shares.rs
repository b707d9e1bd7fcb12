//! What many publishers, many topics and greedy peers cost others.

use std::time::Duration;

use gossip::{Action, Event, Settings};
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
    bench.hear(2, Message::Subscribe(topic(30)));
    assert_eq!(dismissed(&mut bench), 1, "beyond its share a peer is told so");
    for number in 40..43 {
        bench.tell(Event::Subscribe { topic: topic(number) });
    }
    let refused = |action: &Action| matches!(action, Action::SubscribeRefused { .. });
    assert!(!bench.take().iter().any(refused), "this node itself has room");
    assert_eq!(bench.engine.stats().topics, 16);
}
