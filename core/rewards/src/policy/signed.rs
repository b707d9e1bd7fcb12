//! A policy and the signatures of those who answer for it.

use super::{Policy, PolicyError};
use crate::{
    DocumentError, Json, PublicKey, Sign, Verify,
    json::fields::Fields,
    signatures::{MAX_SIGNATURES, Signatures},
};

/// A policy with its signatures, not judged yet.
///
/// Keys are rotated by signing with the old one and the new one, until everybody trusts the new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedPolicy {
    policy: Policy,
    signatures: Signatures,
}

impl SignedPolicy {
    /// The `format` of the document.
    pub const FORMAT: &str = "omnigate-signed-policy/1";

    /// The most signatures that a policy carries.
    pub const MAX_SIGNATURES: usize = MAX_SIGNATURES;

    /// A policy that nobody signed yet.
    #[must_use]
    pub fn unsigned(policy: Policy) -> Self {
        Self { policy, signatures: Signatures::default() }
    }

    /// The same with one more signature. Signing again with the same key replaces its signature.
    #[must_use]
    pub fn signed_by(mut self, signer: &dyn Sign) -> Self {
        self.signatures.add(signer, &message(&self.policy));
        self
    }

    /// The policy, judged by nobody.
    #[must_use]
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The keys it claims to be signed with.
    pub fn keys(&self) -> impl Iterator<Item = &PublicKey> {
        self.signatures.keys()
    }

    /// The policy, if a trusted key signed it and no trusted key's signature is wrong.
    ///
    /// # Errors
    /// [`PolicyError::Unsigned`], [`PolicyError::Untrusted`] or [`PolicyError::Forged`].
    pub fn judge(&self, trusted: &[PublicKey], verify: &dyn Verify) -> Result<&Policy, PolicyError> {
        self.signatures.judge(&message(&self.policy), trusted, verify)?;
        Ok(&self.policy)
    }

    /// The document, in canonical JSON.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        Json::map([
            ("format", Json::text(Self::FORMAT)),
            ("policy", self.policy.terms().json()),
            ("signatures", self.signatures.json()),
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
        let signatures = Signatures::from_json(fields.list("signatures")?)?;
        fields.end()?;
        Ok(Self { policy, signatures })
    }
}

/// A line that says what is signed, so that no signature over anything else can be used here; and the terms.
fn message(policy: &Policy) -> Vec<u8> {
    [b"omnigate.rewards.policy.1\n", policy.to_bytes().as_slice()].concat()
}
