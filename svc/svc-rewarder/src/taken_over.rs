//! What an epoch of ruleset 3 takes over from before it, as the store has it: checked, and as files of its bundle. Blocking.

use std::sync::Arc;

use rewards::{
    Action, Amount, Brought, Carried, Correction, Digest, Epoch, Payees, Policy, PublicKey, RunName,
    SignedCorrection, SignedOrder, SignedPayees, bundle,
};
use ron_accounting::Ed25519;
use types::ActorId;

use crate::{
    RewarderError, crash, policies,
    settings::Settings,
    store::{ChainPlace, Choice, DisputeRoom, EpochStore, Kept, State},
};

/// What an epoch takes over. An epoch whose turn has not come is told to wait. What was signed by keys that are not among
/// these any more is not taken over.
pub(crate) fn of_epoch(
    store: &EpochStore,
    keys: &[PublicKey],
    epoch: u64,
    policy: &Policy,
) -> Result<Brought, RewarderError> {
    if !policy.terms().ruleset.is_chained() {
        return Ok(Brought::default());
    }
    let chain = policy.terms().id.as_str();
    crash::point("chain.before_place");
    let place = match store.place(epoch)? {
        Some(place) => Some(place),
        None if store.is_turn(epoch, chain)? => {
            store.take_place(epoch, chain, &choose(store, keys, epoch, chain)?)?
        }
        None => None,
    };
    let place = place.ok_or(RewarderError::Waits(epoch))?;
    crash::point("chain.after_place");
    Ok(Brought {
        previous: place.previous.as_ref().map(run_name).transpose()?,
        carried: Arc::new(carried(store, &place)?),
        corrections: Arc::new(corrections(store, chain, &place)?.into_iter().map(|(one, _)| one).collect()),
        payees: payees(store, chain, &place)?.map(|(payees, _)| Arc::new(payees)),
    })
}

/// What an epoch is to take over: corrections and the registry as they are judged now. A correction that does not count is
/// left out for good, so that it keeps nobody else from being paid.
fn choose(store: &EpochStore, keys: &[PublicKey], epoch: u64, chain: &str) -> Result<Choice, RewarderError> {
    let (corrections_after, waiting) = store.waiting_corrections(chain)?;
    let corrections_to = waiting.last().map_or(corrections_after, |(number, _)| *number);
    let mut left_out = Vec::new();
    let mut sums = (Amount::ZERO, Amount::ZERO);
    for (number, document) in waiting {
        let signed = SignedCorrection::read(document.as_bytes()).map_err(|_| damaged("a correction"))?;
        let added = added(sums, signed.correction());
        let wrong = match (signed.judge(keys, &Ed25519), added) {
            (Err(error), _) => Some(error.to_string()),
            (Ok(_), None) => Some("amounts are too great".to_owned()),
            (Ok(correction), Some(_)) => objection(store, correction)?,
        };
        match wrong {
            None => sums = added.unwrap_or(sums),
            Some(reason) => {
                let hash = signed.correction().hash();
                tracing::error!(epoch, reason, "the correction {hash} has no effect");
                left_out.push(number);
            }
        }
    }
    let payees = newest_payees(store, keys, chain)?.map(|(payees, _)| payees.version.get());
    Ok(Choice { corrections_after, corrections_to, left_out, payees })
}

/// Sums of credits and of debits, with those of one more correction; `None` if they are more than an amount can be.
fn added((credits, debits): (Amount, Amount), correction: &Correction) -> Option<(Amount, Amount)> {
    let add = |sum: Amount, lines: &[(ActorId, Amount)]| {
        lines.iter().try_fold(sum, |sum, (_, amount)| sum.checked_add(*amount))
    };
    Some((add(credits, &correction.credits)?, add(debits, &correction.debits)?))
}

/// Why a correction cannot take effect: the run that it corrects is not known, or had less to divide.
fn objection(store: &EpochStore, correction: &Correction) -> Result<Option<String>, RewarderError> {
    let RunName { epoch, commitment } = correction.corrects;
    let record = store.record(epoch.number())?;
    if record.and_then(|record| record.commitment) != Some(commitment.to_string()) {
        return Ok(Some(format!("epoch {epoch} has no run {commitment} here")));
    }
    let most = divided(store, epoch.number())?;
    let fits = added((Amount::ZERO, Amount::ZERO), correction)
        .is_some_and(|(credits, debits)| credits.max(debits) <= most);
    Ok((!fits).then(|| format!("epoch {epoch} had {most} to divide, and the correction is about more")))
}

