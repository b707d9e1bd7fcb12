//! What an epoch of ruleset 3 takes over from before it, as the store has it: checked, and as files of its bundle. Blocking.

use std::sync::Arc;

use rewards::{
    Action, Brought, Carried, Correction, Digest, Epoch, Payees, Policy, PublicKey, RunName,
    SignedCorrection, SignedOrder, SignedPayees, bundle,
};
use ron_accounting::Ed25519;

use crate::{
    RewarderError, crash,
    settings::Settings,
    store::{ChainPlace, EpochStore, Kept},
};

/// The most objections that are kept for one epoch.
pub(crate) const MAX_DISPUTES: u64 = 256;

/// What an epoch takes over. An epoch whose turn has not come is told to wait.
pub(crate) fn of_epoch(store: &EpochStore, epoch: u64, policy: &Policy) -> Result<Brought, RewarderError> {
    if !policy.terms().ruleset.is_chained() {
        return Ok(Brought::default());
    }
    let chain = policy.terms().id.as_str();
    crash::point("chain.before_place");
    let place = store.chain_place(epoch, chain)?.ok_or(RewarderError::Waits(epoch))?;
    crash::point("chain.after_place");
    Ok(Brought {
        previous: place.previous.as_ref().map(run_name).transpose()?,
        carried: Arc::new(carried(store, &place)?),
        corrections: Arc::new(corrections(store, chain, &place)?.into_iter().map(|(one, _)| one).collect()),
        payees: payees(store, chain, &place)?.map(|(payees, _)| Arc::new(payees)),
    })
}

/// The files that a bundle has for it.
pub(crate) fn files(
    store: &EpochStore,
    epoch: u64,
    policy: &Policy,
    brought: &Brought,
) -> Result<Vec<(String, Vec<u8>)>, RewarderError> {
    let mut files = vec![(bundle::BROUGHT.to_owned(), brought.names().to_bytes())];
    if !brought.carried.amounts().is_empty() {
        files.push((bundle::CARRIED.to_owned(), brought.carried.to_bytes()));
    }
    let chain = policy.terms().id.as_str();
    let place = store.chain_place(epoch, chain)?.ok_or(RewarderError::Waits(epoch))?;
    for (correction, document) in corrections(store, chain, &place)? {
        files.push((bundle::correction_file(correction.hash()), document.into_bytes()));
    }
    if let Some((_, document)) = payees(store, chain, &place)? {
        files.push((bundle::PAYEES.to_owned(), document.into_bytes()));
    }
    Ok(files)
}

fn damaged(what: &str) -> RewarderError {
    RewarderError::Files(format!("{what} in the store is damaged"))
}

fn run_name((epoch, commitment): &(u64, String)) -> Result<RunName, RewarderError> {
    let name = Epoch::new(*epoch).zip(commitment.parse::<Digest>().ok());
    name.map(|(epoch, commitment)| RunName { epoch, commitment }).ok_or_else(|| damaged("a commitment"))
}

fn carried(store: &EpochStore, place: &ChainPlace) -> Result<Carried, RewarderError> {
    let Some((epoch, commitment)) = &place.previous else { return Ok(Carried::default()) };
    let lines = store.carried(*epoch, commitment)?.ok_or_else(|| damaged("what an epoch carried over"))?;
    Carried::read(&lines).map_err(|_| damaged("what an epoch carried over"))
}

fn corrections(
    store: &EpochStore,
    chain: &str,
    place: &ChainPlace,
) -> Result<Vec<(Correction, String)>, RewarderError> {
    let documents = store.corrections(chain, place.corrections_after, place.corrections_to)?;
    let read = |document: String| {
        let signed = SignedCorrection::read(document.as_bytes()).map_err(|_| damaged("a correction"))?;
        Ok((signed.correction().clone(), document))
    };
    documents.into_iter().map(read).collect()
}

