//! The registry of payees: to whose account an actor's payouts go, from which epoch on and until when.
//!
//! The operator signs the registry, and a greater version replaces a smaller one. An actor that is a key (its name is the id
//! of an Ed25519 key) has to consent: its entry carries a signature by that key, or by a key that it has delegated this to.

use types::{ActorId, NodeId};

use crate::{
    Digest, DocumentError, Epoch, Int, Json, PolicyId, PublicKey, Sign, Signature, SignatureError, Verify,
    digest::Domain, json::fields::Fields, signatures::Signatures,
};

/// Whose account an actor's payouts go to, in some epochs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PayeeEntry {
    /// The actor that earns.
    pub actor: ActorId,
    /// The actor whose account is paid.
    pub payee: ActorId,
    /// The first epoch that it applies to.
    pub first_epoch: Epoch,
    /// The last one; `None` if there is no end.
    pub last_epoch: Option<Epoch>,
    /// The actor's own word; `None` for actors that are not keys.
    pub consent: Option<Consent>,
}

/// An actor's word for its entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consent {
    /// The actor's key, or the key of its delegate.
    pub key: PublicKey,
    /// The signature over the entry.
    pub signature: Signature,
    /// The actor's word that the key is its delegate; `None` if the key is the actor's own.
    pub delegation: Option<Delegation>,
}

/// An actor's word that another key may consent for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delegation {
    /// The actor's own key.
    pub key: PublicKey,
    /// The last epoch that the delegate may decide about; `None` if there is no end.
    pub last_epoch: Option<Epoch>,
    /// The signature by the actor's own key.
    pub signature: Signature,
}

/// A registry of payees: which account is paid for which actor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payees {
    /// The policy whose payouts it directs.
    pub policy: PolicyId,
    /// Its version; a greater one replaces a smaller one.
    pub version: Int,
    /// In the order of actors, then of first epochs. Entries of one actor do not overlap.
    entries: Vec<PayeeEntry>,
}

/// A registry with its signatures, not judged yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedPayees {
    payees: Payees,
    signatures: Signatures,
}

/// Why a registry is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PayeesError {
    /// The document cannot be parsed.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// The operator's signatures do not count.
    #[error(transparent)]
    Signatures(#[from] SignatureError),
    /// Entries are out of order, or two of one actor apply to the same epoch.
    #[error("the entries are not in the order of actors and epochs, or those of {0} overlap")]
    Overlap(ActorId),
    /// An actor that is a key has not consented.
    #[error("{0} is a key, and has not consented to its entry: {1}")]
    NoConsent(ActorId, &'static str),
}

impl PayeeEntry {
    /// The same with the consent of the actor's own key.
    #[must_use]
    pub fn consented_by(mut self, policy: &PolicyId, signer: &dyn Sign) -> Self {
        let signature = signer.sign(&self.message(policy));
        self.consent = Some(Consent { key: signer.public_key(), signature, delegation: None });
        self
    }

    /// The same with the consent of a delegate.
    #[must_use]
    pub fn consented_for(mut self, policy: &PolicyId, signer: &dyn Sign, word: Delegation) -> Self {
        let signature = signer.sign(&self.message(policy));
        self.consent = Some(Consent { key: signer.public_key(), signature, delegation: Some(word) });
        self
    }

    fn message(&self, policy: &PolicyId) -> Vec<u8> {
        let said = Json::map([
            ("actor", Json::text(&self.actor)),
            ("first_epoch", Json::Int(self.first_epoch.int())),
            ("last_epoch", epoch_or_null(self.last_epoch)),
            ("payee", Json::text(&self.payee)),
            ("policy", Json::text(policy)),
        ]);
        [b"omnigate.rewards.payee.1\n", said.to_canonical().as_slice()].concat()
    }

    /// Whether the actor has consented, if it is a key.
    fn check_consent(&self, policy: &PolicyId, verify: &dyn Verify) -> Result<(), PayeesError> {
        let Ok(node) = self.actor.as_str().parse::<NodeId>() else { return Ok(()) };
        let refuse = |why| Err(PayeesError::NoConsent(self.actor.clone(), why));
        let Some(consent) = &self.consent else { return refuse("there is no signature") };
        let own = match &consent.delegation {
            None => consent.key,
            Some(word) => {
                let said = delegation_message(&self.actor, consent.key, word.last_epoch);
                if !verify.is_signed(&word.key, &said, &word.signature) {
                    return refuse("the delegation is not signed by the key");
                }
                let within = match (self.last_epoch, word.last_epoch) {
                    (_, None) => true,
                    (None, Some(_)) => false,
                    (Some(last), Some(limit)) => last <= limit,
                };
                if !within {
                    return refuse("the entry lasts longer than the delegation");
                }
                word.key
            }
        };
        if NodeId::of_key(own.as_bytes()) != node {
            return refuse("the signature is by another key");
        }
        if !verify.is_signed(&consent.key, &self.message(policy), &consent.signature) {
            return refuse("the signature is not over this entry");
        }
        Ok(())
    }

    /// The entry in canonical JSON, as it stands in a registry.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.json().to_canonical()
    }

    fn applies_to(&self, epoch: Epoch) -> bool {
        epoch >= self.first_epoch && self.last_epoch.is_none_or(|last| epoch <= last)
    }

    fn json(&self) -> Json {
        Json::map([
            ("actor", Json::text(&self.actor)),
            ("consent", self.consent.as_ref().map_or(Json::Null, Consent::json)),
            ("first_epoch", Json::Int(self.first_epoch.int())),
            ("last_epoch", epoch_or_null(self.last_epoch)),
            ("payee", Json::text(&self.payee)),
        ])
    }

    fn from_json(json: Json) -> Result<Self, DocumentError> {
        let mut fields = Fields::of(json, "entries")?;
        let entry = Self {
            actor: fields.text("actor", ActorId::new)?,
            payee: fields.text("payee", ActorId::new)?,
            first_epoch: fields.int("first_epoch")?.into(),
            last_epoch: read_epoch(fields.take("last_epoch")?)?,
            consent: match fields.take("consent")? {
                Json::Null => None,
                json => Some(Consent::from_json(json)?),
            },
        };
        fields.end()?;
        let nobody = ActorId::other();
        let ends_first = entry.last_epoch.is_some_and(|last| last < entry.first_epoch);
        if ends_first || entry.actor == nobody || entry.payee == nobody {
            return Err(DocumentError::Wrong("entries"));
        }
        Ok(entry)
    }
}

