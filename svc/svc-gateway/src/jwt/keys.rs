//! The keys that sign tokens, as read from a JSON Web Key Set.

use jsonwebtoken::{
    Algorithm, DecodingKey,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse},
};
use serde::Deserialize;

/// Most keys in a set. Issuers have two or three; a set is searched from front to back.
const MAX_KEYS: usize = 64;

/// The keys of an issuer that can be used here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySet(Vec<Jwk>);

/// Why a document gives no keys.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// Not a key set at all.
    #[error("this is no JSON Web Key Set: {0}")]
    NotASet(serde_json::Error),
    /// More keys than anybody needs.
    #[error("the set has {0} keys, more than {MAX_KEYS}")]
    TooMany(usize),
    /// A set of something else than keys.
    #[error("none of the set's {0} entries is a JSON Web Key")]
    NotKeys(usize),
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<serde_json::Value>,
}

impl KeySet {
    /// Reads a key set. Keys of other kinds and for other uses are left out, as are those that cannot be read, so that an
    /// issuer can add what is not known here. A set of which no key is left is valid: its issuer has withdrawn the others.
    ///
    /// # Errors
    /// [`KeyError`] for a document that is no set of keys.
    pub fn parse(document: &[u8]) -> Result<Self, KeyError> {
        let Document { keys } = serde_json::from_slice(document).map_err(KeyError::NotASet)?;
        let found = keys.len();
        if found > MAX_KEYS {
            return Err(KeyError::TooMany(found));
        }
        let is_key = |key: &serde_json::Value| key.get("kty").is_some_and(serde_json::Value::is_string);
        if found > 0 && !keys.iter().any(is_key) {
            return Err(KeyError::NotKeys(found));
        }
        let readable = keys.into_iter().filter_map(|key| serde_json::from_value(key).ok());
        Ok(Self(readable.filter(is_usable).collect()))
    }

    /// How many keys can be used.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none, so that no token of the issuer is accepted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Jwk> {
        self.0.iter()
    }
}

/// A key with the algorithms it may be used with, of which there is at least one.
pub(super) fn decoding_key(key: &Jwk) -> Option<(DecodingKey, Vec<Algorithm>)> {
    let algorithms = algorithms(key);
    let decoding = DecodingKey::from_jwk(key).ok()?;
    (!algorithms.is_empty()).then_some((decoding, algorithms))
}

fn is_usable(key: &Jwk) -> bool {
    let common = &key.common;
    let for_signatures = matches!(common.public_key_use, None | Some(PublicKeyUse::Signature));
    let operations = common.key_operations.as_ref();
    let verifies = operations.is_none_or(|operations| operations.contains(&KeyOperations::Verify));
    for_signatures && verifies && decoding_key(key).is_some()
}

/// What the key's type allows, or of that what the key itself says. A secret allows nothing.
fn algorithms(key: &Jwk) -> Vec<Algorithm> {
    let by_type: &[Algorithm] = match &key.algorithm {
        AlgorithmParameters::RSA(_) => &[Algorithm::RS256, Algorithm::PS256],
        AlgorithmParameters::EllipticCurve(ec) if ec.curve == EllipticCurve::P256 => &[Algorithm::ES256],
        AlgorithmParameters::OctetKeyPair(okp) if okp.curve == EllipticCurve::Ed25519 => &[Algorithm::EdDSA],
        _ => &[],
    };
    let said = key.common.key_algorithm;
    by_type
        .iter()
        .copied()
        .filter(|algorithm| said.is_none_or(|said| said == KeyAlgorithm::from(*algorithm)))
        .collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use serde_json::json;

    const X: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";

    fn okp(more: &serde_json::Value) -> serde_json::Value {
        let mut key = json!({ "kty": "OKP", "crv": "Ed25519", "x": X });
        key.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        key
    }

    fn usable(keys: &[serde_json::Value]) -> Result<usize, KeyError> {
        KeySet::parse(json!({ "keys": keys }).to_string().as_bytes()).map(|set| set.len())
    }

    #[test]
    fn keys_for_other_uses_are_left_out() {
        for (more, expected) in [
            (json!({}), true),
            (json!({ "use": "sig", "alg": "EdDSA", "key_ops": ["verify"] }), true),
            (json!({ "use": "enc" }), false),
            (json!({ "key_ops": ["encrypt"] }), false),
            (json!({ "alg": "ES256" }), false),
            (json!({ "alg": "something new" }), false),
            (json!({ "kid": 7 }), false),
            (json!({ "crv": "P-256" }), false),
            (json!({ "x": "no base64!" }), false),
        ] {
            assert_eq!(usable(&[okp(&more)]).unwrap(), usize::from(expected), "{more}");
        }
    }

    #[test]
    fn a_secret_is_no_key_whatever_it_says_of_itself() {
        let secret = json!({ "kty": "oct", "k": X });
        let named = json!({ "kty": "oct", "k": X, "alg": "RS256" });
        let hmac = json!({ "kty": "oct", "k": X, "alg": "HS256" });
        assert_eq!(usable(&[secret, named, hmac]).unwrap(), 0);
    }

    #[test]
    fn what_is_not_known_does_not_spoil_the_rest() {
        let unknown = json!({ "kty": "AKP", "alg": "ML-DSA-65", "pub": "AAAA" });
        assert_eq!(usable(&[unknown, json!(3), okp(&json!({}))]).unwrap(), 1);
    }

    #[test]
    fn a_set_is_bounded_and_may_be_empty_but_not_of_something_else() {
        let many = vec![okp(&json!({})); MAX_KEYS];
        assert_eq!(usable(&many).unwrap(), MAX_KEYS);
        let more = vec![okp(&json!({})); MAX_KEYS + 1];
        assert!(matches!(usable(&more), Err(KeyError::TooMany(65))));
        assert_eq!(usable(&[]).unwrap(), 0);
        let others = [json!(null), json!("key"), json!({}), json!({ "kty": 7 })];
        assert!(matches!(usable(&others), Err(KeyError::NotKeys(4))));
        assert!(matches!(KeySet::parse(b"{}"), Err(KeyError::NotASet(_))));
    }
}
