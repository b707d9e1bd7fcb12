//! What bad input gets: a typed ERROR or a close, counted by its reason, and nobody else notices.

use bytes::Bytes;
use oap::{ErrorCode, Features, Frame, Goaway, Message, MessageId, Publication};

use crate::support::{Hand, Node, SOON, any_node, eventually, hello, plain};

/// The ERROR that comes before the close.
fn refused_with(hand: &mut Hand) -> ErrorCode {
    let mut code = None;
    while let Some(message) = hand.hear() {
        if let Message::Error(fault) = message {
            code = Some(fault.code);
        }
    }
    code.expect("it is said why")
}

fn raw(kind: u8, header_len: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(8 + payload.len()).unwrap().to_be_bytes().to_vec();
    frame.extend([kind, 0]);
    frame.extend(header_len.to_be_bytes());
    frame.extend([0; 4]);
    frame.extend(payload);
    frame
}

#[test]
fn what_breaks_the_protocol_before_hello_is_refused_by_name() {
    let node = Node::start(&plain(""));
    let ping = Frame::connection(Message::Ping(1)).to_bytes().unwrap();
    let mut old = Frame::connection(Message::Hello(hello(any_node(1)))).to_bytes().unwrap().to_vec();
    // The version follows the length, the fixed part and the magic.
    old[16..18].copy_from_slice(&[0, 0]);
    let mut other_magic = old.clone();
    other_magic[12] = b'X';
    for (what, bytes, code, reason) in [
        ("too long", vec![0xff; 16], ErrorCode::FrameCap, "size"),
        ("something else", ping.to_vec(), ErrorCode::OutOfOrder, "out_of_order"),
        ("no version", old, ErrorCode::Version, "version"),
        ("another protocol", other_magic, ErrorCode::Version, "version"),
        ("an unknown kind", raw(250, 0, b""), ErrorCode::UnknownKind, "unknown_kind"),
        ("too short", vec![0, 0, 0, 3, 1, 2, 3], ErrorCode::Malformed, "malformed"),
    ] {
        let before = node.rejects(reason);
        let mut hand = Hand::connect(node.addr());
        hand.write(&bytes);
        assert_eq!(refused_with(&mut hand), code, "{what}");
        eventually(what, || node.rejects(reason) == before + 1);
    }
    assert!(node.overlay.peers().is_empty());
    assert_eq!(node.metric("session_open_total{"), 0, "whoever is refused before hello has no session");
}

#[test]
fn what_breaks_the_protocol_after_hello_ends_that_session_alone() {
    let node = Node::start(&plain(""));
    let mut witness = Hand::join(node.addr(), any_node(99));
    let again = Frame::connection(Message::Hello(hello(any_node(1)))).to_bytes().unwrap();
    for (number, (what, bytes, code, reason)) in [
        ("too long", vec![0xff; 16], ErrorCode::FrameCap, "size"),
        ("a second hello", again.to_vec(), ErrorCode::OutOfOrder, "out_of_order"),
        ("an unknown kind", raw(250, 0, b""), ErrorCode::UnknownKind, "unknown_kind"),
        ("a header beyond its frame", raw(8, 99, b"x"), ErrorCode::Malformed, "malformed"),
        ("a cut field", raw(8, 3, b"abc"), ErrorCode::Malformed, "malformed"),
    ]
    .into_iter()
    .enumerate()
    {
        let before = node.rejects(reason);
        let mut hand = Hand::join(node.addr(), any_node(number as u64));
        hand.write(&bytes);
        assert_eq!(refused_with(&mut hand), code, "{what}");
        eventually(what, || node.rejects(reason) == before + 1);
    }
    assert_eq!(node.metric("session_open_total{"), 6, "one each, and the witness");
    witness.say(Message::Ping(7));
    assert_eq!(witness.hear_one(|m| matches!(m, Message::Pong(_))), Message::Pong(7));
    node.wait_for_peers(1);
}

