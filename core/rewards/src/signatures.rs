//! The signatures on a document, and whether those that count are good.

use crate::{DocumentError, Json, PublicKey, Sign, Signature, Verify, json::fields::Fields};

/// The most signatures that a document carries.
pub(crate) const MAX_SIGNATURES: usize = 16;

/// Why the signatures on a document do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// The document has no signature.
    #[error("it is not signed")]
    Unsigned,
    /// None of its signatures is by a trusted key.
    #[error("it is not signed by a trusted key")]
    Untrusted,
    /// A trusted key's signature is over something else.
    #[error("the signature of {0} does not match this document")]
    Forged(PublicKey),
}

/// Signatures in the order of their keys, each key once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Signatures(Vec<(PublicKey, Signature)>);

impl Signatures {
    /// Adds a signature over `message`. Signing again with the same key replaces its signature.
    pub(crate) fn add(&mut self, signer: &dyn Sign, message: &[u8]) {
        let (key, signature) = (signer.public_key(), signer.sign(message));
        self.0.retain(|(other, _)| *other != key);
        self.0.push((key, signature));
        self.0.sort_by_key(|(key, _)| *key);
    }

    /// The keys that the document claims to be signed with.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &PublicKey> {
        self.0.iter().map(|(key, _)| key)
    }

    /// Whether a trusted key signed `message`, and no trusted key's signature is wrong.
    pub(crate) fn judge(
        &self,
        message: &[u8],
        trusted: &[PublicKey],
        verify: &dyn Verify,
    ) -> Result<(), SignatureError> {
        if self.0.is_empty() {
            return Err(SignatureError::Unsigned);
        }
        let mut by_trusted = self.0.iter().filter(|(key, _)| trusted.contains(key)).peekable();
        by_trusted.peek().ok_or(SignatureError::Untrusted)?;
        match by_trusted.find(|(key, signature)| !verify.is_signed(key, message, signature)) {
            Some((key, _)) => Err(SignatureError::Forged(*key)),
            None => Ok(()),
        }
    }

    pub(crate) fn json(&self) -> Json {
        let signature = |(key, signature): &(PublicKey, Signature)| {
            Json::map([("key", Json::text(key)), ("signature", Json::text(signature))])
        };
        Json::List(self.0.iter().map(signature).collect())
    }

    /// Reads the list of a document. No signature is checked.
    pub(crate) fn from_json(listed: Vec<Json>) -> Result<Self, DocumentError> {
        let signatures = listed.into_iter().map(one).collect::<Result<Vec<_>, _>>()?;
        let in_order = signatures.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if signatures.len() > MAX_SIGNATURES || !in_order {
            return Err(DocumentError::Wrong("signatures"));
        }
        Ok(Self(signatures))
    }
}

fn one(json: Json) -> Result<(PublicKey, Signature), DocumentError> {
    let mut fields = Fields::of(json, "signatures")?;
    let signature = (fields.parsed("key")?, fields.parsed("signature")?);
    fields.end()?;
    Ok(signature)
}
