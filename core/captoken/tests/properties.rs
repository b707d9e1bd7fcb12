//! What no token may ever do, whatever its caveats and whoever tampers with it.
#![expect(clippy::unwrap_used, reason = "tests")]

use core::net::{IpAddr, Ipv4Addr};

use captoken::{
    Caveat, Class, Grant, KeyRing, NameList, Network, NodeSession, Request, RevocationList, RootKey, Token,
    TokenError, TokenId, authenticate, verify,
};
use proptest::{collection::vec, prelude::*, sample::select};
use types::NodeId;

const NAMES: [&str; 4] = ["a", "b", "a,b", "b,c"];
const PATHS: [&str; 6] = ["/", "/a", "/a/", "/a/b", "/ab", "/b"];
const ADDRESSES: [&str; 4] = ["10.0.0.1", "10.1.0.1", "192.0.2.1", "2001:db8::1"];
const NETWORKS: [&str; 4] = ["10.0.0.0/8", "10.0.0.0/16", "0.0.0.0/0", "2001:db8::/32"];
/// Channels, and ids of nodes.
const CHANNELS: [[u8; 32]; 2] = [[1; 32], [2; 32]];
/// Few enough that caveats and requests meet on both sides of every boundary.
const MOMENTS: std::ops::Range<u64> = 0..8;

