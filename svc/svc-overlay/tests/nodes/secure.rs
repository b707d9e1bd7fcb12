//! Who is let in: by key, by token, and nobody else.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use captoken::{Caveat, Class, Grant, KeyRing, NameList, RevocationList, RootKey, Token, TokenId, key_text};
use svc_overlay::load_or_make_node_key;
use tempfile::TempDir;
use types::NodeId;

use crate::support::{Hand, Node, eventually};

pub(crate) fn id_of(dir: &Path) -> NodeId {
    NodeId::of_key(load_or_make_node_key(Some(dir)).unwrap().public_key().ed25519())
}

pub(crate) fn lines(more: &str) -> String {
    format!("listen = \"127.0.0.1:0\"\nhandshake_timeout = \"30s\"\n{more}")
}

#[test]
fn listed_nodes_find_each_other_and_exchange_keys_after_quantum_computers() {
    let (dir_a, dir_b) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let a = Node::start_in(Some(dir_a.path()), &lines(&format!("allow = [\"{}\"]", id_of(dir_b.path()))));
    let b = Node::start_in(Some(dir_b.path()), &lines(&format!("peers = [\"{}\"]", a.peer())));
    a.wait_for_peers(1);
    b.wait_for_peers(1);
    let peer = &a.overlay.peers()[0];
    assert_eq!((peer.node, peer.key_exchange), (id_of(dir_b.path()), Some("X25519MLKEM768")));
    let mut heard = b.subscribe("news");
    eventually("the neighbour takes part", || a.publish("news", "over TLS").accepted);
    assert_eq!(b.hear(&mut heard), "over TLS");
}

#[test]
fn nodes_agree_on_hybrid_keys_or_classical_ones_or_on_nothing_as_both_are_configured() {
    const OFF: &str = "pq = { mode = \"off\" }";
    const ALLOW: &str = "pq = { mode = \"hybrid\", fallback = \"allow\" }";
    const DENY: &str = "pq = { mode = \"hybrid\", fallback = \"deny\" }";
    let (hybrid, classical) = (Some("X25519MLKEM768"), Some("X25519"));
    let (dir_a, dir_b) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let allow = format!("allow = [\"{}\"]", id_of(dir_b.path()));
    for (listener, dialer, agreed) in [
        (OFF, OFF, classical),
        (OFF, ALLOW, classical),
        (OFF, DENY, None),
        (ALLOW, OFF, classical),
        (ALLOW, ALLOW, hybrid),
        (ALLOW, DENY, hybrid),
        (DENY, OFF, None),
        (DENY, ALLOW, hybrid),
        (DENY, DENY, hybrid),
    ] {
        let a = Node::start_in(Some(dir_a.path()), &lines(&format!("{allow}\n{listener}")));
        let b = Node::start_in(Some(dir_b.path()), &lines(&format!("peers = [\"{}\"]\n{dialer}", a.peer())));
        let groups =
            |node: &Node| node.overlay.peers().iter().map(|peer| peer.key_exchange).collect::<Vec<_>>();
        if agreed.is_some() {
            a.wait_for_peers(1);
            b.wait_for_peers(1);
            assert_eq!((groups(&a), groups(&b)), (vec![agreed], vec![agreed]), "{listener} {dialer}");
        } else {
            eventually("both refuse", || a.rejects("tls") > 0 && b.rejects("tls") > 0);
            assert_eq!((groups(&a), groups(&b)), (Vec::new(), Vec::new()), "{listener} {dialer}");
        }
    }
}

#[test]
fn a_node_that_is_not_listed_gets_no_further_than_its_handshake() {
    let a = Node::start(&lines(""));
    let stranger = Node::start(&lines(&format!("peers = [\"{}\"]", a.peer())));
    eventually("it is refused", || a.rejects("tls") > 0);
    let mut in_the_clear = Hand::connect(a.addr());
    in_the_clear.write(b"OAP\n, in the clear, and more than a record's head");
    eventually("so is who does not speak TLS", || a.rejects("tls") > 1);
    assert!(a.overlay.peers().is_empty() && stranger.overlay.peers().is_empty());
}

#[test]
fn a_node_that_answers_with_another_key_is_not_taken() {
    let (dir_a, dir_b) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let a = Node::start_in(Some(dir_a.path()), &lines(&format!("allow = [\"{}\"]", id_of(dir_b.path()))));
    let nobody = NodeId::new([9; 32]);
    let b = Node::start_in(Some(dir_b.path()), &lines(&format!("peers = [\"{nobody}@{}\"]", a.addr())));
    eventually("it is refused", || b.rejects("tls") > 0);
    assert!(b.overlay.peers().is_empty());
}

