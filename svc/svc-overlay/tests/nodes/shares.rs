//! Topics are shared: what one peer wants or invents takes nothing away from others, nor from the node itself.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use bytes::Bytes;
use oap::{Entry, Features, Hello, Message, Publication, Topic, WantedPattern};

use crate::support::{Hand, Node, SOON, any_node, hello, plain};

/// A peer that has patterns.
fn join(addr: SocketAddr, number: u64) -> Hand {
    let mut hand = Hand::connect(addr);
    hand.say(Message::Hello(Hello { features: Features::PATTERNS, ..hello(any_node(number)) }));
    let Some(Message::Hello(_)) = hand.hear() else { panic!("no HELLO") };
    hand
}

fn wants(hand: &mut Hand, pattern: &str) {
    hand.say(Message::Patterns(vec![WantedPattern { pattern: pattern.into(), hops: 3 }]));
}

fn takes_part(hand: &mut Hand, topic: &str) {
    hand.say(Message::Subscribe(Topic::new(topic).unwrap()));
}

/// Waits until the node takes part in so many topics that begin with `prefix`.
fn hears_of(hand: &mut Hand, prefix: &str, count: usize) {
    let (begun, mut heard) = (Instant::now(), std::collections::BTreeSet::new());
    while heard.len() < count {
        // The node says other things as long as the session lasts.
        assert!(begun.elapsed() < SOON, "{heard:?}");
        if let Message::Subscribe(topic) = hand.hear().expect("the node goes on") {
            heard.extend(topic.as_str().starts_with(prefix).then_some(topic));
        }
    }
}

/// Waits until the node has looked at all that a peer said so far. The topic `sync` is one of the configuration, with
/// something published in it.
fn is_heard_out(hand: &mut Hand) {
    takes_part(hand, "sync");
    hand.hear_one(|said| match said {
        Message::IHave(have) => have.topic.as_str() == "sync",
        Message::Publish(publication) => publication.id.topic.as_str() == "sync",
        _ => false,
    });
}

#[test]
fn a_peer_with_wide_patterns_and_many_topics_leaves_room_to_relay_for_others() {
    // Sixteen of them may be relayed.
    let node = Node::start_on_one_core(&plain("gossip = { max_topics = 64 }"));
    let (mut greedy, mut accomplice) = (join(node.addr(), 1), join(node.addr(), 2));
    let (mut modest, mut publisher) = (join(node.addr(), 3), join(node.addr(), 4));
    node.wait_for_peers(4);
    wants(&mut greedy, ">");
    accomplice.hear_one(|said| matches!(said, Message::Patterns(_)));
    (0..30).for_each(|number| takes_part(&mut accomplice, &format!("spam.{number}")));
    hears_of(&mut greedy, "spam.", 16);
    wants(&mut modest, "news.>");
    publisher.hear_one(|said| match said {
        Message::Patterns(list) => list.iter().any(|wanted| &*wanted.pattern == "news.>"),
        _ => false,
    });
    takes_part(&mut publisher, "news.eu");
    hears_of(&mut modest, "news.", 1);
}

#[test]
fn a_topic_that_was_relayed_and_is_configured_now_does_not_make_way() {
    // Sixteen of them may be relayed.
    const SETTINGS: &str = "gossip = { max_topics = 64 }";
    let node = Node::start_on_one_core(&plain(SETTINGS));
    let (mut greedy, mut accomplice) = (join(node.addr(), 1), join(node.addr(), 2));
    let (mut modest, mut publisher) = (join(node.addr(), 3), join(node.addr(), 4));
    node.wait_for_peers(4);
    wants(&mut greedy, ">");
    accomplice.hear_one(|said| matches!(said, Message::Patterns(_)));
    (0..16).for_each(|number| takes_part(&mut accomplice, &format!("spam.{number:02}")));
    hears_of(&mut greedy, "spam.", 16);
    // The last one by name would make way.
    node.reload(&plain(&format!("topics = [\"spam.15\"]\n{SETTINGS}")));
    wants(&mut modest, "news.>");
    publisher.hear_one(|said| match said {
        Message::Patterns(list) => list.iter().any(|wanted| &*wanted.pattern == "news.>"),
        _ => false,
    });
    (0..16).for_each(|number| takes_part(&mut publisher, &format!("news.{number:02}")));
    hears_of(&mut modest, "news.", 4);
    let id =
        Entry { publisher: any_node(2), incarnation: 1, seq: 1 }.in_topic(&Topic::new("spam.15").unwrap());
    let proof = Some(crate::support::proof(2, &id).into());
    accomplice.publish(Publication { proof, ..Publication::new(id, Bytes::from_static(b"taken on")) });
}

#[test]
fn topics_that_are_relayed_leave_the_reserved_ones_to_the_node() {
    // Four of them are reserved, of which `sync` is one.
    let node = Node::start_on_one_core(&plain("topics = [\"sync\"]\ngossip = { max_topics = 16 }"));
    node.publish("sync", "ready");
    let mut wanting = join(node.addr(), 1);
    let mut others: Vec<Hand> = (2..5).map(|number| join(node.addr(), number)).collect();
    node.wait_for_peers(4);
    wants(&mut wanting, "spam.>");
    others[0].hear_one(|said| matches!(said, Message::Patterns(_)));
    for (at, count) in [6, 6, 3].into_iter().enumerate() {
        (0..count).for_each(|number| takes_part(&mut others[at], &format!("spam.{at}.{number}")));
        is_heard_out(&mut others[at]);
    }
    for topic in ["own.1", "own.2", "own.3"] {
        let mut heard = node.subscribe(topic);
        node.publish(topic, "there is room");
        assert_eq!(node.hear(&mut heard), "there is room");
        // Still heard of for a while, so that its place stays taken.
        drop(heard);
    }
    assert_eq!(node.overlay.peers().len(), 4, "no peer is dismissed for what others took");
}

#[test]
fn patterns_that_change_all_the_time_are_announced_once_in_a_while() {
    let node = Node::start(&plain(""));
    let (mut restless, mut told) = (join(node.addr(), 1), join(node.addr(), 2));
    node.wait_for_peers(2);
    let (begun, mut changes, mut announcements) = (Instant::now(), 0, 0);
    while begun.elapsed() < Duration::from_secs(12) {
        changes += 1;
        wants(&mut restless, &format!("made-up.{changes}.>"));
        while told.hears_within(Duration::from_millis(20)) {
            announcements += usize::from(matches!(told.hear(), Some(Message::Patterns(_))));
        }
    }
    assert!(changes > 50, "{changes}");
    assert!((1..=4).contains(&announcements), "{announcements}");
}