impl Delegation {
    /// The word of an actor's own key that `delegate` may consent for it.
    #[must_use]
    pub fn of(actor: &ActorId, delegate: PublicKey, last_epoch: Option<Epoch>, signer: &dyn Sign) -> Self {
        let signature = signer.sign(&delegation_message(actor, delegate, last_epoch));
        Self { key: signer.public_key(), last_epoch, signature }
    }

    /// The document, in canonical JSON, as it stands in a registry.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.json().to_canonical()
    }

    /// Reads a document. The signature is not checked.
    ///
    /// # Errors
    /// [`DocumentError`], if it cannot be read or lacks something.
    pub fn read(bytes: &[u8]) -> Result<Self, DocumentError> {
        Self::from_json(Json::read(bytes)?)
    }

    fn json(&self) -> Json {
        Json::map([
            ("key", Json::text(self.key)),
            ("last_epoch", epoch_or_null(self.last_epoch)),
            ("signature", Json::text(self.signature)),
        ])
    }

    fn from_json(json: Json) -> Result<Self, DocumentError> {
        let mut fields = Fields::of(json, "delegation")?;
        let word = Self {
            key: fields.parsed("key")?,
            last_epoch: read_epoch(fields.take("last_epoch")?)?,
            signature: fields.parsed("signature")?,
        };
        fields.end()?;
        Ok(word)
    }
}

fn delegation_message(actor: &ActorId, delegate: PublicKey, last_epoch: Option<Epoch>) -> Vec<u8> {
    let said = Json::map([
        ("actor", Json::text(actor)),
        ("delegate", Json::text(delegate)),
        ("last_epoch", epoch_or_null(last_epoch)),
    ]);
    [b"omnigate.rewards.delegation.1\n", said.to_canonical().as_slice()].concat()
}

impl Consent {
    fn json(&self) -> Json {
        Json::map([
            ("delegation", self.delegation.as_ref().map_or(Json::Null, Delegation::json)),
            ("key", Json::text(self.key)),
            ("signature", Json::text(self.signature)),
        ])
    }

    fn from_json(json: Json) -> Result<Self, DocumentError> {
        let mut fields = Fields::of(json, "consent")?;
        let delegation = match fields.take("delegation")? {
            Json::Null => None,
            json => Some(Delegation::from_json(json)?),
        };
        let consent = Self { key: fields.parsed("key")?, signature: fields.parsed("signature")?, delegation };
        fields.end()?;
        Ok(consent)
    }
}

fn epoch_or_null(epoch: Option<Epoch>) -> Json {
    epoch.map_or(Json::Null, |epoch| Json::Int(epoch.int()))
}

fn read_epoch(json: Json) -> Result<Option<Epoch>, DocumentError> {
    match json {
        Json::Null => Ok(None),
        Json::Int(number) => Ok(Some(number.into())),
        _ => Err(DocumentError::Wrong("last_epoch")),
    }
}

impl Payees {
    /// The `format` of the document.
    pub const FORMAT: &str = "omnigate-payees/1";
    /// The maximum number of entries in a registry.
    pub const MAX_ENTRIES: usize = 100_000;

    /// A registry with these entries, which are put in order.
    ///
    /// # Errors
    /// [`PayeesError::Overlap`], if two entries of one actor apply to the same epoch.
    pub fn new(policy: PolicyId, version: Int, mut entries: Vec<PayeeEntry>) -> Result<Self, PayeesError> {
        entries.sort_by(|one, other| (&one.actor, one.first_epoch).cmp(&(&other.actor, other.first_epoch)));
        Self { policy, version, entries }.in_order()
    }

