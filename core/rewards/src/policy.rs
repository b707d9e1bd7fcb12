//! What is paid for, how much there is, and who says so.

mod document;
mod signed;

use std::collections::BTreeMap;

use types::ActorId;

use crate::{
    Amount, Digest, DocumentError, Epoch, Int, Metric, PolicyId, Ruleset, digest::Domain, ruleset::PPM,
};

pub use signed::SignedPolicy;

/// What becomes of the part of a pool that nobody is paid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Residual {
    /// The residual stays in the pool's account.
    Keep,
    /// It is transferred to this actor, behind all payouts.
    Pay(ActorId),
}

/// The terms of a policy, as they are written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyTerms {
    /// The id of the policy.
    pub id: PolicyId,
    /// Its version; a greater one replaces a smaller one.
    pub version: Int,
    /// The ruleset that applies the policy.
    pub ruleset: Ruleset,
    /// What there is to pay in each epoch.
    pub pool: Amount,
    /// What a unit of each metric counts, in millionths of a point. Metrics that are not named count nothing.
    pub weights_ppm: BTreeMap<Metric, u32>,
    /// The most that one actor is paid, in millionths of the pool.
    pub cap_ppm: u32,
    /// Less than this is not paid.
    pub min_payout: Amount,
    /// What is done with the residual.
    pub residual: Residual,
    /// The first epoch it applies to.
    pub first_epoch: Epoch,
    /// The last one, if there is a last one.
    pub last_epoch: Option<Epoch>,
}

/// Terms that make sense, with their hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    terms: PolicyTerms,
    hash: Digest,
}

/// Why a policy is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The policy has no signature.
    #[error("it is not signed")]
    Unsigned,
    /// None of its signatures is by a trusted key.
    #[error("it is not signed by a trusted key")]
    Untrusted,
    /// A trusted key's signature is not over these terms.
    #[error("the signature of {0} is not over these terms")]
    Forged(crate::PublicKey),
    /// It does not apply to the epoch.
    #[error("it does not apply to epoch {0}")]
    Stale(Epoch),
    /// A newer version is in force.
    #[error("version {0} is in force")]
    Superseded(u64),
    /// The rules have a number that this program does not know.
    #[error("there is no ruleset {0}")]
    UnknownRuleset(u64),
    /// The document cannot be read, or is of a version that this program does not know.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// The terms make no sense.
    #[error("{0}")]
    Senseless(&'static str),
}

impl From<crate::SignatureError> for PolicyError {
    fn from(error: crate::SignatureError) -> Self {
        match error {
            crate::SignatureError::Unsigned => Self::Unsigned,
            crate::SignatureError::Untrusted => Self::Untrusted,
            crate::SignatureError::Forged(key) => Self::Forged(key),
        }
    }
}

impl PolicyError {
    /// The reason as one word.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unsigned => "policy_unsigned",
            Self::Untrusted => "policy_untrusted",
            Self::Forged(_) => "policy_forged",
            Self::Stale(_) | Self::Superseded(_) => "policy_stale",
            Self::UnknownRuleset(_) | Self::Document(DocumentError::Format(_)) => "policy_unknown_version",
            Self::Document(_) => "policy_malformed",
            Self::Senseless(_) => "policy_senseless",
        }
    }
}

impl Policy {
    /// The greatest weight: a thousand points for a unit.
    pub const MAX_WEIGHT_PPM: u32 = 1_000_000_000;

    /// The most metrics that have a weight.
    pub const MAX_WEIGHTS: usize = 64;

    /// Takes terms that make sense.
    ///
    /// # Errors
    /// [`PolicyError::Senseless`], with the term that does not.
    pub fn new(terms: PolicyTerms) -> Result<Self, PolicyError> {
        let refuse = |what| Err(PolicyError::Senseless(what));
        if terms.pool == Amount::ZERO {
            return refuse("the pool is empty");
        }
        if terms.weights_ppm.is_empty() || terms.weights_ppm.len() > Self::MAX_WEIGHTS {
            return refuse("between one and 64 metrics have a weight");
        }
        if terms.weights_ppm.values().any(|weight| !(1..=Self::MAX_WEIGHT_PPM).contains(weight)) {
            return refuse("a weight is between 1 and 1000000000 millionths; leave out what counts nothing");
        }
        if terms.weights_ppm.keys().any(|metric| metric.as_str().starts_with("used.")) {
            return refuse("what somebody used (`used.`) earns nothing");
        }
        if !(1..=PPM).contains(&terms.cap_ppm.into()) {
            return refuse("the cap is between 1 and 1000000 millionths of the pool");
        }
        if terms.min_payout > terms.ruleset.cap(terms.pool, terms.cap_ppm) {
            return refuse("the minimum payout is above the cap, so nobody would be paid");
        }
        if terms.last_epoch.is_some_and(|last| last < terms.first_epoch) {
            return refuse("it ends before it begins");
        }
        let hash = Domain::POLICY.hash(&terms.json().to_canonical());
        Ok(Self { terms, hash })
    }

    /// Returns the policy's terms.
    #[must_use]
    pub const fn terms(&self) -> &PolicyTerms {
        &self.terms
    }

    /// The hash of the terms, which a run's manifest names.
    #[must_use]
    pub const fn hash(&self) -> Digest {
        self.hash
    }

    /// The most that one actor is paid.
    #[must_use]
    pub fn cap(&self) -> Amount {
        self.terms.ruleset.cap(self.terms.pool, self.terms.cap_ppm)
    }

    /// Whether the policy applies to `epoch`.
    ///
    /// # Errors
    /// [`PolicyError::Stale`] if not.
    pub fn applies_to(&self, epoch: Epoch) -> Result<(), PolicyError> {
        let begun = epoch >= self.terms.first_epoch;
        if begun && self.terms.last_epoch.is_none_or(|last| epoch <= last) {
            Ok(())
        } else {
            Err(PolicyError::Stale(epoch))
        }
    }

    /// Whether the policy may take the place of `in_force`: the same policy, or a later version of it.
    ///
    /// # Errors
    /// [`PolicyError::Superseded`] if the version is not greater while the terms differ.
    pub fn may_replace(&self, in_force: &Self) -> Result<(), PolicyError> {
        let newer = self.terms.version > in_force.terms.version;
        if newer || self.hash == in_force.hash {
            Ok(())
        } else {
            Err(PolicyError::Superseded(in_force.terms.version.get()))
        }
    }
}