#[test]
fn who_breaks_a_rule_is_told_which() {
    let node = Node::start(&plain("topics = [\"news\"]"));
    let wrong_digest = Publication { digest: [7; 32], ..publication(1, 1, "not what it says") };
    let foreign = publication(2, 1, "in another's name");
    let bytes = |message| Frame::connection(message).to_bytes().unwrap().to_vec();
    for (bytes, told) in [
        (raw(8, 99, b"x"), "header"),
        (raw(8, 3, b"abc"), "field"),
        (bytes(Message::Hello(hello(any_node(1)))), "HELLO"),
        (bytes(Message::Publish(wrong_digest)), "digest"),
        (bytes(Message::Publish(foreign)), "hops"),
    ] {
        let mut hand = Hand::join(node.addr(), any_node(1));
        hand.write(&bytes);
        let Message::Error(fault) = hand.hear_one(|m| matches!(m, Message::Error(_))) else { unreachable!() };
        assert!(fault.detail.contains(told) && &*fault.detail != fault.code.name(), "{told}: {fault:?}");
        node.wait_for_peers(0);
    }
}

#[test]
fn a_frame_that_is_cut_off_is_counted() {
    let node = Node::start(&plain(""));
    let mut hand = Hand::join(node.addr(), any_node(1));
    hand.write(&[0, 0, 1, 0, 8]);
    hand.socket.shutdown(std::net::Shutdown::Write).unwrap();
    while hand.hear().is_some() {}
    eventually("it is counted", || node.rejects("truncated") == 1 && node.closes("peer_closed") == 1);
}

#[test]
fn checksums_hold_where_both_want_them() {
    let node = Node::start(&plain("gossip = { checksums = true }"));
    let mut hand = Hand::connect(node.addr());
    hand.say(Message::Hello(oap::Hello { features: Features::CRC32C, ..hello(any_node(1)) }));
    let Some(Message::Hello(theirs)) = hand.hear() else { panic!("no HELLO") };
    assert!(theirs.features.has(Features::CRC32C));
    let ping = Frame::connection(Message::Ping(1)).to_bytes().unwrap();
    let mut summed = bytes::BytesMut::new();
    oap::put_with_checksum(&ping, &mut summed);
    hand.write(&summed);
    hand.expect_checksums();
    assert_eq!(hand.hear_one(|m| matches!(m, Message::Pong(_))), Message::Pong(1));
    *summed.last_mut().unwrap() ^= 1;
    hand.write(&summed);
    assert_eq!(refused_with(&mut hand), ErrorCode::Checksum);
    eventually("it is counted", || node.rejects("checksum") == 1);
}

#[test]
fn a_slow_handshake_is_given_up() {
    // Long enough that even a busy machine gets as far as the first bytes.
    let node = Node::start(&plain("handshake_timeout = \"3s\""));
    let mut silent = Hand::connect(node.addr());
    let mut trickling = Hand::connect(node.addr());
    trickling.write(&[0, 0]);
    assert_eq!(silent.hear(), None);
    assert_eq!(trickling.hear(), None);
    eventually("both are counted", || {
        node.metric("handshake_timeouts_total{node=\"test\",service=\"overlay\"}") == 2
    });
}

#[test]
fn a_peer_that_is_gone_without_a_word_is_asked_and_given_up() {
    let node = Node::start(&plain("timeouts = { idle = \"400ms\" }"));
    let mut hand = Hand::join(node.addr(), any_node(1));
    assert!(matches!(hand.hear_one(|m| matches!(m, Message::Ping(_))), Message::Ping(_)));
    let last = std::iter::from_fn(|| hand.hear()).last();
    assert!(matches!(&last, Some(Message::Goaway(Goaway { reason: ErrorCode::Timeout, .. }))), "{last:?}");
    eventually("it is counted", || node.closes("idle") == 1);
}

