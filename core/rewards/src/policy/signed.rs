//! A policy and the signatures of those who answer for it.

use super::{Policy, PolicyError};
use crate::{DocumentError, Json, PublicKey, Sign, Signature, Verify, json::fields::Fields};

/// A policy with its signatures, not judged yet.
///
/// Keys are rotated by signing with the old one and the new one, until everybody trusts the new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedPolicy {
    policy: Policy,
    signatures: Vec<(PublicKey, Signature)>,
}

impl SignedPolicy {
    /// The `format` of the document.
    pub const FORMAT: &str = "omnigate-signed-policy/1";

    /// The most signatures that a policy carries.
    pub const MAX_SIGNATURES: usize = 16;

    /// A policy that nobody signed yet.
    #[must_use]
    pub const fn unsigned(policy: Policy) -> Self {
        Self { policy, signatures: Vec::new() }
    }

    /// The same with one more signature. Signing again with the same key replaces its signature.
    #[must_use]
    pub fn signed_by(mut self, signer: &dyn Sign) -> Self {
        let (key, signature) = (signer.public_key(), signer.sign(&message(&self.policy)));
        self.signatures.retain(|(other, _)| *other != key);
        self.signatures.push((key, signature));
        self.signatures.sort_by_key(|(key, _)| *key);
        self
    }

    /// The policy, judged by nobody.
    #[must_use]
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The keys it claims to be signed with.
    pub fn keys(&self) -> impl Iterator<Item = &PublicKey> {
        self.signatures.iter().map(|(key, _)| key)
    }

    /// The policy, if a trusted key signed it and no trusted key's signature is wrong.
    ///
    /// # Errors
    /// [`PolicyError::Unsigned`], [`PolicyError::Untrusted`] or [`PolicyError::Forged`].
    pub fn judge(&self, trusted: &[PublicKey], verify: &dyn Verify) -> Result<&Policy, PolicyError> {
        if self.signatures.is_empty() {
            return Err(PolicyError::Unsigned);
        }
        let message = message(&self.policy);
        let mut by_trusted = self.signatures.iter().filter(|(key, _)| trusted.contains(key)).peekable();
        by_trusted.peek().ok_or(PolicyError::Untrusted)?;
        match by_trusted.find(|(key, signature)| !verify.is_signed(key, &message, signature)) {
            Some((key, _)) => Err(PolicyError::Forged(*key)),
            None => Ok(&self.policy),
        }
    }

    /// The document, in canonical JSON.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let signature = |(key, signature): &(PublicKey, Signature)| {
            Json::map([("key", Json::text(key)), ("signature", Json::text(signature))])
        };
        Json::map([
            ("format", Json::text(Self::FORMAT)),
            ("policy", self.policy.terms().json()),
            ("signatures", Json::List(self.signatures.iter().map(signature).collect())),
        ])
        .to_canonical()
    }

    /// Reads a document. No signature is checked: see [`SignedPolicy::judge`].
    ///
    /// # Errors
    /// [`PolicyError`], if it is not canonical or its terms make no sense.
    pub fn read(bytes: &[u8]) -> Result<Self, PolicyError> {
        let json = Json::read_canonical(bytes).map_err(DocumentError::from)?;
        let mut fields = Fields::of_document(json, Self::FORMAT)?;
        let policy = Policy::from_json(fields.take("policy")?)?;
        let listed = fields.list("signatures")?;
        fields.end()?;
        let signatures = listed.into_iter().map(one_signature).collect::<Result<Vec<_>, _>>()?;
        let in_order = signatures.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if signatures.len() > Self::MAX_SIGNATURES || !in_order {
            return Err(DocumentError::Wrong("signatures").into());
        }
        Ok(Self { policy, signatures })
    }
}

fn one_signature(json: Json) -> Result<(PublicKey, Signature), DocumentError> {
    let mut fields = Fields::of(json, "signatures")?;
    let signature = (fields.parsed("key")?, fields.parsed("signature")?);
    fields.end()?;
    Ok(signature)
}

/// A line that says what is signed, so that no signature over anything else can be used here; and the terms.
fn message(policy: &Policy) -> Vec<u8> {
    [b"omnigate.rewards.policy.1\n", policy.to_bytes().as_slice()].concat()
}
