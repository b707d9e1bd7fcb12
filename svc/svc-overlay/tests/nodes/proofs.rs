//! Heads with and without their publisher's word, told by peers that were let in.

use bytes::Bytes;
use oap::{Entry, Head, IHave, Message, Publication, Topic};
use ron_transport::tls::raw_key::NodeKey;
use svc_overlay::{Delivery, NODE_KEY_FILE};

use crate::support::{Hand, Node, any_node, eventually, key_of, plain, proof, publication};

fn news() -> Topic {
    Topic::new("news").unwrap()
}

fn ihave(heads: Vec<Head>) -> Message {
    Message::IHave(IHave { topic: news(), entries: Vec::new(), heads })
}

#[test]
fn a_forged_head_ends_the_forgers_session_and_changes_nothing_for_the_publisher() {
    let node = Node::start(&plain(""));
    let mut heard = node.subscribe("news");
    let mut honest = Hand::join(node.addr(), any_node(1));
    honest.say(Message::Publish(publication(1, 1, Bytes::from_static(b"first"))));
    assert_eq!(node.hear(&mut heard), "first");
    let entry = Entry { publisher: any_node(1), incarnation: 1, seq: 1 << 40 };
    let own = proof(2, &entry.in_topic(&news()));
    let borrowed = oap::Proof { key: *key_of(1).public_key().ed25519(), ..own };
    for (number, proof) in [(2, own), (3, borrowed)] {
        let mut forger = Hand::join(node.addr(), any_node(number));
        forger.say(ihave(vec![Head { entry, proof }]));
        while forger.hear().is_some() {}
    }
    eventually("both are refused", || node.rejects("mismatch") == 2);
    honest.say(Message::Publish(publication(1, 2, Bytes::from_static(b"second"))));
    match node.next(&mut heard) {
        Delivery::Publication { body, .. } => assert_eq!(body, "second"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_publication_that_claims_to_come_from_its_publisher_and_does_not_is_refused() {
    let node = Node::start(&plain(""));
    let mut heard = node.subscribe("news");
    let mut forger = Hand::join(node.addr(), any_node(2));
    forger.say(Message::Publish(publication(1, 1, Bytes::from_static(b"in its name"))));
    while forger.hear().is_some() {}
    let mut relay = Hand::join(node.addr(), any_node(3));
    let passed_on = Publication { hops: 1, ..publication(1, 1, Bytes::from_static(b"passed on")) };
    relay.say(Message::Publish(passed_on));
    assert_eq!(node.hear(&mut heard), "passed on");
}

#[test]
fn a_node_that_peers_know_a_later_life_of_stays_a_member_and_goes_on_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start_in(Some(dir.path()), &plain("topics = [\"news\"]"));
    let key = NodeKey::load(&dir.path().join(NODE_KEY_FILE)).unwrap();
    let later = u64::MAX / 2;
    let entry = Entry { publisher: node.overlay.node(), incarnation: later, seq: 9 };
    let signature = key.sign(&entry.in_topic(&news()).head_bytes());
    let proof = oap::Proof { key: *key.public_key().ed25519(), signature };
    let mut peer = Hand::join(node.addr(), any_node(1));
    peer.say(ihave(vec![Head { entry, proof }]));
    eventually("it has heard", || {
        node.metric("overlay_outlived_total{node=\"test\",service=\"overlay\"}") == 1
    });
    assert_eq!(node.publish("news", "still here").id.incarnation, later + 1);
    assert_eq!(node.overlay.peers().len(), 1, "nobody was dismissed");
}