#[test]
fn a_frame_that_trickles_is_given_up() {
    let node = Node::start(&plain("timeouts = { read = \"300ms\" }"));
    let mut hand = Hand::join(node.addr(), any_node(1));
    hand.write(&[0, 0, 1]);
    while hand.hear().is_some() {}
    eventually("it is counted", || node.closes("read_timeout") == 1);
}

#[test]
fn a_peer_that_asks_and_never_reads_is_given_up() {
    let node = Node::start(&plain("timeouts = { write = \"500ms\" }"));
    let mut hand = Hand::join(node.addr(), any_node(1));
    node.wait_for_peers(1);
    let ping = Frame::connection(Message::Ping(1)).to_bytes().unwrap();
    let many = ping.repeat(1000);
    // Until the node does not take any more, or closes.
    hand.socket.set_write_timeout(Some(SOON)).unwrap();
    while std::io::Write::write_all(&mut hand.socket, &many).is_ok() {
        if node.overlay.peers().is_empty() {
            break;
        }
    }
    eventually("it is given up", || node.closes("never_reads") + node.closes("write_timeout") == 1);
}

fn publication(publisher: u64, seq: u64, body: &'static str) -> Publication {
    crate::support::publication(publisher, seq, Bytes::from_static(body.as_bytes()))
}

#[test]
fn lies_about_publications_are_not_delivered_and_replays_once() {
    let node = Node::start(&plain(""));
    let mut heard = node.subscribe("news");
    let mut forger = Hand::join(node.addr(), any_node(1));
    let wrong_digest = Publication { digest: [7; 32], ..publication(1, 1, "not what it says") };
    forger.say(Message::Publish(wrong_digest));
    let mut honest = Hand::join(node.addr(), any_node(2));
    for _ in 0..3 {
        honest.say(Message::Publish(publication(2, 1, "once")));
    }
    honest.say(Message::Publish(publication(2, 2, "after")));
    assert_eq!(node.hear(&mut heard), "once");
    assert_eq!(node.hear(&mut heard), "after");
    let mut self_forger = Hand::join(node.addr(), any_node(3));
    // Of its present life it knows what it said; of an earlier one only a signature could tell.
    let id = MessageId { publisher: node.overlay.node(), incarnation: u64::MAX, ..publication(3, 9, "").id };
    self_forger.say(Message::Publish(Publication::new(id, Bytes::from_static(b"in your name"))));
    honest.say(Message::Publish(publication(2, 3, "last")));
    assert_eq!(node.hear(&mut heard), "last");
    eventually("the lie is named", || {
        node.overlay.losses(0).1.iter().any(|loss| loss.reason == "mismatch" || loss.reason == "forged")
            || node.rejects("mismatch") > 0
    });
}

#[test]
fn a_peer_that_floods_is_told_so_and_the_others_are_heard() {
    // So few that a machine on which the flood takes half a minute still refuses most of it.
    let node = Node::start(&plain("peer = { max_rps = 5 }"));
    let mut heard = node.subscribe("news");
    let mut flood = Hand::join(node.addr(), any_node(1));
    for seq in 1..=300 {
        flood.say(Message::Publish(publication(1, seq, "again")));
    }
    let Message::Error(fault) = flood.hear_one(|m| matches!(m, Message::Error(_))) else { unreachable!() };
    assert_eq!(fault.code, ErrorCode::Quota);
    assert!(fault.retry_after_ms > 0 && fault.about.is_some(), "{fault:?}");
    let mut modest = Hand::join(node.addr(), any_node(2));
    modest.say(Message::Publish(publication(2, 1, "modest")));
    while node.hear(&mut heard) != "modest" {}
    // The first refusal is told while the rest of the flood is still to be read.
    eventually("most of the flood is refused", || node.overlay.losses(0).0 > 100);
    let (_, kept) = node.overlay.losses(0);
    assert!(kept.iter().all(|loss| loss.reason == "quota" && loss.peer == Some(any_node(1))), "{kept:?}");
}
