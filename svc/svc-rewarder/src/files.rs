//! The names of an epoch's files, and what is written when an epoch is set aside.

use rewards::{Epoch, Int, QuarantineNotice, bundle};

use crate::{RewarderError, artifacts::FOLDERS, shared::Shared, store::Changed};

/// Whether a name is one that an epoch's file can have; nothing else is looked for on the disk.
pub(crate) fn can_be(name: &str) -> bool {
    let plain = |name: &str| {
        !name.starts_with('.')
            && !name.is_empty()
            && name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.'))
    };
    let mut folders = FOLDERS.into_iter().filter(|below| !below.is_empty());
    let bare = folders.find_map(|below| name.strip_prefix(below));
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
    tell_of(shared, epoch, code, reason).await
}

/// Tells of an epoch that was set aside in the store: in a file, in the metrics and in readiness.
pub(crate) async fn tell_of(
    shared: &Shared,
    epoch: u64,
    code: &str,
    reason: &str,
) -> Result<(), RewarderError> {
    let said = format!("{code}: {reason}");
    shared.metrics.quarantined(epoch);
    shared.conditions.quarantine.raise(format!("epoch {epoch}: {said}"));
    tracing::error!(epoch, code, reason, "an epoch is quarantined: nothing more of it is paid");
    let notice = notice(shared, epoch, code, reason).await?;
    let artifacts = shared.artifacts.clone();
    let write = move || artifacts.put(epoch, bundle::QUARANTINE, &notice);
    match shared.scope.blocking().run("write quarantine", write).await? {
        Ok(()) => Ok(()),
        Err(error) => Err(RewarderError::Files(format!("a quarantine cannot be written down: {error}"))),
    }
}

/// `quarantine.json`, with how much was posted before.
async fn notice(shared: &Shared, epoch: u64, code: &str, detail: &str) -> Result<Vec<u8>, RewarderError> {
    let record = shared.with_store("find epoch", move |store| store.record(epoch)).await?;
    let intents = record.and_then(|record| Int::new(record.posted)).unwrap_or(Int::from(0));
    let epoch = Epoch::new(epoch).ok_or(RewarderError::Unknown("epoch"))?;
    let (reason, detail) = (code.to_owned(), detail.to_owned());
    Ok(QuarantineNotice { epoch, intents, reason, detail }.to_bytes())
}
