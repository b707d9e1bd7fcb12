//! The test vectors that every implementation shares. `vectors.py` beside them made them without any of this code.

use captoken::{
    Bearer, KeyRing, NodeSession, Request, RevocationList, RootKey, Token, TokenError, TopicRight, verify,
};
use serde_json::{Value, json};

const VECTORS: &str = include_str!("vectors.json");

fn secret(hex: &str) -> [u8; 32] {
    let digits = |at: usize| u8::from_str_radix(&hex[at * 2..at * 2 + 2], 16).expect(hex);
    std::array::from_fn(digits)
}

fn strings(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().expect("a list").iter().map(|item| item.as_str().expect("a string"))
}

fn judge(vector: &Value) -> Result<Bearer, TokenError> {
    let keys = strings(&vector["keys"]).map(|key| RootKey::new(&secret(key))).collect();
    let ring = KeyRing::new(keys).expect("different keys");
    let revoked = strings(&vector["revoked"]).map(|id| id.parse().expect(id)).collect();
    let revoked = RevocationList::new(revoked).expect("few ids");
    let request = &vector["request"];
    let asked = Request {
        path: request["path"].as_str().expect("a path"),
        method: request["method"].as_str().expect("a method"),
        ip: request["ip"].as_str().map(|ip| ip.parse().expect(ip)),
        now: request["now"].as_u64().expect("a moment"),
        tenant: request["tenant"].as_str(),
        scope: request["scope"].as_str(),
        session: request["node"].as_str().map(|node| NodeSession {
            node: types::NodeId::new(secret(node)),
            channel: request["channel"].as_str().map(secret),
        }),
    };
    let bearer = verify(token(vector).as_bytes(), &ring, &revoked, &asked)?;
    for (name, right) in [("publish", TopicRight::Publish), ("subscribe", TopicRight::Subscribe)] {
        if let Some(topic) = request[name].as_str() {
            bearer.authorize_topic(right, topics::Pattern::new(topic).expect(topic))?;
        }
    }
    Ok(bearer)
}

fn token(vector: &Value) -> &str {
    vector["token"].as_str().expect("a token")
}

fn vectors() -> Vec<Value> {
    serde_json::from_str(VECTORS).expect("JSON")
}

#[test]
fn every_vector_gets_its_verdict() {
    for vector in vectors() {
        let name = &vector["name"];
        match judge(&vector) {
            Ok(bearer) => {
                assert_eq!(vector["verdict"], "ok", "{name}");
                let seen = json!({
                    "tenant": bearer.tenant(),
                    "class": bearer.class().as_str(),
                    "id": bearer.id().to_string(),
                    "expires": bearer.expires(),
                    "scopes": bearer.scopes().collect::<Vec<_>>(),
                });
                assert_eq!(vector["bearer"], seen, "{name}");
            }
            Err(refused) => {
                assert_eq!(vector["verdict"], refused.as_str(), "{name}: {refused}");
                assert_eq!(vector["status"], refused.reason().status(), "{name}");
            }
        }
    }
}

#[test]
fn there_is_a_vector_for_every_refusal() {
    let vectors = vectors();
    let kinds = [
        TokenError::Malformed(""),
        TokenError::TooLarge,
        TokenError::TooManyCaveats,
        TokenError::UnknownKey,
        TokenError::Forged,
        TokenError::Expired,
        TokenError::NotYet,
        TokenError::Revoked,
        TokenError::UnknownCaveat,
        TokenError::WrongPath,
        TokenError::WrongMethod,
        TokenError::WrongAddress,
        TokenError::WrongTenant,
        TokenError::WrongScope,
        TokenError::WrongNode,
        TokenError::WrongChannel,
        TokenError::WrongTopic,
    ];
    for kind in kinds {
        assert!(vectors.iter().any(|vector| vector["verdict"] == kind.as_str()), "{kind:?}");
    }
}

#[test]
fn whatever_parses_is_written_the_same_way() {
    for vector in vectors() {
        if let Ok(parsed) = Token::parse(token(&vector).as_bytes()) {
            assert_eq!(*parsed.encode(), token(&vector), "{}", vector["name"]);
        }
    }
}
