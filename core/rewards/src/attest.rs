//! Somebody's word that they came to the same run: a signature over its commitment, in a file of its own.

use crate::{
    Digest, DocumentError, Epoch, Json, PublicKey, Run, Sign, Signature, Verify, json::fields::Fields,
};

/// A signed statement about a run. Detached: the run's own documents do not change by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attestation {
    /// The epoch of the run.
    pub epoch: Epoch,
    /// The commitment of the run.
    pub commitment: Digest,
    /// The key of the node that attests to the run.
    pub key: PublicKey,
    /// The signature by this key.
    pub signature: Signature,
}

impl Attestation {
    /// The `format` of the document.
    pub const FORMAT: &str = "omnigate-attestation/1";

    /// States that this is the run.
    #[must_use]
    pub fn of(run: &Run, signer: &dyn Sign) -> Self {
        let (epoch, commitment) = (run.epoch(), run.commitment());
        let signature = signer.sign(&message(epoch, commitment));
        Self { epoch, commitment, key: signer.public_key(), signature }
    }

    /// Whether the signature is good. Whose key it is, is another question.
    #[must_use]
    pub fn is_good(&self, verify: &dyn Verify) -> bool {
        verify.is_signed(&self.key, &message(self.epoch, self.commitment), &self.signature)
    }

    /// The document, in canonical JSON.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        Json::map([
            ("commitment", Json::text(self.commitment)),
            ("epoch", Json::Int(self.epoch.int())),
            ("format", Json::text(Self::FORMAT)),
            ("key", Json::text(self.key)),
            ("signature", Json::text(self.signature)),
        ])
        .to_canonical()
    }

    /// Reads a document. The signature is not checked.
    ///
    /// # Errors
    /// [`DocumentError`], if it is not canonical or lacks something.
    pub fn read(bytes: &[u8]) -> Result<Self, DocumentError> {
        let mut fields = Fields::of_document(Json::read_canonical(bytes)?, Self::FORMAT)?;
        let attestation = Self {
            epoch: fields.int("epoch")?.into(),
            commitment: fields.parsed("commitment")?,
            key: fields.parsed("key")?,
            signature: fields.parsed("signature")?,
        };
        fields.end()?;
        Ok(attestation)
    }
}

fn message(epoch: Epoch, commitment: Digest) -> Vec<u8> {
    format!("omnigate.rewards.attestation.1\nepoch {epoch}\nrun {commitment}\n").into_bytes()
}