/// A caveat that owns what it says.
#[derive(Clone, Debug)]
enum Condition {
    Tenant(&'static str),
    Path(&'static str),
    Methods(&'static str),
    Expires(u64),
    NotBefore(u64),
    Networks(Vec<Network>),
    Scopes(&'static str),
    Class(Class),
    Nodes(Vec<NodeId>),
    Channel([u8; 32]),
}

impl Condition {
    fn caveat<'a>(&'a self, room: &'a mut Vec<u8>) -> Caveat<'a> {
        let list = |names| NameList::new(names).unwrap();
        match self {
            Self::Tenant(name) => Caveat::Tenant(name),
            Self::Path(prefix) => Caveat::Path(prefix),
            Self::Methods(names) => Caveat::Methods(list(names)),
            Self::Expires(at) => Caveat::Expires(*at),
            Self::NotBefore(at) => Caveat::NotBefore(*at),
            Self::Networks(networks) => Caveat::networks(networks, room).unwrap(),
            Self::Scopes(names) => Caveat::Scopes(list(names)),
            Self::Class(class) => Caveat::Class(*class),
            Self::Nodes(nodes) => Caveat::nodes(nodes, room).unwrap(),
            Self::Channel(channel) => Caveat::Channel(channel),
        }
    }

    fn add(&self, token: Token) -> Result<Token, TokenError> {
        token.attenuate(&self.caveat(&mut Vec::new()))
    }
}

fn condition() -> impl Strategy<Value = Condition> {
    let network = select(&NETWORKS[..]).prop_map(|text| text.parse().unwrap());
    prop_oneof![
        select(&["a", "b"][..]).prop_map(Condition::Tenant),
        select(&PATHS[..]).prop_map(Condition::Path),
        select(&NAMES[..]).prop_map(Condition::Methods),
        MOMENTS.prop_map(Condition::Expires),
        MOMENTS.prop_map(Condition::NotBefore),
        vec(network, 1..3).prop_map(Condition::Networks),
        select(&NAMES[..]).prop_map(Condition::Scopes),
        class().prop_map(Condition::Class),
        vec(node(), 1..3).prop_map(Condition::Nodes),
        select(&CHANNELS[..]).prop_map(Condition::Channel),
    ]
}

/// One of a few nodes.
fn node() -> impl Strategy<Value = NodeId> {
    select(&CHANNELS[..]).prop_map(NodeId::new)
}

fn class() -> impl Strategy<Value = Class> {
    select(&[Class::Authed, Class::Internal][..])
}

fn request() -> impl Strategy<Value = Request<'static>> {
    let name = || select(&["a", "b", "c"][..]);
    let ip = select(&ADDRESSES[..]).prop_map(|text| text.parse().unwrap());
    let maybe = || proptest::option::of(name());
    let channel = proptest::option::of(select(&CHANNELS[..]));
    let session = (node(), channel).prop_map(|(node, channel)| NodeSession { node, channel });
    let session = proptest::option::of(session);
    (select(&PATHS[..]), name(), proptest::option::of(ip), MOMENTS, maybe(), maybe(), session).prop_map(
        |(path, method, ip, now, tenant, scope, session)| Request {
            path,
            method,
            ip,
            now,
            tenant,
            scope,
            session,
        },
    )
}

fn key() -> RootKey {
    RootKey::new(&[3; 32])
}

fn ring() -> KeyRing {
    KeyRing::new(vec![key()]).unwrap()
}

/// A token with these caveats from its minting.
fn minted(conditions: &[Condition]) -> Token {
    let grant = Grant { class: Class::Internal, scopes: NameList::new("a,b").unwrap() };
    let mut rooms = vec![Vec::new(); conditions.len()];
    let caveats: Vec<_> =
        conditions.iter().zip(&mut rooms).map(|(condition, room)| condition.caveat(room)).collect();
    Token::mint(&key(), TokenId::new([5; 16]), &grant, &caveats).unwrap()
}

/// A token with these caveats, each added after its minting.
fn token(conditions: &[Condition]) -> Token {
    conditions.iter().fold(minted(&[]), |token, condition| condition.add(token).unwrap())
}

fn judged(text: &str, request: &Request<'_>) -> Result<captoken::Bearer, TokenError> {
    verify(text.as_bytes(), &ring(), &RevocationList::default(), request)
}

/// A request that a token without caveats covers.
const PLAIN: Request<'static> = Request {
    path: "/",
    method: "a",
    ip: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
    now: 0,
    tenant: None,
    scope: None,
    session: None,
};

proptest! {
    /// Nothing that the narrower token allows is refused by the wider one, and nobody rises by adding a caveat.
    #[test]
    fn attenuation_never_widens(
        given in vec(condition(), 0..4),
        added in condition(),
        request in request(),
    ) {
        let wider = token(&given);
        let narrower = added.add(wider.clone()).unwrap();
        if let Ok(after) = judged(&narrower.encode(), &request) {
            let before = judged(&wider.encode(), &request);
            prop_assert!(before.is_ok(), "{before:?}");
            let before = before.unwrap();
            prop_assert!(after.class() <= before.class());
            prop_assert!(after.scopes().all(|scope| before.has_scope(scope)));
            prop_assert!(before.tenant().is_none() || before.tenant() == after.tenant());
            prop_assert!(before.expires().is_none_or(|at| after.expires().is_some_and(|earlier| earlier <= at)));
            prop_assert_eq!(before.id(), after.id());
        }
    }

    /// Every caveat is checked, wherever it stands: the verdict is that of all of them alone.
    #[test]
    fn a_token_allows_what_each_of_its_caveats_allows(
        conditions in vec(condition(), 0..6),
        request in request(),
    ) {
        let whole = judged(&token(&conditions).encode(), &request);
        let tenants: std::collections::BTreeSet<_> = conditions.iter().filter_map(|condition| match condition {
            Condition::Tenant(name) => Some(*name),
            _ => None,
        }).collect();
        let each = conditions.iter().all(|one| judged(&token(std::slice::from_ref(one)).encode(), &request).is_ok());
        let alone = judged(&token(&[]).encode(), &request).is_ok();
        prop_assert_eq!(whole.is_ok(), each && alone && tenants.len() < 2, "{:?}", whole);
    }

    /// It makes no difference to what a token allows whether a caveat was there from the beginning.
    #[test]
    fn sealed_and_added_caveats_mean_the_same(conditions in vec(condition(), 0..6), request in request()) {
        let verdict = |token: Token| judged(&token.encode(), &request).map(|bearer| {
            let scopes: Vec<_> = bearer.scopes().map(str::to_owned).collect();
            (bearer.tenant().map(str::to_owned), bearer.class(), bearer.expires(), scopes)
        });
        prop_assert_eq!(verdict(minted(&conditions)), verdict(token(&conditions)));
    }

    /// One bit of the bytes, wherever it is, makes another token, and not ours.
    #[test]
    fn a_flipped_bit_is_refused(
        sealed in vec(condition(), 0..3),
        added in vec(condition(), 0..3),
        at in any::<prop::sample::Index>(),
    ) {
        let text = added.iter().fold(minted(&sealed), |token, one| one.add(token).unwrap()).encode();
        let flip = at.index(text.len() * 8);
        let mut bytes = text.as_bytes().to_vec();
        bytes[flip / 8] ^= 1 << (flip % 8);
        let refused = authenticate(&bytes, &ring(), &RevocationList::default(), 0);
        let kinds = [TokenError::Forged, TokenError::UnknownKey, TokenError::TooManyCaveats];
        let expected = matches!(refused, Err(TokenError::Malformed(_)))
            || refused.as_ref().is_err_and(|error| kinds.contains(error));
        prop_assert!(expected, "{:?}", refused);
    }

    #[test]
    fn every_beginning_of_a_token_is_refused(
        sealed in vec(condition(), 0..3),
        added in vec(condition(), 0..3),
    ) {
        let text = added.iter().fold(minted(&sealed), |token, one| one.add(token).unwrap()).encode();
        for end in 0..text.len() {
            let refused = authenticate(&text.as_bytes()[..end], &ring(), &RevocationList::default(), 0);
            let expected = matches!(refused, Err(TokenError::Malformed(_) | TokenError::Forged | TokenError::TooManyCaveats));
            prop_assert!(expected, "{end}: {:?}", refused);
        }
    }

    /// Whatever text comes in, it is refused without a panic.
    #[test]
    fn noise_is_refused(noise in vec(any::<u8>(), 0..1100), text in "og1\\.[A-Za-z0-9_-]{0,300}") {
        for text in [&noise[..], text.as_bytes()] {
            prop_assert!(judged(&String::from_utf8_lossy(text), &PLAIN).is_err());
            prop_assert!(authenticate(text, &ring(), &RevocationList::default(), 0).is_err());
        }
    }
}

#[test]
fn a_caveat_cannot_be_left_out_or_moved() {
    let parts = [Condition::Tenant("a"), Condition::Path("/a"), Condition::Class(Class::Authed)];
    let caveats: [&[u8]; 3] = [b"\x01\x01a", b"\x02\x02/a", b"\x08\x01\x01"];
    let bare = base64_bytes(&minted(&[]).encode()[4..]);
    let mut header = bare[..bare.len() - 32].to_vec();
    for sealed in 0..=3_u8 {
        let (first, rest) = parts.split_at(sealed.into());
        let text = rest.iter().fold(minted(first), |token, one| one.add(token).unwrap()).encode();
        let bytes = base64_bytes(&text[4..]);
        let tag = &bytes[bytes.len() - 32..];
        let mut with = |sealed: u8, order: &[usize]| {
            header[SEALED_AT] = sealed;
            let chosen: Vec<&[u8]> = order.iter().map(|at| caveats[*at]).collect();
            format!("og1.{}", base64_text(&[&header[..], &chosen.concat(), tag].concat()))
        };
        assert_eq!(with(sealed, &[0, 1, 2]), *text, "the layout is as documented");
        for order in [&[][..], &[0], &[0, 1], &[1, 2], &[0, 2], &[1, 0, 2], &[2, 1, 0], &[0, 1, 2, 2]] {
            for claimed in 0..=3 {
                let refused =
                    authenticate(with(claimed, order).as_bytes(), &ring(), &RevocationList::default(), 0);
                let short = usize::from(claimed) > order.len();
                let expected = match refused {
                    Err(TokenError::Malformed(_)) => short,
                    Err(TokenError::Forged) => !short,
                    _ => false,
                };
                assert!(expected, "{sealed} sealed, {claimed} claimed, {order:?}: {refused:?}");
            }
        }
    }
}

/// Where a token has the number of its sealed caveats.
const SEALED_AT: usize = 26;

#[test]
fn a_token_takes_sixteen_caveats_and_no_more() {
    for full in [token, minted] {
        let full = full(&vec![Condition::Tenant("a"); captoken::MAX_CAVEATS]);
        assert!(judged(&full.encode(), &PLAIN).is_ok());
        assert_eq!(Condition::Tenant("a").add(full).err(), Some(TokenError::TooManyCaveats));
    }
    let refused = |count| mint(&vec![Caveat::Tenant("a"); count]).err();
    assert_eq!(refused(captoken::MAX_CAVEATS), None);
    for over in [captoken::MAX_CAVEATS + 1, 256, 300] {
        assert_eq!(refused(over), Some(TokenError::TooManyCaveats), "{over}");
    }
}

fn mint(caveats: &[Caveat<'_>]) -> Result<Token, TokenError> {
    Token::mint(&key(), TokenId::new([0; 16]), &Grant::default(), caveats)
}

#[test]
fn a_token_is_full_at_a_kibibyte() {
    let name = "t".repeat(128);
    let mut token = token(&[]);
    let refused = loop {
        assert!(token.encode().len() <= captoken::MAX_TEXT);
        match token.clone().attenuate(&Caveat::Tenant(&name)) {
            Ok(longer) => token = longer,
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused, TokenError::TooLarge);
    assert!(judged(&token.encode(), &PLAIN).is_ok());
    let tenants = |count| mint(&vec![Caveat::Tenant(&name); count]);
    assert!(tenants(5).is_ok_and(|token| judged(&token.encode(), &PLAIN).is_ok()));
    assert_eq!(tenants(6).err(), Some(TokenError::TooLarge));
}

#[test]
fn values_that_a_reader_would_refuse_are_not_written() {
    let none = NameList::NONE;
    let long = "x".repeat(256);
    let long_path = format!("/{long}");
    for (caveat, error) in [
        (Caveat::Tenant(""), None),
        (Caveat::Tenant("two words"), None),
        (Caveat::Tenant(&long), None),
        (Caveat::Path("api"), None),
        (Caveat::Path("/api/../x"), None),
        (Caveat::Path("/api?x"), None),
        (Caveat::Path(&long_path), Some(TokenError::TooLarge)),
        (Caveat::Methods(none), None),
    ] {
        let refused = token(&[]).attenuate(&caveat).err();
        assert_eq!((caveat.check().err(), mint(&[caveat]).err()), (refused, refused), "{caveat:?}");
        let expected = match error {
            Some(error) => refused == Some(error),
            None => matches!(refused, Some(TokenError::Malformed(_))),
        };
        assert!(expected, "{caveat:?}: {refused:?}");
    }
    assert!(Caveat::networks(&[], &mut Vec::new()).is_err());
    let scopes = ["x".repeat(64), "y".repeat(64), "z".repeat(64), "w".repeat(64)].join(",");
    let grant = Grant { class: Class::Authed, scopes: NameList::new(&scopes).unwrap() };
    assert_eq!(Token::mint(&key(), TokenId::new([0; 16]), &grant, &[]).err(), Some(TokenError::TooLarge));
}

#[test]
fn nothing_prints_what_would_let_a_reader_in() {
    let token = token(&[Condition::Tenant("a")]);
    let text = token.encode();
    let bearer = judged(&text, &PLAIN).unwrap();
    let printed = format!("{token:?} {bearer:?} {:?} {:?}", ring(), key());
    let bytes = base64_bytes(&text[4..]);
    let tag = &bytes[bytes.len() - 4..];
    let hexadecimal: String = tag.iter().map(|byte| format!("{byte:02x}")).collect();
    for secret in [&text[text.len() - 8..], &format!("{tag:?}")[1..12], &hexadecimal] {
        assert!(!printed.contains(secret), "{secret} in {printed}");
    }
}

#[test]
fn a_refusal_carries_the_status_and_a_sentence() {
    let refusal = types::Refusal::from(TokenError::Expired);
    assert_eq!((refusal.reason.status(), &*refusal.detail), (401, "the token has expired"));
    let refusal = types::Refusal::from(TokenError::WrongPath);
    assert_eq!((refusal.reason.status(), &*refusal.detail), (403, "the token does not cover this path"));
    assert_eq!(TokenError::Malformed("why").to_string(), "the token is malformed: why");
}

const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

fn base64_text(bytes: &[u8]) -> String {
    let bits: Vec<bool> =
        bytes.iter().flat_map(|byte| (0..8).map(move |at| byte >> (7 - at) & 1 == 1)).collect();
    let sextet =
        |bits: &[bool]| (0..6).fold(0, |sum, at| sum << 1 | usize::from(*bits.get(at).unwrap_or(&false)));
    bits.chunks(6).map(|bits| char::from(ALPHABET[sextet(bits)])).collect()
}

fn base64_bytes(text: &str) -> Vec<u8> {
    let value = |character: u8| ALPHABET.iter().position(|known| *known == character).unwrap();
    let bits: Vec<bool> = text
        .bytes()
        .flat_map(|character| (0..6).map(move |at| value(character) >> (5 - at) & 1 == 1))
        .collect();
    let byte = |bits: &[bool]| bits.iter().fold(0_u8, |sum, bit| sum << 1 | u8::from(*bit));
    bits.as_chunks::<8>().0.iter().map(|bits| byte(bits)).collect()
}
