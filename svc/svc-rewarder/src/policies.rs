//! Policies: judged when they come in, kept by version, and judged again when an epoch is closed with one.

use rewards::{Epoch, Policy, PolicyError, SignedPolicy};
use ron_accounting::Ed25519;

use crate::{
    RewarderError,
    settings::Settings,
    store::{EpochStore, KeptPolicy},
};

/// Takes a signed policy in: trusted, sensible, and no older than the one that is kept. Blocking.
pub(crate) fn accept(
    store: &EpochStore,
    settings: &Settings,
    id: Option<&str>,
    document: &[u8],
) -> Result<KeptPolicy, RewarderError> {
    let signed = SignedPolicy::read(document)?;
    let policy = signed.judge(&settings.policy_keys, &Ed25519)?;
    if id.is_some_and(|id| id != policy.terms().id.as_str()) {
        return Err(PolicyError::Senseless("it has another id than the address it is put to").into());
    }
    let kept = KeptPolicy {
        id: policy.terms().id.to_string(),
        version: policy.terms().version.get(),
        digest: policy.hash().to_string(),
        document: text(&signed.to_bytes()),
    };
    if let Some((_, present)) = newest(store, settings, &kept.id, None)? {
        policy.may_replace(&present)?;
    }
    let stands = store.keep_policy(&kept)?;
    // Somebody else may have been first with other terms under the same version.
    if stands.digest != kept.digest {
        return Err(PolicyError::Superseded(stands.version).into());
    }
    if replaces(&signed, &read(&stands)?, settings) {
        store.sign_policy(&kept)?;
        return Ok(kept);
    }
    Ok(stands)
}

/// Whether the signatures on a policy take the place of those that are kept with the same terms: by all of their keys, or if
/// none of theirs is trusted any more. So keys are changed without a new version.
fn replaces(signed: &SignedPolicy, kept: &SignedPolicy, settings: &Settings) -> bool {
    let is_by_all = kept.keys().all(|key| signed.keys().any(|other| other == key));
    is_by_all || kept.judge(&settings.policy_keys, &Ed25519).is_err()
}

/// The policy that an epoch is closed with: the newest version that is trusted and applies. Blocking.
pub(crate) fn for_epoch(
    store: &EpochStore,
    settings: &Settings,
    epoch: Epoch,
) -> Result<KeptPolicy, RewarderError> {
    if let Some((kept, _)) = newest(store, settings, &settings.policy, Some(epoch))? {
        return Ok(kept);
    }
    // Why the newest of all is not taken.
    let none = || RewarderError::NoPolicy(settings.policy.clone());
    let kept = store.policy(&settings.policy, None)?.ok_or_else(none)?;
    read(&kept)?.judge(&settings.policy_keys, &Ed25519)?.applies_to(epoch)?;
    Ok(kept)
}

/// The newest version of a policy that a trusted key has signed and that applies to an epoch, if one is given. Versions of
/// keys that were withdrawn do not count: a thief could take the last one. Blocking.
pub(crate) fn newest(
    store: &EpochStore,
    settings: &Settings,
    id: &str,
    epoch: Option<Epoch>,
) -> Result<Option<(KeptPolicy, Policy)>, RewarderError> {
    let mut last = None;
    while let Some(kept) = store.policy(id, last)? {
        let signed = read(&kept)?;
        let is_meant = |policy: &&Policy| epoch.is_none_or(|epoch| policy.applies_to(epoch).is_ok());
        if let Some(policy) = signed.judge(&settings.policy_keys, &Ed25519).ok().filter(is_meant) {
            let policy = policy.clone();
            return Ok(Some((kept, policy)));
        }
        let Some(older) = kept.version.checked_sub(1) else { break };
        last = Some(older);
    }
    Ok(None)
}

/// The policy of a closed epoch.
pub(crate) fn of_closed(document: &str) -> Result<Policy, PolicyError> {
    SignedPolicy::read(document.as_bytes()).map(|signed| signed.policy().clone())
}

fn read(kept: &KeptPolicy) -> Result<SignedPolicy, PolicyError> {
    SignedPolicy::read(kept.document.as_bytes())
}

/// Canonical JSON as the text it is.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
