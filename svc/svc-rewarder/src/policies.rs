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
    if let Some(present) = store.policy(&kept.id)? {
        policy.may_replace(read(&present)?.policy())?;
    }
    let stands = store.keep_policy(&kept)?;
    // Somebody else may have been first with other terms under the same version.
    if stands.digest == kept.digest {
        Ok(stands)
    } else {
        Err(PolicyError::Superseded(stands.version).into())
    }
}

/// The policy that an epoch is closed with: the newest version, if it is trusted and applies. Blocking.
pub(crate) fn for_epoch(
    store: &EpochStore,
    settings: &Settings,
    epoch: Epoch,
) -> Result<KeptPolicy, RewarderError> {
    let none = || RewarderError::NoPolicy(settings.policy.clone());
    let kept = store.policy(&settings.policy)?.ok_or_else(none)?;
    let signed = read(&kept)?;
    // Keys may have been withdrawn since it was put.
    signed.judge(&settings.policy_keys, &Ed25519)?.applies_to(epoch)?;
    Ok(kept)
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
