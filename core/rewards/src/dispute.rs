//! An objection to a run: somebody's signed word that a line of it is wrong. It changes nothing by itself; a correction or an
//! order may answer it.

use types::ActorId;

use crate::{
    Digest, DocumentError, Json, PublicKey, RunName, Sign, Signature, Verify, correction::reason,
    digest::Domain, json::fields::Fields,
};

/// A signed objection to a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dispute {
    /// The run that it is about.
    pub run: RunName,
    /// The actor whose line is disputed.
    pub actor: ActorId,
    /// The objection, as text for people.
    pub reason: String,
    /// The key of the signer.
    pub key: PublicKey,
    /// The signature by this key.
    pub signature: Signature,
}

impl Dispute {
    /// The `format` of the document.
    pub const FORMAT: &str = "omnigate-dispute/1";

    /// States an objection.
    ///
    /// # Errors
    /// [`DocumentError::Wrong`], if the reason is empty, longer than 1000 bytes, or has control characters.
    pub fn of(run: RunName, actor: ActorId, why: &str, signer: &dyn Sign) -> Result<Self, DocumentError> {
        let reason = reason(why).map_err(|()| DocumentError::Wrong("reason"))?;
        let signature = signer.sign(&message(run, &actor, &reason));
        Ok(Self { run, actor, reason, key: signer.public_key(), signature })
    }

    /// Whether the signature is good. Whose key it is, is another question.
    #[must_use]
    pub fn is_good(&self, verify: &dyn Verify) -> bool {
        verify.is_signed(&self.key, &message(self.run, &self.actor, &self.reason), &self.signature)
    }

    /// The hash by which it is named.
    #[must_use]
    pub fn hash(&self) -> Digest {
        Domain::DISPUTE.hash(&self.to_bytes())
    }

    /// The document, in canonical JSON.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        Json::map([
            ("actor", Json::text(&self.actor)),
            ("format", Json::text(Self::FORMAT)),
            ("key", Json::text(self.key)),
            ("reason", Json::text(&self.reason)),
            ("run", self.run.json()),
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
        let dispute = Self {
            run: RunName::from_json(fields.take("run")?, "run")?,
            actor: fields.text("actor", ActorId::new)?,
            reason: fields.text("reason", reason)?,
            key: fields.parsed("key")?,
            signature: fields.parsed("signature")?,
        };
        fields.end()?;
        Ok(dispute)
    }
}

/// A line that says what is signed, and the actor, the reason and the run in canonical JSON.
fn message(run: RunName, actor: &ActorId, reason: &str) -> Vec<u8> {
    let said = Json::map([("actor", Json::text(actor)), ("reason", Json::text(reason)), ("run", run.json())]);
    [b"omnigate.rewards.dispute.1\n", said.to_canonical().as_slice()].concat()
}

#[cfg(all(test, feature = "ed25519"))]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::ed25519::SecretKey;

    #[test]
    fn a_reason_is_one_line_of_text() {
        let run = RunName { epoch: crate::Epoch::new(7).unwrap(), commitment: Digest::new([1; 32]) };
        let key = SecretKey::from_seed(&[7; 32]);
        let of = |why: &str| Dispute::of(run, ActorId::new("ada").unwrap(), why, &key);
        let good = of("è too little, by 3 ÷ 4").unwrap();
        assert_eq!(Dispute::read(&good.to_bytes()), Ok(good.clone()));
        for why in ["", "   ", "x\u{1b}[2J", "x\ny", "x\u{9b}1A", &"x".repeat(1001)] {
            assert_eq!(of(why), Err(DocumentError::Wrong("reason")), "{why:?}");
            let forged = Dispute { reason: why.to_owned(), ..good.clone() };
            assert!(Dispute::read(&forged.to_bytes()).is_err(), "{why:?}");
        }
        assert!(of(&"x".repeat(1000)).is_ok());
    }
}
