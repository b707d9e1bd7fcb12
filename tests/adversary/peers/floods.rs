//! Floods of what is right by itself.

use bytes::Bytes;
use oap::{Entry, ErrorCode, Fault, Goaway, Graft, IWant, Message, Publication, Topic};

use super::{
    ground::Ground,
    liar::{Liar, news},
};
use crate::{
    overlay_node::{Home, OverlayNode},
    support::{eventually, get},
};

#[test]
fn floods_of_requests_for_publications_slow_nobody_down() {
    Ground::start("").endure(|liar, honest, number| {
        let of = &honest[usize::try_from(number % 2).unwrap()];
        let last = of.ahead(0);
        let entries = (0..1024).map(|back| oap::Entry { seq: last.seq.saturating_sub(back).max(1), ..last });
        liar.say(Message::IWant(IWant { topic: news(), entries: entries.collect() }))
    });
}

#[test]
fn grafts_and_prunes_without_end_change_nothing_for_others() {
    Ground::start("").endure(|liar, honest, number| {
        let missing = Some(honest[usize::try_from(number % 2).unwrap()].ahead(number % 3));
        liar.say(Message::Graft(Graft { topic: news(), missing })) && liar.say(Message::Prune(news()))
    });
}

#[test]
fn topics_of_a_peer_leave_room_for_those_of_others() {
    let ground = Ground::start("");
    ground.endure(|liar, _, number| {
        // It takes part in more and more topics, and stays.
        let topic = |number: u64| Topic::new(&format!("flood/{number}")).unwrap();
        liar.say(Message::Subscribe(topic(number)))
            && (number % 64 != 0 || liar.say(Message::Unsubscribe(topic(number / 2))))
    });
}

#[test]
fn a_node_with_a_crowd_of_foreign_topics_can_still_join_one() {
    let ground = Ground::start("");
    let mut liars: Vec<_> = Vec::new();
    for node in ground.nodes() {
        // As many as fill a node's tables, whatever its share of them is.
        for liar in 0..8 {
            let Some(mut one) = super::liar::Liar::join(node.addr) else { continue };
            for number in 0..400 {
                let topic = Topic::new(&format!("crowd/{liar}/{number}")).unwrap();
                one.say(Message::Subscribe(topic));
            }
            liars.push(one);
        }
    }
    crate::support::eventually("all of it was looked at", || {
        let frames = |node: &crate::overlay_node::OverlayNode| {
            node.peers().iter().map(|peer| peer["frames_in"].as_u64().unwrap()).sum::<u64>()
        };
        ground.nodes().iter().all(|node| frames(node) > 300).then_some(())
    });
    for number in 0..4 {
        ground.is_usable(&format!("late/{number}"));
    }
    drop(liars);
}

#[test]
fn errors_goodbyes_and_pings_of_a_peer_concern_it_alone() {
    Ground::start("").endure(|liar, honest, number| {
        let of = honest[usize::try_from(number % 2).unwrap()].ahead(number % 2);
        let refused = Fault::new(ErrorCode::Busy, "not today").about(of.in_topic(&news())).retry_after_ms(1);
        let said = liar.say(Message::Error(refused))
            && liar.say(Message::Ping(number))
            && liar.say(Message::Pong(number));
        match number % 50 {
            // It goes away, and goes on.
            48 => liar.say(Message::Goaway(Goaway::new(ErrorCode::Draining, 0, ""))),
            49 => liar.say(Message::Error(Fault::new(ErrorCode::Internal, "the end"))) && number % 100 != 49,
            _ => said,
        }
    });
}

/// A publication of the peer in a topic that nobody takes part in.
fn lost(peer: &Liar, topic: &str, seq: u64) -> Message {
    let entry = Entry { publisher: peer.node, incarnation: 1, seq };
    Message::Publish(Publication::new(entry.in_topic(&Topic::new(topic).unwrap()), Bytes::from_static(b"x")))
}

#[test]
fn losses_that_one_peer_causes_displace_no_others() {
    let node = OverlayNode::start(Home::new(), "security = \"plaintext\"\npeer = { max_rps = 0 }\n");
    let report = || get(node.node.admin, "/overlay/losses").unwrap().json();
    let is_named = || {
        let report = report();
        let losses = report["losses"].as_array().unwrap();
        losses.iter().any(|loss| loss["id"]["topic"] == "nobody/here")
    };
    let mut honest = Liar::join(node.addr).unwrap();
    let one = lost(&honest, "nobody/here", 1);
    assert!(honest.say(one));
    eventually("it is named", || is_named().then_some(()));
    let mut liar = Liar::join(node.addr).unwrap();
    for number in 1..=5000 {
        let message = lost(&liar, &format!("junk/{number}"), number * 2);
        assert!(liar.say(message));
    }
    let counted = "overlay_lost_total{node=\"omnigate\",service=\"overlay\",reason=\"not_subscribed\"}";
    eventually("all are counted", || (node.node.metric(counted) >= 5001.0).then_some(()));
    assert!(is_named(), "it is still named");
}
