//! Capability tokens: what is refused is refused without a panic, what parses has one text, and nothing that was not made
//! with the key is good.

#![no_main]

use captoken::{
    Caveat, Grant, KeyRing, Network, Request, RevocationList, RootKey, Token, TokenError, TokenId,
    authenticate, verify,
};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static KEY: LazyLock<RootKey> = LazyLock::new(|| RootKey::new(&[7; 32]));
static RING: LazyLock<KeyRing> = LazyLock::new(|| KeyRing::new(vec![KEY.clone()]).expect("one key"));

fuzz_target!(|input: &[u8]| {
    foreign(input);
    // Chance alone would rarely write base64 of the right shape.
    foreign(encoded(input).as_bytes());
    attenuated(input);
    if let Ok(text) = str::from_utf8(input) {
        let _ = RevocationList::parse(text);
        let _ = RootKey::parse(input);
        let _ = text.parse::<Network>().map(|network| assert_eq!(network.to_string().parse(), Ok(network)));
    }
});

/// A token that somebody sends.
fn foreign(text: &[u8]) {
    let revoked = RevocationList::default();
    let refused = authenticate(text, &RING, &revoked, 1).expect_err("made without the key");
    assert!(!refused.to_string().is_empty());
    match Token::parse(text) {
        Ok(token) => {
            assert_eq!(token.encode().as_bytes(), text, "a token has one text");
            assert!(matches!(refused, TokenError::UnknownKey | TokenError::Forged));
            let _ = format!("{token:?}");
        }
        Err(error) => assert_eq!(error, refused),
    }
}

/// Our token, with caveats that somebody makes up: what the narrower one allows, the wider one does.
fn attenuated(input: &[u8]) {
    let mut token =
        Token::mint(&KEY, TokenId::new([1; 16]), &Grant::default(), &[]).expect("nothing is too long");
    let request =
        Request { path: "/a/b", method: "GET", ip: None, now: 5, tenant: None, scope: None, session: None };
    let allows =
        |token: &Token| verify(token.encode().as_bytes(), &RING, &RevocationList::default(), &request);
    for value in input.split(|byte| *byte == b'\n') {
        let text = str::from_utf8(value).unwrap_or_default();
        let (kind, text) = text.split_at_checked(1).unwrap_or_default();
        let caveat = match kind {
            "t" => Caveat::Tenant(text),
            "p" => Caveat::Path(text),
            "e" => Caveat::Expires(text.len() as u64),
            _ => Caveat::NotBefore(text.len() as u64),
        };
        let Ok(narrower) = token.clone().attenuate(&caveat) else { continue };
        let refused = allows(&token).is_err();
        assert!(!refused || allows(&narrower).is_err(), "{token:?} and {caveat}");
        token = narrower;
    }
}

/// The text of a token with these bytes.
fn encoded(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let sextet = |group: &[u8], at: usize| {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        char::from(ALPHABET[(bits >> (18 - 6 * at) & 63) as usize])
    };
    // What every token begins with, so that what follows is looked at.
    let header = [&[1, 1][..], KEY.id().as_bytes(), bytes].concat();
    let groups = header.chunks(3).flat_map(|group| (0..=group.len()).map(move |at| sextet(group, at)));
    format!("og1.{}", groups.collect::<String>())
}
