//! `brought.json`: what a run of ruleset 3 takes over from before it. The run that it follows, the amounts that were carried
//! over, corrections of earlier runs, and the registry of payees.

use std::{collections::BTreeMap, sync::Arc};

use types::ActorId;

use crate::{
    Carried, CarriedFile, Correction, Digest, DocumentError, Int, Json, Payees, PolicyId, Quarantine,
    RunName, digest::Domain, json::fields::Fields,
};

/// What a run takes over, with everything that it refers to. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Brought {
    /// The run before; `None` for the first of a chain.
    pub previous: Option<RunName>,
    /// What the run before carried over.
    pub carried: Arc<Carried>,
    /// Corrections that take effect in this run, in the order in which they were accepted.
    pub corrections: Arc<Vec<Correction>>,
    /// The registry of payees that applies to the run, if there is one.
    pub payees: Option<Arc<Payees>>,
}

/// The same by its hashes alone, as `brought.json` and `run.json` have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BroughtNames {
    /// The run before; `None` for the first of a chain.
    pub previous: Option<RunName>,
    /// The file of what the run before carried over.
    pub carried: CarriedFile,
    /// Corrections: which run each corrects, and its hash.
    pub corrections: Vec<(RunName, Digest)>,
    /// The registry of payees: its hash and its version.
    pub payees: Option<(Digest, Int)>,
}

/// What is asked for an actor, besides its share: in minor units.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ask {
    pub(crate) carried: u128,
    pub(crate) credit: u128,
    pub(crate) debit: u128,
}

impl Brought {
    /// The most corrections that take effect in one run.
    pub const MAX_CORRECTIONS: usize = 64;

    /// Returns the hashes that name these inputs.
    #[must_use]
    pub fn names(&self) -> BroughtNames {
        BroughtNames {
            previous: self.previous,
            carried: self.carried.file().clone(),
            corrections: self.corrections.iter().map(|one| (one.corrects, one.hash())).collect(),
            payees: self.payees.as_ref().map(|payees| (payees.hash(), payees.version)),
        }
    }

    /// Whether there is nothing to take over.
    pub(crate) fn is_empty(&self) -> bool {
        self.previous.is_none()
            && self.carried.amounts().is_empty()
            && self.corrections.is_empty()
            && self.payees.is_none()
    }

    /// Whether it can be taken over by a run of this policy.
    pub(crate) fn check(&self, policy: &PolicyId) -> Result<(), Quarantine> {
        let refuse = |what| Err(Quarantine::Brought(what));
        if self.previous.is_none() && !self.carried.amounts().is_empty() {
            return refuse("amounts are carried over from no run");
        }
        if self.corrections.len() > Self::MAX_CORRECTIONS {
            return refuse("there are more than 64 corrections");
        }
        let mut hashes: Vec<_> = self.corrections.iter().map(Correction::hash).collect();
        hashes.sort_unstable();
        if hashes.windows(2).any(|pair| pair[0] == pair[1]) {
            return refuse("a correction is there twice");
        }
        if self.corrections.iter().any(|one| one.policy != *policy) {
            return refuse("a correction is of another policy");
        }
        if self.payees.as_ref().is_some_and(|payees| payees.policy != *policy) {
            return refuse("the registry of payees is of another policy");
        }
        Ok(())
    }

    /// What is asked for whom, in the order of actors.
    pub(crate) fn asks(&self) -> Result<BTreeMap<&ActorId, Ask>, Quarantine> {
        let carried = self.carried.amounts().iter();
        let mut asks: BTreeMap<&ActorId, Ask> = carried
            .map(|(actor, amount)| (actor, Ask { carried: amount.minor(), ..Ask::default() }))
            .collect();
        let overflow = || Quarantine::Overflow("corrections");
        for correction in &*self.corrections {
            for (actor, amount) in &correction.credits {
                let ask = asks.entry(actor).or_default();
                ask.credit = ask.credit.checked_add(amount.minor()).ok_or_else(overflow)?;
            }
            for (actor, amount) in &correction.debits {
                let ask = asks.entry(actor).or_default();
                ask.debit = ask.debit.checked_add(amount.minor()).ok_or_else(overflow)?;
            }
        }
        Ok(asks)
    }
}

impl BroughtNames {
    /// The document, in canonical JSON.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.json().to_canonical()
    }

    /// The hash of the document, which the run key is made of.
    #[must_use]
    pub fn root(&self) -> Digest {
        Domain::BROUGHT.hash(&self.to_bytes())
    }

    pub(crate) fn json(&self) -> Json {
        let correction = |(corrects, hash): &(RunName, Digest)| {
            Json::map([("corrects", corrects.json()), ("hash", Json::text(hash))])
        };
        let payees = |(hash, version): &(Digest, Int)| {
            Json::map([("hash", Json::text(hash)), ("version", Json::Int(*version))])
        };
        Json::map([
            ("carried", self.carried.json()),
            ("corrections", Json::List(self.corrections.iter().map(correction).collect())),
            ("payees", self.payees.as_ref().map_or(Json::Null, payees)),
            ("previous", self.previous.as_ref().map_or(Json::Null, RunName::json)),
        ])
    }

    /// Reads a document.
    ///
    /// # Errors
    /// [`DocumentError`], if it is not canonical or lacks something.
    pub fn read(bytes: &[u8]) -> Result<Self, DocumentError> {
        Self::from_json(Json::read_canonical(bytes)?)
    }

    pub(crate) fn from_json(json: Json) -> Result<Self, DocumentError> {
        let mut fields = Fields::of(json, "brought")?;
        let names = Self {
            previous: match fields.take("previous")? {
                Json::Null => None,
                json => Some(RunName::from_json(json, "previous")?),
            },
            carried: CarriedFile::from_json(fields.take("carried")?)?,
            corrections: fields.list("corrections")?.into_iter().map(correction).collect::<Result<_, _>>()?,
            payees: match fields.take("payees")? {
                Json::Null => None,
                json => Some(payees(json)?),
            },
        };
        fields.end()?;
        Ok(names)
    }
}

fn correction(json: Json) -> Result<(RunName, Digest), DocumentError> {
    let mut fields = Fields::of(json, "corrections")?;
    let read = (RunName::from_json(fields.take("corrects")?, "corrects")?, fields.parsed("hash")?);
    fields.end()?;
    Ok(read)
}

fn payees(json: Json) -> Result<(Digest, Int), DocumentError> {
    let mut fields = Fields::of(json, "payees")?;
    let read = (fields.parsed("hash")?, fields.int("version")?);
    fields.end()?;
    Ok(read)
}
