//! Issuers of tokens with throwaway keys.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::sync::LazyLock;

use aws_lc_rs::{
    encoding::AsDer,
    rsa::{self, KeySize},
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair},
};
use jsonwebtoken::{Algorithm, EncodingKey, Header, jwk::Jwk};
use serde_json::{Value, json};
use svc_gateway::jwt::KeySet;

/// The header of a PKCS#8 document around a 2048-bit RSA key; the library wants what is inside.
const PKCS8_AROUND_RSA: usize = 26;

/// Somebody who signs tokens.
#[derive(Clone)]
pub(crate) struct Issuer {
    algorithm: Algorithm,
    kid: String,
    key: EncodingKey,
    says_algorithm: bool,
}

/// The issuer that all tests with this algorithm share: making RSA keys takes a while.
pub(crate) fn issuer(algorithm: Algorithm) -> &'static Issuer {
    static ISSUERS: LazyLock<Vec<Issuer>> = LazyLock::new(|| {
        let all = [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA];
        all.into_iter().map(|algorithm| Issuer::generate(algorithm, &format!("{algorithm:?}-key"))).collect()
    });
    ISSUERS.iter().find(|issuer| issuer.algorithm == algorithm).unwrap()
}

/// The document an issuer with all these keys publishes.
pub(crate) fn document(issuers: &[&Issuer]) -> String {
    let keys: Vec<Value> = issuers.iter().map(|issuer| serde_json::to_value(issuer.jwk()).unwrap()).collect();
    json!({ "keys": keys }).to_string()
}

pub(crate) fn key_set(issuers: &[&Issuer]) -> KeySet {
    KeySet::parse(document(issuers).as_bytes()).unwrap()
}

impl Issuer {
    pub(crate) fn generate(algorithm: Algorithm, kid: &str) -> Self {
        let random = aws_lc_rs::rand::SystemRandom::new();
        let key = match algorithm {
            Algorithm::RS256 => {
                let pair = rsa::KeyPair::generate(KeySize::Rsa2048).unwrap();
                EncodingKey::from_rsa_der(&pair.as_der().unwrap().as_ref()[PKCS8_AROUND_RSA..])
            }
            Algorithm::ES256 => {
                let pair = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
                EncodingKey::from_ec_der(pair.as_ref())
            }
            _ => EncodingKey::from_ed_der(Ed25519KeyPair::generate_pkcs8v1(&random).unwrap().as_ref()),
        };
        Self { algorithm, kid: kid.to_owned(), key, says_algorithm: false }
    }

    /// The same, whose published key names its algorithm.
    pub(crate) fn saying_its_algorithm(&self) -> Self {
        Self { says_algorithm: true, ..self.clone() }
    }

    pub(crate) fn kid(&self) -> &str {
        &self.kid
    }

    pub(crate) fn header(&self, algorithm: Algorithm) -> Header {
        Header { kid: Some(self.kid.clone()), ..Header::new(algorithm) }
    }

    pub(crate) fn token(&self, claims: &Value) -> String {
        self.token_with(&self.header(self.algorithm), claims)
    }

    pub(crate) fn token_with(&self, header: &Header, claims: &Value) -> String {
        jsonwebtoken::encode(header, claims, &self.key).unwrap()
    }

    pub(crate) fn jwk(&self) -> Jwk {
        let mut jwk = Jwk::from_encoding_key(&self.key, self.algorithm).unwrap();
        jwk.common.key_id = Some(self.kid.clone());
        if !self.says_algorithm {
            jwk.common.key_algorithm = None;
        }
        jwk
    }

    /// What an attacker could take for the secret of an HMAC: the published key, whole and in parts.
    pub(crate) fn public_in_all_forms(&self) -> Vec<Vec<u8>> {
        let jwk = serde_json::to_value(self.jwk()).unwrap();
        let parts = jwk.as_object().unwrap().values().filter_map(Value::as_str);
        let mut forms: Vec<Vec<u8>> = parts.map(|part| part.as_bytes().to_vec()).collect();
        forms.push(jwk.to_string().into_bytes());
        forms.push(document(&[self]).into_bytes());
        forms
    }
}

/// Unpadded base64 with the URL's alphabet.
pub(crate) fn base64url(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().fold(0, |group: usize, byte| group << 8 | usize::from(*byte))
            << (8 * (3 - chunk.len()));
        let characters = (0..=chunk.len()).map(|i| ALPHABET[group >> (18 - 6 * i) & 63]);
        text.extend(characters.map(char::from));
    }
    text
}