    fn in_order(self) -> Result<Self, PayeesError> {
        let follows = |one: &PayeeEntry, next: &PayeeEntry| {
            one.actor < next.actor
                || (one.actor == next.actor && one.last_epoch.is_some_and(|last| last < next.first_epoch))
        };
        match self.entries.windows(2).find(|pair| !follows(&pair[0], &pair[1])) {
            Some(pair) => Err(PayeesError::Overlap(pair[1].actor.clone())),
            None => Ok(self),
        }
    }

    /// The entries, in the order of actors, then of first epochs.
    #[must_use]
    pub fn entries(&self) -> &[PayeeEntry] {
        &self.entries
    }

    /// Whose account the payouts of an actor go to: its own, unless an entry says otherwise.
    #[must_use]
    pub fn payee_of<'a>(&'a self, actor: &'a str, epoch: Epoch) -> &'a str {
        let from = self.entries.partition_point(|entry| entry.actor.as_str() < actor);
        let of_actor = self.entries[from..].iter().take_while(|entry| entry.actor.as_str() == actor);
        let found = of_actor.into_iter().find(|entry| entry.applies_to(epoch));
        found.map_or(actor, |entry| entry.payee.as_str())
    }

    /// The hash by which a run names it.
    #[must_use]
    pub fn hash(&self) -> Digest {
        Domain::PAYEES.hash(&self.json().to_canonical())
    }

    fn json(&self) -> Json {
        Json::map([
            ("entries", Json::List(self.entries.iter().map(PayeeEntry::json).collect())),
            ("format", Json::text(Self::FORMAT)),
            ("policy", Json::text(&self.policy)),
            ("version", Json::Int(self.version)),
        ])
    }

    /// Reads a registry of any layout, as a person writes it down before it is signed.
    ///
    /// # Errors
    /// [`PayeesError`], if it cannot be read or entries overlap.
    pub fn read(bytes: &[u8]) -> Result<Self, PayeesError> {
        Self::from_json(Json::read(bytes).map_err(DocumentError::from)?)
    }

    fn from_json(json: Json) -> Result<Self, PayeesError> {
        let mut fields = Fields::of_document(json, Self::FORMAT)?;
        let (policy, version) = (fields.text("policy", PolicyId::new)?, fields.int("version")?);
        let entries = fields.list("entries")?;
        fields.end()?;
        if entries.len() > Self::MAX_ENTRIES {
            return Err(DocumentError::Wrong("entries").into());
        }
        let entries = entries.into_iter().map(PayeeEntry::from_json).collect::<Result<_, _>>()?;
        Self { policy, version, entries }.in_order()
    }
}

impl SignedPayees {
    /// The `format` of the document.
    pub const FORMAT: &str = "omnigate-signed-payees/1";

    /// A registry that nobody signed yet.
    #[must_use]
    pub fn unsigned(payees: Payees) -> Self {
        Self { payees, signatures: Signatures::default() }
    }

    /// The same with one more signature.
    #[must_use]
    pub fn signed_by(mut self, signer: &dyn Sign) -> Self {
        self.signatures.add(signer, &message(&self.payees));
        self
    }

    /// The registry, judged by nobody.
    #[must_use]
    pub const fn payees(&self) -> &Payees {
        &self.payees
    }

    /// The keys that it claims to be signed with.
    pub fn keys(&self) -> impl Iterator<Item = &PublicKey> {
        self.signatures.keys()
    }

    /// The registry, if a trusted key signed it, no trusted key's signature is wrong, and every actor that is a key has
    /// consented.
    ///
    /// # Errors
    /// [`PayeesError`] if not.
    pub fn judge(&self, trusted: &[PublicKey], verify: &dyn Verify) -> Result<&Payees, PayeesError> {
        self.signatures.judge(&message(&self.payees), trusted, verify)?;
        let policy = &self.payees.policy;
        self.payees.entries.iter().try_for_each(|entry| entry.check_consent(policy, verify))?;
        Ok(&self.payees)
    }

    /// The document, in canonical JSON.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        Json::map([
            ("format", Json::text(Self::FORMAT)),
            ("payees", self.payees.json()),
            ("signatures", self.signatures.json()),
        ])
        .to_canonical()
    }

    /// Reads a document. No signature is checked.
    ///
    /// # Errors
    /// [`PayeesError`], if it is not canonical or makes no sense.
    pub fn read(bytes: &[u8]) -> Result<Self, PayeesError> {
        let json = Json::read_canonical(bytes).map_err(DocumentError::from)?;
        let mut fields = Fields::of_document(json, Self::FORMAT)?;
        let payees = Payees::from_json(fields.take("payees")?)?;
        let signatures = Signatures::from_json(fields.list("signatures")?)?;
        fields.end()?;
        Ok(Self { payees, signatures })
    }
}

fn message(payees: &Payees) -> Vec<u8> {
    [b"omnigate.rewards.payees.1\n", payees.json().to_canonical().as_slice()].concat()
}