fn payees(
    store: &EpochStore,
    chain: &str,
    place: &ChainPlace,
) -> Result<Option<(Payees, String)>, RewarderError> {
    let Some(version) = place.payees else { return Ok(None) };
    let document = store.payees(chain, Some(version))?.ok_or_else(|| damaged("a registry of payees"))?;
    let signed = SignedPayees::read(document.as_bytes()).map_err(|_| damaged("a registry of payees"))?;
    Ok(Some((signed.payees().clone(), document)))
}

/// Takes a signed correction in: by a trusted key, of the policy in force, and of a run that is known here. Says its hash, and
/// whether it is new.
pub(crate) fn accept_correction(
    store: &EpochStore,
    settings: &Settings,
    document: &[u8],
) -> Result<(Correction, bool), RewarderError> {
    let signed = SignedCorrection::read(document).map_err(|error| malformed(&error))?;
    let correction = signed.judge(&settings.policy_keys, &Ed25519).map_err(untrusted)?.clone();
    let chain = correction.policy.as_str();
    if chain != settings.policy {
        return Err(RewarderError::Order(format!("epochs are paid by the policy {}", settings.policy)));
    }
    let (epoch, commitment) =
        (correction.corrects.epoch.number(), correction.corrects.commitment.to_string());
    let record = store.record(epoch)?.filter(|record| record.commitment.as_ref() == Some(&commitment));
    if record.is_none() {
        return Err(RewarderError::Order(format!("epoch {epoch} has no run {commitment} here")));
    }
    let kept = store.keep_correction(chain, &correction.hash().to_string(), &text(signed.to_bytes()))?;
    Ok((correction, kept == Kept::Now))
}

/// Takes a signed registry of payees in: by a trusted key, newer than the one in force, and with the consent of every actor
/// that is a key.
pub(crate) fn accept_payees(
    store: &EpochStore,
    settings: &Settings,
    document: &[u8],
) -> Result<Payees, RewarderError> {
    let signed = SignedPayees::read(document).map_err(|error| malformed(&error))?;
    let payees = signed.judge(&settings.policy_keys, &Ed25519).map_err(|error| match error {
        rewards::PayeesError::Signatures(error) => untrusted(error),
        other => malformed(&other),
    })?;
    if payees.policy.as_str() != settings.policy {
        return Err(RewarderError::Order(format!("epochs are paid by the policy {}", settings.policy)));
    }
    let version = payees.version.get();
    match store.keep_payees(payees.policy.as_str(), version, &text(signed.to_bytes()))? {
        Kept::Now | Kept::Before => Ok(payees.clone()),
        Kept::Other => Err(RewarderError::Order(format!("version {version} or a later one is in force"))),
    }
}

/// The nodes that orders exclude from an epoch, each with the reason.
pub(crate) fn ordered_out(store: &EpochStore, epoch: u64) -> Result<Vec<(String, String)>, RewarderError> {
    let mut excluded = Vec::new();
    for line in store.orders(epoch)?.lines() {
        let signed = SignedOrder::read(line.as_bytes()).map_err(|_| damaged("an order"))?;
        if let Action::Exclude(node) = &signed.order().action {
            excluded.push((node.to_string(), signed.order().reason.clone()));
        }
    }
    Ok(excluded)
}

pub(crate) fn malformed(error: &dyn std::fmt::Display) -> RewarderError {
    RewarderError::Malformed(error.to_string())
}

pub(crate) fn untrusted(error: rewards::SignatureError) -> RewarderError {
    RewarderError::Untrusted(error)
}

/// Canonical JSON as the text it is.
pub(crate) fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_default()
}

/// Whether a key may object to an actor's line: the actor's own, that of a node that counts, or one that signs policies.
pub(crate) fn may_dispute(settings: &Settings, actor: &str, key: &PublicKey) -> bool {
    let node = types::NodeId::of_key(key.as_bytes());
    node.to_string() == actor || settings.nodes.contains(&node) || settings.policy_keys.contains(key)
}
