//! Tokens that nodes show each other: to whom, and for how long they count.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use captoken::{Caveat, Class, Grant, KeyRing, NameList, RevocationList, RootKey, Token, TokenId, key_text};
use types::NodeId;

use crate::support::{Node, eventually};

fn root_key() -> RootKey {
    RootKey::parse(key_text(&[7; 32]).as_bytes()).unwrap()
}

/// A token that lets its holder join, with these caveats.
fn token(caveats: &[Caveat<'_>]) -> String {
    let grant = Grant { class: Class::Internal, scopes: NameList::new("overlay.join").unwrap() };
    Token::mint(&root_key(), TokenId::new([1; 16]), &grant, caveats).unwrap().encode().to_string()
}

/// A node that shows a token, and lets in whoever shows one of the same key.
fn start(token: &str, more: &str) -> Node {
    let tokens = Arc::new(|_: &_| Ok((KeyRing::new(vec![root_key()]).unwrap(), RevocationList::default())));
    let lines = "listen = \"127.0.0.1:0\"\nhandshake_timeout = \"30s\"\nsecurity = \"token\"\n";
    Node::start_with(None, &format!("{lines}token = \"{token}\"\n{more}"), tokens)
}

#[test]
fn a_token_that_expires_ends_its_session() {
    let a = start(&token(&[]), "");
    // Where the machine stalls until a token has expired, one that lasts longer is shown.
    let joined = |seconds: u64| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let before = a.rejects("unauth");
        let b = start(&token(&[Caveat::Expires(now + seconds)]), &format!("peers = [\"{}\"]", a.addr()));
        eventually("it joins, or its token has expired", || {
            !a.overlay.peers().is_empty() || a.rejects("unauth") > before
        });
        (!a.overlay.peers().is_empty()).then_some(b)
    };
    let b = [3, 10, 30].into_iter().find_map(joined).expect("it joins before its token expires");
    a.wait_for_peers(0);
    drop(b);
}

#[test]
fn a_token_is_not_shown_to_a_node_that_is_not_the_one_that_was_dialled() {
    let a = start(&token(&[]), "");
    let nobody = NodeId::new([9; 32]);
    // The token of this one is not good, which `a` would say if it saw it.
    let expired = token(&[Caveat::Expires(1)]);
    let b = start(&expired, &format!("peers = [\"{nobody}@{}\"]", a.addr()));
    eventually("the dialler refuses the node", || b.rejects("unauth") > 0);
    assert!(a.overlay.peers().is_empty() && b.overlay.peers().is_empty());
    assert_eq!(a.rejects("unauth"), 0, "it was not shown");
}