/// What the run of an epoch had to divide: the pool, what was carried over to it, and what corrections added.
fn divided(store: &EpochStore, epoch: u64) -> Result<Amount, RewarderError> {
    let (_, policy) = store.documents(epoch)?.ok_or(RewarderError::Unknown("epoch"))?;
    let policy = policies::of_closed(&policy)?;
    let mut most = policy.terms().pool;
    let mut add = |more: Amount| most = most.checked_add(more).unwrap_or(Amount::MAX);
    if let Some(place) = store.place(epoch)? {
        let carried = match &place.previous {
            // Of an epoch that was retired long ago it may be forgotten.
            Some((epoch, commitment)) => store.carried(*epoch, commitment)?,
            None => None,
        };
        let carried = carried.map(|lines| Carried::read(&lines)).transpose();
        let carried = carried.map_err(|_| damaged("what an epoch carried over"))?;
        carried.iter().flat_map(|carried| carried.amounts()).for_each(|(_, amount)| add(*amount));
        for (correction, _) in corrections(store, policy.terms().id.as_str(), &place)? {
            correction.credits.iter().for_each(|(_, amount)| add(*amount));
        }
    }
    Ok(most)
}

/// The newest registry of payees that a trusted key has signed, and its document.
pub(crate) fn newest_payees(
    store: &EpochStore,
    keys: &[PublicKey],
    chain: &str,
) -> Result<Option<(Payees, String)>, RewarderError> {
    let mut newest = None;
    while let Some(document) = store.payees(chain, newest)? {
        let signed = SignedPayees::read(document.as_bytes()).map_err(|_| damaged("a registry of payees"))?;
        if let Ok(payees) = signed.judge(keys, &Ed25519) {
            return Ok(Some((payees.clone(), document)));
        }
        let Some(older) = signed.payees().version.get().checked_sub(1) else { break };
        newest = Some(older);
    }
    Ok(None)
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
    let place = store.place(epoch)?.ok_or(RewarderError::Waits(epoch))?;
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
    let mut documents = store.corrections(chain, place.corrections_after, place.corrections_to)?;
    documents.retain(|(number, _)| !place.left_out.contains(number));
    let read = |(_, document): (u64, String)| {
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

/// Takes a signed correction in: by a trusted key, of the policy in force, of a run that is settled here, and about no more
/// than that run had to divide. Says its hash, and whether it is new.
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
    if let Some(wrong) = objection(store, &correction)? {
        return Err(RewarderError::Order(wrong));
    }
    // Until then it may still be computed anew, and nobody was paid.
    let epoch = correction.corrects.epoch;
    if store.record(epoch.number())?.is_none_or(|record| record.state != State::Settled) {
        return Err(RewarderError::Order(format!("epoch {epoch} is not settled")));
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
    // Versions of keys that were withdrawn do not count: a thief could take the last one.
    let newest = newest_payees(store, &settings.policy_keys, payees.policy.as_str())?;
    if newest.is_some_and(|(newest, _)| newest.version.get() > version) {
        return Err(RewarderError::Order(format!("a later version than {version} is in force")));
    }
    match store.keep_payees(payees.policy.as_str(), version, &text(signed.to_bytes()))? {
        Kept::Now | Kept::Before => Ok(payees.clone()),
        Kept::Other => Err(RewarderError::Order(format!("there is another version {version} already"))),
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

/// Among which objections that of a key to an actor's line is counted: of the actor's own key, of a node that counts, or of a
/// key that signs policies. `None` if the key may not object.
pub(crate) fn dispute_room(
    settings: &Settings,
    actor: &str,
    key: &PublicKey,
    has_line: bool,
) -> Option<DisputeRoom> {
    let node = types::NodeId::of_key(key.as_bytes());
    if settings.policy_keys.contains(key) {
        return Some(DisputeRoom::Policy);
    }
    if settings.nodes.contains(&node) {
        return Some(DisputeRoom::Node);
    }
    let own = if has_line { DisputeRoom::Actor } else { DisputeRoom::Stranger };
    (node.to_string() == actor).then_some(own)
}
