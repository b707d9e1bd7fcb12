//! The names of an epoch's files, and what is written when an epoch is set aside.

use serde_json::json;

use crate::{RewarderError, shared::Shared, store::Changed};

/// Why nothing is paid.
pub(crate) const QUARANTINE: &str = "quarantine.json";

/// Whether a name is one that an epoch's file can have; nothing else is looked for on the disk.
pub(crate) fn can_be(name: &str) -> bool {
    let plain = |name: &str| {
        !name.starts_with('.')
            && !name.is_empty()
            && name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.'))
    };
    let bare = ["snapshots/", "attestations/"].into_iter().find_map(|below| name.strip_prefix(below));
    plain(bare.unwrap_or(name))
}

/// Sets an epoch aside: in the store, in a file, in the metrics and in readiness.
pub(crate) async fn quarantine(
    shared: &Shared,
    epoch: u64,
    code: &str,
    reason: &str,
) -> Result<(), RewarderError> {
    let said = format!("{code}: {reason}");
    let in_store = said.clone();
    let set = shared.with_store("quarantine epoch", move |store| store.quarantine(epoch, &in_store)).await?;
    if set == Changed::Before {
        return Ok(());
    }
    shared.metrics.quarantined(epoch);
    shared.conditions.quarantine.raise(format!("epoch {epoch}: {said}"));
    tracing::error!(epoch, code, reason, "an epoch is quarantined: nothing more of it is paid");
    let document =
        json!({ "epoch": epoch, "state": "quarantined", "code": code, "reason": reason }).to_string();
    let artifacts = shared.artifacts.clone();
    let write = move || {
        let bytes = document.as_bytes();
        let add = artifacts.add(epoch, QUARANTINE, bytes);
        // There may be no other files yet.
        add.or_else(|_| {
            artifacts.write(epoch, vec![(QUARANTINE.to_owned(), Box::new(|out| out.write_all(bytes)))])
        })
    };
    match shared.scope.blocking().run("write quarantine", write).await? {
        Ok(()) => Ok(()),
        Err(error) => Err(RewarderError::Files(format!("a quarantine cannot be written down: {error}"))),
    }
}