/// A root key, and a token that it made with this right and these caveats.
pub(crate) fn token(scope: &str, caveats: &[Caveat<'_>]) -> (RootKey, String) {
    let key = RootKey::parse(key_text(&[7; 32]).as_bytes()).unwrap();
    let grant = Grant { class: Class::Internal, scopes: NameList::new(scope).unwrap() };
    let token = Token::mint(&key, TokenId::new([1; 16]), &grant, caveats).unwrap();
    (key, token.encode().to_string())
}

#[test]
fn a_token_with_the_right_scope_lets_a_stranger_join() {
    let start = |more: &str| {
        let tokens = Arc::new(|_: &_| {
            Ok((KeyRing::new(vec![token("overlay.join", &[]).0]).unwrap(), RevocationList::default()))
        });
        Node::start_with(None, &lines(&format!("security = \"token\"\n{more}")), tokens)
    };
    let (_, good) = token("overlay.join", &[]);
    let a = start(&format!("token = \"{good}\""));
    let with = |token: &str| start(&format!("peers = [\"{}\"]\ntoken = \"{token}\"", a.addr()));
    let b = with(&good);
    a.wait_for_peers(1);
    b.wait_for_peers(1);
    let wrong_scope = with(&token("cas.put", &[]).1);
    eventually("the wrong scope is refused", || a.rejects("unauth") > 0);
    let before = a.rejects("unauth");
    let without = start(&format!("peers = [\"{}\"]", a.addr()));
    eventually("so is none at all", || a.rejects("unauth") > before);
    assert!(wrong_scope.overlay.peers().is_empty() && without.overlay.peers().is_empty());
    assert_eq!(a.overlay.peers().len(), 1);
}

#[test]
fn a_token_that_lets_in_no_more_ends_its_session() {
    let is_revoked = Arc::new(AtomicBool::new(false));
    let (good, revoked) = (token("overlay.join", &[]).1, Arc::clone(&is_revoked));
    let tokens = Arc::new(move |_: &_| {
        let key = if revoked.load(Relaxed) { [8; 32] } else { [7; 32] };
        let key = RootKey::parse(key_text(&key).as_bytes()).unwrap();
        Ok((KeyRing::new(vec![key]).unwrap(), RevocationList::default()))
    });
    let settings = lines(&format!("security = \"token\"\ntoken = \"{good}\""));
    let a = Node::start_with(None, &settings, Arc::clone(&tokens) as _);
    let others = Arc::new(|_: &_| {
        Ok((KeyRing::new(vec![token("overlay.join", &[]).0]).unwrap(), RevocationList::default()))
    });
    let more = lines(&format!("security = \"token\"\npeers = [\"{}\"]\ntoken = \"{good}\"", a.addr()));
    let b = Node::start_with(None, &more, others);
    a.wait_for_peers(1);
    is_revoked.store(true, Relaxed);
    a.reload(&settings);
    a.wait_for_peers(0);
    drop(b);
}

#[test]
fn a_node_that_is_listed_no_more_is_disconnected_also_where_others_come_with_tokens() {
    let (dir_a, dir_b) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let start = |dir: &TempDir, more: &str| {
        let tokens = Arc::new(|_: &_| {
            Ok((KeyRing::new(vec![token("overlay.join", &[]).0]).unwrap(), RevocationList::default()))
        });
        Node::start_with(Some(dir.path()), &lines(&format!("security = \"token\"\n{more}")), tokens)
    };
    let a = start(&dir_a, &format!("allow = [\"{}\"]", id_of(dir_b.path())));
    let b = start(&dir_b, &format!("peers = [\"{}\"]", a.peer()));
    a.wait_for_peers(1);
    a.reload(&lines("security = \"token\""));
    a.wait_for_peers(0);
    drop(b);
}

#[test]
fn in_a_signed_topic_only_what_its_publisher_signed_is_heard() {
    let (dir_a, dir_b) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let signed = "signed_topics = [\"accounts\"]";
    let allow = format!("allow = [\"{}\"]", id_of(dir_b.path()));
    let a = Node::start_in(Some(dir_a.path()), &lines(&format!("{allow}\n{signed}")));
    let b = Node::start_in(Some(dir_b.path()), &lines(&format!("peers = [\"{}\"]\n{signed}", a.peer())));
    a.wait_for_peers(1);
    let mut heard = b.subscribe("accounts");
    eventually("the neighbour takes part", || a.publish("accounts", "signed").accepted);
    assert_eq!(b.hear(&mut heard), "signed");
    // Whoever does not sign where it is demanded is not heard.
    a.reload(&lines(&allow));
    a.publish("accounts", "unsigned");
    eventually("it is refused", || b.overlay.losses(0).1.iter().any(|loss| loss.reason == "unsigned"));
    // That ends no session: what else is published still comes.
    let mut others = b.subscribe("news");
    eventually("the neighbour takes part", || a.publish("news", "other").accepted);
    assert_eq!((b.hear(&mut others).as_str(), b.rejects("mismatch")), ("other", 0));
    assert_eq!(b.metric("session_open_total"), 1);
}
