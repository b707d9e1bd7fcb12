//! The names of an epoch's files, and what is written when an epoch is set aside.

use serde_json::json;

use crate::{RewarderError, shared::Shared, store::Changed};

/// The manifest.
pub(crate) const RUN: &str = "run.json";
/// The hash of the manifest.
pub(crate) const COMMITMENT: &str = "commitment";
/// The signed policy.
pub(crate) const POLICY: &str = "policy.json";
/// The signed snapshots, each behind the address of its rows.
pub(crate) const INPUTS: &str = "inputs.txt";
/// This node's word for the run.
pub(crate) const ATTESTATION: &str = "attestation.json";
/// Why nothing is paid.
pub(crate) const QUARANTINE: &str = "quarantine.json";

/// Those that are served as they are.
pub(crate) const SERVED: [&str; 7] =
    [RUN, COMMITMENT, rewards::Manifest::ALLOCATIONS, POLICY, INPUTS, ATTESTATION, QUARANTINE];

/// Sets an epoch aside: in the store, in a file, in the metrics and in readiness.
pub(crate) async fn quarantine(shared: &Shared, epoch: u64, code: &str, reason: &str) -> Result<(), RewarderError> {
    let said = format!("{code}: {reason}");
    let in_store = said.clone();
    let set = shared.with_store("quarantine epoch", move |store| store.quarantine(epoch, &in_store)).await?;
    if set == Changed::Before {
        return Ok(());
    }
    shared.metrics.quarantined(epoch);
    shared.conditions.quarantine.raise(format!("epoch {epoch}: {said}"));
    tracing::error!(epoch, code, reason, "an epoch is quarantined: nothing more of it is paid");
    let document = json!({ "epoch": epoch, "state": "quarantined", "code": code, "reason": reason }).to_string();
    let artifacts = shared.artifacts.clone();
    let write = move || {
        let bytes = document.as_bytes();
        let add = artifacts.add(epoch, QUARANTINE, bytes);
        // There may be no other files yet.
        add.or_else(|_| artifacts.write(epoch, vec![(QUARANTINE, Box::new(|out| out.write_all(bytes)))]))
    };
    match shared.scope.blocking().run("write quarantine", write).await? {
        Ok(()) => Ok(()),
        Err(error) => Err(RewarderError::Files(format!("a quarantine cannot be written down: {error}"))),
    }
}
