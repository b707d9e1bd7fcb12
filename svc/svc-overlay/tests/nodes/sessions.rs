//! Sessions begin, carry publications, and end.

use std::time::Duration;

use oap::{ErrorCode, Message};

use crate::support::{Hand, Node, any_node, eventually, hello, plain};

#[test]
fn what_one_node_publishes_the_other_hears() {
    let a = Node::start(&plain(""));
    let b = Node::start(&plain(&format!("peers = [\"{}\"]", a.peer())));
    a.wait_for_peers(1);
    b.wait_for_peers(1);
    let mut heard = b.subscribe("news");
    // Whether the neighbour takes part already is not for the publisher to wait for.
    eventually("the neighbour takes part", || a.publish("news", "first").accepted);
    assert_eq!(b.hear(&mut heard), "first");
    // An acknowledgement that takes long on a busy machine is as good as none.
    eventually("it is taken on", || a.publish("news", "second").accepted);
    while b.hear(&mut heard) != "second" {}
}

#[test]
fn a_node_that_begins_sessions_all_the_time_is_refused_and_others_are_not() {
    let node = Node::start(&plain(""));
    let refused = (0..500).find_map(|_| {
        let mut hand = Hand::connect(node.addr());
        hand.say(Message::Hello(hello(any_node(1))));
        match hand.hear() {
            Some(Message::Error(fault)) => Some(fault.code),
            _ => None,
        }
    });
    assert_eq!((refused, node.rejects("quota")), (Some(ErrorCode::Quota), 1));
    Hand::join(node.addr(), any_node(2));
}

#[test]
fn alone_a_publication_is_known_here_only() {
    let a = Node::start(&plain(""));
    assert!(!a.publish("news", "nobody hears").accepted);
}

#[test]
fn three_in_a_row_pass_on_what_comes() {
    let a = Node::start(&plain("topics = [\"news\"]"));
    let b = Node::start(&plain(&format!("topics = [\"news\"]\npeers = [\"{}\"]", a.peer())));
    let c = Node::start(&plain(&format!("topics = [\"news\"]\npeers = [\"{}\"]", b.peer())));
    b.wait_for_peers(2);
    let mut heard = c.subscribe("news");
    eventually("the neighbour takes part", || a.publish("news", "from afar").accepted);
    assert_eq!(c.hear(&mut heard), "from afar");
}

#[test]
fn of_two_connections_between_two_nodes_one_stays() {
    let a = Node::start(&plain(""));
    let b = Node::start(&plain(&format!("peers = [\"{}\"]", a.peer())));
    a.wait_for_peers(1);
    a.reload(&plain(&format!("peers = [\"{}\"]", b.peer())));
    // Both dial; whichever loses is closed as a duplicate or never begun, and one session is left.
    eventually("one session each", || {
        let (ours, theirs) = (a.overlay.peers(), b.overlay.peers());
        ours.len() == 1 && theirs.len() == 1 && ours[0].dialled != theirs[0].dialled
    });
}

#[test]
fn a_node_that_stops_says_goodbye_and_leaves_nothing_running() {
    let a = Node::start(&plain(""));
    let b = Node::start(&plain(&format!("peers = [\"{}\"]", a.peer())));
    a.wait_for_peers(1);
    b.wait_for_peers(1);
    let exit = b.stop();
    assert_eq!(exit.code, ron_kernel::ExitCode::Clean, "{exit}");
    a.wait_for_peers(0);
    eventually("the reason is counted", || a.closes("peer_closed") == 1);
}

#[test]
fn connections_that_say_nothing_keep_no_newcomer_out() {
    // As many as there are places for handshakes, and more; each could stay for half a minute.
    let node = Node::start(&plain("handshake_timeout = \"30s\""));
    let silent: Vec<_> = (0..300).map(|_| Hand::connect(node.addr())).collect();
    let mut newcomer = Hand::connect(node.addr());
    newcomer.socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    newcomer.say(Message::Hello(hello(any_node(1))));
    assert!(matches!(newcomer.hear(), Some(Message::Hello(_))));
    node.wait_for_peers(1);
    assert!(node.rejects("busy") >= 45, "the oldest of them made way");
    drop(silent);
}
