//! An issuer of JSON Web Tokens with a throwaway Ed25519 key.

use std::{
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};

/// Somebody who signs tokens.
pub(crate) struct Issuer {
    key: Ed25519KeyPair,
    /// The `kid` of its key.
    id: String,
}

impl Issuer {
    pub(crate) fn new(id: &str) -> Self {
        Self { key: Ed25519KeyPair::generate().unwrap(), id: id.to_owned() }
    }

    /// A token with these claims, good for an hour.
    pub(crate) fn token(&self, claims: &Value) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let mut all = json!({ "exp": now + 3600 });
        all.as_object_mut().unwrap().extend(claims.as_object().unwrap().clone());
        let header = json!({ "alg": "EdDSA", "typ": "JWT", "kid": self.id });
        let encoded = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let signed = format!("{}.{}", encoded(&header), encoded(&all));
        let signature = URL_SAFE_NO_PAD.encode(self.key.sign(signed.as_bytes()));
        format!("{signed}.{signature}")
    }

    fn jwk(&self) -> Value {
        let x = URL_SAFE_NO_PAD.encode(self.key.public_key());
        json!({ "kty": "OKP", "crv": "Ed25519", "kid": self.id, "x": x })
    }
}

/// Writes the key set of these issuers to a file in `dir`, replacing it at once.
pub(crate) fn publish(dir: &Path, name: &str, issuers: &[&Issuer]) -> PathBuf {
    let keys: Vec<Value> = issuers.iter().map(|issuer| issuer.jwk()).collect();
    let (aside, path) = (dir.join(format!("{name}.new")), dir.join(name));
    std::fs::write(&aside, json!({ "keys": keys }).to_string()).unwrap();
    std::fs::rename(aside, &path).unwrap();
    path
}
