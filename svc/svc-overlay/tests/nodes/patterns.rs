//! Patterns that peers tell of: what a node does about them.

use std::net::SocketAddr;

use bytes::Bytes;
use oap::{ErrorCode, Features, Hello, IWant, Message, Publication, Topic, WantedPattern};

use crate::support::{Hand, Node, any_node, hello, plain, publication};

/// A peer that has the feature.
fn join(addr: SocketAddr, number: u64) -> Hand {
    let mut hand = Hand::connect(addr);
    hand.say(Message::Hello(Hello { features: Features::PATTERNS, ..hello(any_node(number)) }));
    let Some(Message::Hello(theirs)) = hand.hear() else { panic!("no HELLO") };
    assert!(theirs.features.has(Features::PATTERNS));
    hand
}

fn wanted(pattern: &str, hops: u8) -> Vec<WantedPattern> {
    vec![WantedPattern { pattern: pattern.into(), hops }]
}

#[test]
fn a_node_takes_part_in_what_a_peer_wants_by_a_pattern_and_passes_the_pattern_on() {
    let node = Node::start(&plain(""));
    let (mut far, mut near) = (join(node.addr(), 1), join(node.addr(), 2));
    node.wait_for_peers(2);
    far.say(Message::Patterns(wanted("news.>", 3)));
    let Message::Patterns(told) = near.hear_one(|said| matches!(said, Message::Patterns(_))) else {
        unreachable!()
    };
    assert_eq!(told, wanted("news.>", 2), "with a link less");
    // Somebody else takes part in a topic that is meant: so does the node, and its peers hear of it.
    let topic = Topic::new("news.eu").unwrap();
    near.say(Message::Subscribe(Topic::new("other").unwrap()));
    near.say(Message::Subscribe(topic.clone()));
    let Message::Subscribe(joined) = far.hear_one(|said| matches!(said, Message::Subscribe(_))) else {
        unreachable!()
    };
    assert_eq!(joined, topic);
    far.say(Message::Subscribe(topic.clone()));
    near.hear_one(|said| matches!(said, Message::Subscribe(said) if *said == topic));
    let news = publication(2, 1, Bytes::from_static(b"passed on"));
    let id = news.id.entry().in_topic(&topic);
    let proof = Some(crate::support::proof(2, &id).into());
    near.say(Message::Publish(Publication { proof, ..Publication::new(id, news.body) }));
    // If it was published before the peer was known to take part, it is announced, and asked for.
    let heard = loop {
        match far.hear().expect("the node goes on") {
            Message::Publish(heard) => break heard,
            Message::IHave(have) => {
                let heads = have.heads.iter().map(|head| head.entry);
                let entries: Vec<_> = have.entries.iter().copied().chain(heads).collect();
                if !entries.is_empty() {
                    far.say(Message::IWant(IWant { topic: have.topic, entries }));
                }
            }
            _ => {}
        }
    };
    assert_eq!(&heard.body[..], b"passed on");
    // Nobody subscribes here, so nothing is delivered here.
    assert_eq!(node.metric("overlay_delivered_total"), 0);
    // The peer wants nothing any more, and that is passed on too.
    far.say(Message::Patterns(Vec::new()));
    let Message::Patterns(told) = near.hear_one(|said| matches!(said, Message::Patterns(_))) else {
        unreachable!()
    };
    assert_eq!(told, []);
}

#[test]
fn patterns_of_a_peer_that_did_not_agree_on_them_are_refused() {
    let node = Node::start(&plain(""));
    let mut peer = Hand::join(node.addr(), any_node(1));
    peer.say(Message::Patterns(wanted("news.>", 1)));
    let Message::Error(fault) = peer.hear_one(|said| matches!(said, Message::Error(_))) else {
        unreachable!()
    };
    assert_eq!(fault.code, ErrorCode::UnknownKind);
    while peer.hear().is_some() {}
    assert_eq!(node.rejects("unknown_kind"), 1);
}

#[test]
fn a_node_that_is_told_not_to_does_not_offer_patterns() {
    let node = Node::start(&plain("gossip = { pattern_hops = 0 }"));
    let mut peer = Hand::connect(node.addr());
    peer.say(Message::Hello(Hello { features: Features::PATTERNS, ..hello(any_node(1)) }));
    let Some(Message::Hello(theirs)) = peer.hear() else { panic!("no HELLO") };
    assert!(!theirs.features.has(Features::PATTERNS));
}

/// Has the node relay a topic that nobody subscribes to here.
fn relayed(node: &Node, name: &str) -> (Hand, Hand) {
    let (mut far, mut near) = (join(node.addr(), 1), join(node.addr(), 2));
    node.wait_for_peers(2);
    far.say(Message::Patterns(wanted("news.>", 3)));
    near.hear_one(|said| matches!(said, Message::Patterns(_)));
    let topic = Topic::new(name).unwrap();
    near.say(Message::Subscribe(topic.clone()));
    far.hear_one(|said| matches!(said, Message::Subscribe(said) if *said == topic));
    (far, near)
}

#[test]
fn a_subscriber_comes_back_to_all_that_was_published_in_a_topic_that_is_relayed_too() {
    let node = Node::start(&plain(""));
    let _peers = relayed(&node, "news.eu");
    let mut heard = node.subscribe("news.eu");
    node.publish("news.eu", "1");
    let (last, _) = node.next_event(&mut heard);
    drop(heard);
    node.publish("news.eu", "2");
    let mut heard = node.resume("news.eu", last);
    node.publish("news.eu", "3");
    assert_eq!([node.hear(&mut heard), node.hear(&mut heard)], ["2", "3"]);
}

#[test]
fn a_subscriber_is_told_how_much_it_missed_of_a_topic_that_was_relayed_only() {
    let node = Node::start(&plain(""));
    let _peers = relayed(&node, "news.eu");
    // Nothing is kept of these.
    (1..=3).for_each(|number| drop(node.publish("news.eu", &number.to_string())));
    let mut heard = node.subscribe("news.eu");
    node.publish("news.eu", "4");
    let (last, _) = node.next_event(&mut heard);
    assert!(last.to_string().ends_with("-4"), "{last}");
    let before = last.to_string().replace("-4", "-1").parse().unwrap();
    let mut again = node.resume("news.eu", before);
    assert!(matches!(node.next(&mut again), svc_overlay::Delivery::Lagging(2)));
    assert_eq!(node.hear(&mut again), "4");
}

#[test]
fn one_peer_with_many_patterns_keeps_no_other_peers_from_being_announced() {
    let node = Node::start(&plain(""));
    let (mut greedy, mut modest, mut told) =
        (join(node.addr(), 1), join(node.addr(), 2), join(node.addr(), 3));
    node.wait_for_peers(3);
    modest.say(Message::Patterns(wanted("news.>", 4)));
    let many = (0..oap::PATTERNS_MAX).map(|number| format!("*.{number:02}"));
    let many =
        many.map(|pattern| WantedPattern { pattern: pattern.as_str().into(), hops: oap::PATTERN_HOPS_MAX });
    greedy.say(Message::Patterns(many.collect()));
    loop {
        let Message::Patterns(list) = told.hear_one(|said| matches!(said, Message::Patterns(_))) else {
            unreachable!()
        };
        if list.len() == oap::PATTERNS_MAX {
            assert!(list.iter().any(|wanted| &*wanted.pattern == "news.>"), "{list:?}");
            assert!(
                list.iter().all(|wanted| wanted.hops == 3),
                "as if the node had them from its neighbours"
            );
            break;
        }
    }
}
