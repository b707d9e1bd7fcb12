//! What a token allows to do with topics.
#![expect(clippy::unwrap_used, reason = "tests")]

use captoken::{
    Bearer, Caveat, Class, Grant, KeyRing, NameList, RevocationList, RootKey, Token, TokenError, TokenId,
    TopicRight, authenticate,
};
use proptest::{collection::vec, prelude::*, sample::select};
use topics::{Pattern, PatternList};

const LISTS: [&str; 7] = ["a", "a.b", "*", "a.*", "a.>", ">", "b,a.*"];
const ASKED: [&str; 8] = ["a", "b", "a.b", "a.c", "a.b.c", "*", "a.*", ">"];

fn list(text: &str) -> PatternList<'_> {
    PatternList::new(text).unwrap()
}

fn caveat(right: TopicRight, text: &str) -> Caveat<'_> {
    match right {
        TopicRight::Publish => Caveat::Publish(list(text)),
        TopicRight::Subscribe => Caveat::Subscribe(list(text)),
    }
}

fn bearer(scopes: &str, caveats: &[(TopicRight, &str)]) -> Bearer {
    let key = RootKey::new(&[3; 32]);
    let grant = Grant { class: Class::Authed, scopes: NameList::new(scopes).unwrap() };
    let token = Token::mint(&key, TokenId::new([5; 16]), &grant, &[]).unwrap();
    let token =
        caveats.iter().fold(token, |token, (right, text)| token.attenuate(&caveat(*right, text)).unwrap());
    let ring = KeyRing::new(vec![RootKey::new(&[3; 32])]).unwrap();
    authenticate(token.encode().as_bytes(), &ring, &RevocationList::default(), 0).unwrap()
}

fn right() -> impl Strategy<Value = TopicRight> {
    select(&[TopicRight::Publish, TopicRight::Subscribe][..])
}

proptest! {
    /// What is allowed is what each caveat of that right covers by itself; caveats of the other right change nothing, and one
    /// more never allows more.
    #[test]
    fn every_caveat_of_the_right_has_to_cover_the_topic(
        caveats in vec((right(), select(&LISTS[..])), 0..4),
        asked in select(&ASKED[..]),
        wanted in right(),
    ) {
        let all = bearer("topics.publish,topics.subscribe", &caveats);
        let pattern = Pattern::new(asked).unwrap();
        let each = caveats.iter().filter(|(right, _)| *right == wanted).all(|(_, text)| list(text).covers(pattern));
        let verdict = all.authorize_topic(wanted, pattern);
        prop_assert_eq!(verdict, if each { Ok(()) } else { Err(TokenError::WrongTopic) });
    }

    /// A caveat is no grant.
    #[test]
    fn without_the_scope_no_caveat_helps(caveats in vec((right(), select(&LISTS[..])), 0..4), wanted in right()) {
        let other = match wanted {
            TopicRight::Publish => TopicRight::Subscribe,
            TopicRight::Subscribe => TopicRight::Publish,
        };
        let verdict = bearer(other.scope(), &caveats).authorize_topic(wanted, Pattern::new("a").unwrap());
        prop_assert_eq!(verdict, Err(TokenError::WrongScope));
    }
}
