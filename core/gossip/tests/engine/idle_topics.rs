//! Topics in which nothing is published any more and nobody takes part are forgotten, and their numbers are not.

use std::time::Duration;

use bytes::Bytes;
use gossip::{Action, Claim, Event, Settings};
use oap::{Entry, Head, IHave, Message, Topic};

use crate::support::{Bench, node, proof};

const REMEMBERED: Duration = Duration::from_secs(600);

fn other(number: u32) -> Topic {
    Topic::new(&format!("other.{number}")).expect("a good name")
}

/// Publishes in another topic; the publication's number.
fn publish(bench: &mut Bench, topic: &Topic) -> Option<(u64, u64)> {
    bench.take();
    bench.tell(Event::Publish { ticket: 1, topic: topic.clone(), body: Bytes::from_static(b"hello") });
    bench.actions.iter().find_map(|action| match action {
        Action::Verdict { id, .. } => id.as_ref().map(|id| (id.incarnation, id.seq)),
        _ => None,
    })
}

/// Few topics, and heartbeats that do not make the test slow.
fn settings() -> Settings {
    Settings { max_topics: 8, ..Settings::default() }
}

#[test]
fn a_topic_is_forgotten_after_ten_idle_minutes_and_its_numbers_go_on() {
    let mut bench = Bench::new(settings());
    let topic = other(0);
    for seq in 1..=3 {
        assert_eq!(publish(&mut bench, &topic), Some((1, seq)));
    }
    bench.pass(REMEMBERED / 2);
    assert!(bench.engine.knows_topic(&topic), "it may still be asked for");
    bench.pass(REMEMBERED);
    assert!(!bench.engine.knows_topic(&topic));
    assert_eq!(bench.engine.topic_count(), 1, "the one it takes part in stays");
    assert_eq!(publish(&mut bench, &topic), Some((1, 4)), "in the same life, and no number twice");
}

#[test]
fn forgotten_topics_make_room_for_others() {
    let mut bench = Bench::new(settings());
    for round in 0..5 {
        for number in 0..7 {
            assert!(publish(&mut bench, &other(round * 7 + number)).is_some(), "{round} {number}");
        }
        assert_eq!(publish(&mut bench, &other(1000 + round)), None, "there is room for eight");
        bench.pass(REMEMBERED + Duration::from_secs(60));
    }
    for number in 0..7 {
        assert_eq!(publish(&mut bench, &other(number)), Some((1, 2)));
    }
}

#[test]
fn a_topic_that_a_peer_takes_part_in_is_not_forgotten() {
    let mut bench = Bench::new(settings());
    let topic = other(0);
    assert_eq!(publish(&mut bench, &topic), Some((1, 1)));
    bench.connect(1);
    bench.hear(1, Message::Subscribe(topic.clone()));
    bench.pass(REMEMBERED * 2);
    assert!(bench.engine.knows_topic(&topic));
    bench.hear(1, Message::Unsubscribe(topic.clone()));
    bench.pass(Duration::from_secs(60));
    assert!(!bench.engine.knows_topic(&topic), "nobody is left");
}

#[test]
fn a_peer_that_tells_what_was_published_before_it_was_forgotten_begins_no_new_life() {
    let mut bench = Bench::new(settings());
    let topic = other(0);
    assert_eq!(publish(&mut bench, &topic), Some((1, 1)));
    assert_eq!(publish(&mut bench, &topic), Some((1, 2)));
    bench.pass(REMEMBERED + Duration::from_secs(60));
    bench.connect(1);
    bench.tell(Event::Subscribe { topic: topic.clone(), claim: Claim::Own });
    bench.hear(1, Message::Subscribe(topic.clone()));
    let entry = Entry { publisher: node(0), incarnation: 1, seq: 2 };
    let heads = vec![Head { entry, proof: proof(entry) }];
    bench.hear(1, Message::IHave(IHave { topic: topic.clone(), entries: Vec::new(), heads }));
    let own = oap::Publication {
        hops: 1,
        proof: Some(proof(entry).into()),
        ..oap::Publication::new(entry.in_topic(&topic), Bytes::from_static(b"hello"))
    };
    bench.hear(1, Message::Publish(own));
    assert!(!bench.actions.iter().any(|action| matches!(action, Action::Outlived { .. })));
    assert!(!bench.is_misbehaviour_seen());
    // The peer takes part, so the verdict is its to give.
    bench.take();
    bench.tell(Event::Publish { ticket: 2, topic: topic.clone(), body: Bytes::new() });
    let sent = bench.said_to(1).into_iter().find_map(|message| match message {
        Message::Publish(publication) => Some((publication.id.incarnation, publication.id.seq)),
        _ => None,
    });
    assert_eq!(sent, Some((1, 3)));
}
