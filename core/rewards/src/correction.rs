//! A correction of an epoch that was paid: what actors are owed more, and what they were paid too much.
//!
//! A paid epoch is never changed. A correction is a signed document that names the run that it corrects; the next run of
//! ruleset 3 takes it over, adds the credits to what actors are due, and takes the debits off. A debit takes no more than
//! the actor is due in that epoch.

use std::collections::BTreeSet;

use types::ActorId;

use crate::{
    Amount, Digest, DocumentError, Epoch, Json, PolicyId, PublicKey, Sign, SignatureError, Verify,
    digest::Domain, json::fields::Fields, signatures::Signatures,
};

/// A run, by its epoch and its commitment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunName {
    /// The epoch of the corrected run.
    pub epoch: Epoch,
    /// The commitment of the corrected run.
    pub commitment: Digest,
}

/// The content of a correction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Correction {
    /// The policy whose epochs are corrected.
    pub policy: PolicyId,
    /// The run that it corrects.
    pub corrects: RunName,
    /// What actors are owed more, in the order of actors.
    pub credits: Vec<(ActorId, Amount)>,
    /// What actors were paid too much, in the order of actors.
    pub debits: Vec<(ActorId, Amount)>,
    /// The reason, as text for people.
    pub reason: String,
}

/// A correction with its signatures, not judged yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedCorrection {
    correction: Correction,
    signatures: Signatures,
}

impl RunName {
    pub(crate) fn json(&self) -> Json {
        Json::map([("commitment", Json::text(self.commitment)), ("epoch", Json::Int(self.epoch.int()))])
    }

    pub(crate) fn from_json(json: Json, name: &'static str) -> Result<Self, DocumentError> {
        let mut fields = Fields::of(json, name)?;
        let run = Self { epoch: fields.int("epoch")?.into(), commitment: fields.parsed("commitment")? };
        fields.end()?;
        Ok(run)
    }
}

impl Correction {
    /// The `format` of the document.
    pub const FORMAT: &str = "omnigate-correction/1";
    /// The most actors that one correction is about, as receivers and as debtors each.
    pub const MAX_LINES: usize = 10_000;
    /// The most bytes of the reason.
    pub const MAX_REASON: usize = 1000;

    /// The hash by which a run names it.
    #[must_use]
    pub fn hash(&self) -> Digest {
        Domain::CORRECTION.hash(&self.json().to_canonical())
    }

    fn json(&self) -> Json {
        Json::map([
            ("corrects", self.corrects.json()),
            ("credits", amounts(&self.credits)),
            ("debits", amounts(&self.debits)),
            ("format", Json::text(Self::FORMAT)),
            ("policy", Json::text(&self.policy)),
            ("reason", Json::text(&self.reason)),
        ])
    }

    /// Reads a correction of any layout, as a person writes it down before it is signed.
    ///
    /// # Errors
    /// [`DocumentError`], if it cannot be read or makes no sense.
    pub fn read(bytes: &[u8]) -> Result<Self, DocumentError> {
        Self::from_json(Json::read(bytes)?)
    }

    fn from_json(json: Json) -> Result<Self, DocumentError> {
        let mut fields = Fields::of_document(json, Self::FORMAT)?;
        let correction = Self {
            policy: fields.text("policy", PolicyId::new)?,
            corrects: RunName::from_json(fields.take("corrects")?, "corrects")?,
            credits: read_amounts(fields.list("credits")?, "credits")?,
            debits: read_amounts(fields.list("debits")?, "debits")?,
            reason: fields.text("reason", reason)?,
        };
        fields.end()?;
        if correction.credits.is_empty() && correction.debits.is_empty() {
            return Err(DocumentError::Wrong("credits"));
        }
        let credited: BTreeSet<_> = correction.credits.iter().map(|(actor, _)| actor).collect();
        if correction.debits.iter().any(|(actor, _)| credited.contains(actor)) {
            return Err(DocumentError::Wrong("debits"));
        }
        Ok(correction)
    }
}

/// A reason that people are given: one line of text, not empty, and of a bounded length. It is printed to terminals, which
/// take control characters for commands.
pub(crate) fn reason(text: &str) -> Result<String, ()> {
    let fits = !text.trim().is_empty() && text.len() <= Correction::MAX_REASON;
    let fits = fits && !text.chars().any(char::is_control);
    if fits { Ok(text.to_owned()) } else { Err(()) }
}

fn amounts(list: &[(ActorId, Amount)]) -> Json {
    let one = |(actor, amount): &(ActorId, Amount)| {
        Json::map([("actor", Json::text(actor)), ("amount", Json::text(amount))])
    };
    Json::List(list.iter().map(one).collect())
}

fn read_amounts(list: Vec<Json>, name: &'static str) -> Result<Vec<(ActorId, Amount)>, DocumentError> {
    let one = |json: Json| {
        let mut fields = Fields::of(json, name)?;
        let read: (ActorId, Amount) = (fields.text("actor", ActorId::new)?, fields.parsed("amount")?);
        fields.end()?;
        Ok(read)
    };
    let read = list.into_iter().map(one).collect::<Result<Vec<_>, DocumentError>>()?;
    let in_order = read.windows(2).all(|pair| pair[0].0 < pair[1].0);
    let senseless =
        |(actor, amount): &(ActorId, Amount)| *amount == Amount::ZERO || *actor == ActorId::other();
    if !in_order || read.len() > Correction::MAX_LINES || read.iter().any(senseless) {
        return Err(DocumentError::Wrong(name));
    }
    Ok(read)
}

impl SignedCorrection {
    /// The `format` of the document.
    pub const FORMAT: &str = "omnigate-signed-correction/1";

    /// A correction that nobody signed yet.
    #[must_use]
    pub fn unsigned(correction: Correction) -> Self {
        Self { correction, signatures: Signatures::default() }
    }

    /// The same with one more signature.
    #[must_use]
    pub fn signed_by(mut self, signer: &dyn Sign) -> Self {
        self.signatures.add(signer, &message(&self.correction));
        self
    }

    /// The correction, judged by nobody.
    #[must_use]
    pub const fn correction(&self) -> &Correction {
        &self.correction
    }

    /// The keys that it claims to be signed with.
    pub fn keys(&self) -> impl Iterator<Item = &PublicKey> {
        self.signatures.keys()
    }

    /// The correction, if a trusted key signed it and no trusted key's signature is wrong.
    ///
    /// # Errors
    /// [`SignatureError`] if not.
    pub fn judge(&self, trusted: &[PublicKey], verify: &dyn Verify) -> Result<&Correction, SignatureError> {
        self.signatures.judge(&message(&self.correction), trusted, verify)?;
        Ok(&self.correction)
    }

    /// The document, in canonical JSON.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        Json::map([
            ("correction", self.correction.json()),
            ("format", Json::text(Self::FORMAT)),
            ("signatures", self.signatures.json()),
        ])
        .to_canonical()
    }

    /// Reads a document. No signature is checked.
    ///
    /// # Errors
    /// [`DocumentError`], if it is not canonical or makes no sense.
    pub fn read(bytes: &[u8]) -> Result<Self, DocumentError> {
        let mut fields = Fields::of_document(Json::read_canonical(bytes)?, Self::FORMAT)?;
        let correction = Correction::from_json(fields.take("correction")?)?;
        let signatures = Signatures::from_json(fields.list("signatures")?)?;
        fields.end()?;
        Ok(Self { correction, signatures })
    }
}

fn message(correction: &Correction) -> Vec<u8> {
    [b"omnigate.rewards.correction.1\n", correction.json().to_canonical().as_slice()].concat()
}
