//! A node that refuses publications for now: they were never taken on, so they are refused and not lost.

use std::time::Duration;

use bytes::Bytes;
use oap::{ErrorCode, Message};
use ron_kernel::readiness::Effect;

use crate::support::{Hand, Node, any_node, plain, publication};

#[test]
fn what_a_peer_publishes_while_publications_are_shed_is_refused_and_no_loss() {
    let node = Node::start(&plain(""));
    let mut heard = node.subscribe("news");
    let readiness = node.scope.readiness();
    let condition =
        readiness.condition(node.scope.service(), "under_test", Effect::ShedWrites, Duration::ZERO);
    condition.raise("the test says so");
    let mut peer = Hand::join(node.addr(), any_node(1));
    peer.say(Message::Publish(publication(1, 1, Bytes::from_static(b"kept"))));
    let Message::Error(fault) = peer.hear_one(|said| matches!(said, Message::Error(_))) else {
        unreachable!()
    };
    assert_eq!((fault.code, fault.retry_after_ms), (ErrorCode::Busy, 1000));
    assert_eq!(fault.about, Some(publication(1, 1, Bytes::new()).id));
    assert_eq!(node.overlay.losses(0).0, 0);
    assert_eq!((node.rejects("shed"), node.rejects("busy")), (1, 0));
    condition.clear();
    readiness.settle();
    peer.say(Message::Publish(publication(1, 1, Bytes::from_static(b"kept"))));
    assert_eq!(node.hear(&mut heard), "kept", "it is taken once it is offered again");
}
