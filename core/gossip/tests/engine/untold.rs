//! Telling peers of very many topics: a few at a time, none is forgotten, and the last word is right.

use std::{collections::BTreeMap, time::Duration};

use gossip::{Action, Claim, Event, Kind, Packet, PeerKey, Settings};
use oap::{Message, Topic};

use crate::support::Bench;

const PEER: PeerKey = PeerKey(1);

fn topic(number: u32) -> Topic {
    Topic::new(&format!("topic/{number}")).expect("a good name")
}

fn bench() -> Bench {
    let mut bench = Bench::new(Settings { max_topics: 4096, ..Settings::default() });
    bench.connect(1);
    bench.take();
    bench.tell(Event::TopicsTold { peer: PEER, count: 1 });
    bench
}

fn subscribe(bench: &mut Bench, number: u32, claim: Claim) {
    bench.tell(Event::Subscribe { topic: topic(number), claim });
}

/// Packets about topics that were to be sent since that was last looked at.
fn told(bench: &mut Bench) -> Vec<Packet> {
    let told = |action: Action| match action {
        Action::Send { packet, .. } if packet.kind() == Kind::Membership => Some(packet),
        _ => None,
    };
    bench.take().into_iter().filter_map(told).collect()
}

/// Has the peer take everything; which topics it was told to be joined, in the end.
fn take_all(bench: &mut Bench) -> BTreeMap<Topic, bool> {
    let mut known = BTreeMap::new();
    loop {
        let packets = told(bench);
        if packets.is_empty() {
            return known;
        }
        assert!(packets.len() <= 16, "{} at once", packets.len());
        for packet in &packets {
            match packet.message() {
                Message::Subscribe(topic) => known.insert(topic.clone(), true),
                Message::Unsubscribe(topic) => known.insert(topic.clone(), false),
                other => panic!("{other:?}"),
            };
        }
        bench.tell(Event::TopicsTold { peer: PEER, count: u32::try_from(packets.len()).expect("few") });
    }
}

#[test]
fn very_many_topics_are_told_a_few_at_a_time() {
    let mut bench = bench();
    (0..2000).for_each(|number| subscribe(&mut bench, number, Claim::Application(1)));
    let known = take_all(&mut bench);
    assert_eq!(known.values().filter(|joined| **joined).count(), 2000);
    // A peer that comes later hears of all of them, too, and of the node's own first.
    subscribe(&mut bench, 5000, Claim::Own);
    take_all(&mut bench);
    bench.tell(Event::PeerDown { peer: PEER });
    bench.connect(1);
    let first = told(&mut bench);
    assert_eq!(first.len(), 16);
    assert!(first.iter().any(|packet| packet.topic() == Some(&topic(5000))), "{first:?}");
    bench.tell(Event::TopicsTold { peer: PEER, count: 16 });
    // One of the others is the topic of the bench.
    assert_eq!(take_all(&mut bench).len() + first.len(), 2002);
}

#[test]
fn the_last_word_on_a_topic_is_told() {
    let mut bench = bench();
    (0..100).for_each(|number| subscribe(&mut bench, number, Claim::Own));
    (0..100).for_each(|number| bench.tell(Event::Unsubscribe { topic: topic(number) }));
    subscribe(&mut bench, 7, Claim::Own);
    let known = take_all(&mut bench);
    assert_eq!(known.iter().filter(|(_, joined)| **joined).collect::<Vec<_>>(), [(&topic(7), &true)]);
}

#[test]
fn what_a_full_queue_refused_is_told_later() {
    let mut bench = bench();
    (0..40).for_each(|number| subscribe(&mut bench, number, Claim::Own));
    for packet in told(&mut bench) {
        bench.tell(Event::Refused { peer: PEER, packet });
    }
    assert!(told(&mut bench).is_empty(), "not at once, or nothing else would be done");
    bench.pass(Duration::from_secs(1));
    assert_eq!(take_all(&mut bench).values().filter(|joined| **joined).count(), 40);
}

#[test]
fn what_a_peer_that_takes_nothing_is_not_told_is_bounded() {
    let mut bench = Bench::new(Settings { max_topics: 16, ..Settings::default() });
    bench.connect(1);
    for number in 0..100_000 {
        subscribe(&mut bench, number, Claim::Own);
        bench.tell(Event::Unsubscribe { topic: topic(number) });
        bench.take();
    }
    bench.tell(Event::TopicsTold { peer: PEER, count: 16 });
    assert!(take_all(&mut bench).len() <= 2 * 16 + 1024);
}
