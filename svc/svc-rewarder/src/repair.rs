//! Orders about epochs: one that was set aside is released, or computed without a node; one that is not paid is held.
//!
//! Each order is signed by a key that signs policies, is noted with the epoch, and is published in its bundle. An order that
//! is noted is not carried out again, so that nobody can repeat it later.

use rewards::{Action, Order, SignedOrder, bundle};
use ron_accounting::Ed25519;

use crate::{
    RewarderError, calculus, files, reconcile,
    shared::Shared,
    store::{Changed, EpochStore, Record, State},
    taken_over::{malformed, text, untrusted},
};

/// Carries out an order. Says what the epoch is then, and whether it was changed.
///
/// Cancel safe: an order that was not noted can be given again.
pub(crate) async fn carry_out(
    shared: &Shared,
    epoch: u64,
    document: &[u8],
) -> Result<(Record, bool), RewarderError> {
    let signed = SignedOrder::read(document).map_err(|error| malformed(&error))?;
    let order = signed.judge(&shared.settings.load().policy_keys, &Ed25519).map_err(untrusted)?.clone();
    if order.epoch.number() != epoch {
        return Err(RewarderError::Order(format!("the order is about epoch {}", order.epoch)));
    }
    let line = text(signed.to_bytes());
    let known = line.clone();
    let before = shared
        .with_store("find epoch", move |store| {
            let noted = store.orders(epoch)?.lines().any(|order| order == known);
            Ok(store.record(epoch)?.map(|record| (record, noted)))
        })
        .await?;
    let (record, is_noted) = before.ok_or(RewarderError::Unknown("epoch"))?;
    if is_noted {
        return Ok((record, false));
    }
    match &order.action {
        Action::Hold => hold(shared, &record, &order, line).await?,
        Action::Release => release(shared, &record, line).await?,
        Action::Exclude(node) => exclude(shared, &record, node.to_string(), line).await?,
    }
    let Order { action, reason, .. } = &order;
    tracing::warn!(epoch, ?action, reason, "an order about an epoch is carried out");
    shared.due.notify_one();
    let record = shared.with_store("find epoch", move |store| store.record(epoch)).await?;
    record.map(|record| (record, true)).ok_or(RewarderError::Unknown("epoch"))
}

async fn hold(shared: &Shared, record: &Record, order: &Order, line: String) -> Result<(), RewarderError> {
    let epoch = record.epoch;
    if record.state.is_final() {
        return Err(RewarderError::Order(format!("epoch {epoch} is {}", record.state)));
    }
    // Noted first: without the order nobody would know why it is held.
    shared.with_store("note an order", move |store| store.note_order(epoch, &line)).await?;
    files::quarantine(shared, epoch, "held", &order.reason).await
}

async fn release(shared: &Shared, record: &Record, line: String) -> Result<(), RewarderError> {
    let epoch = record.epoch;
    let release = move |store: &EpochStore| store.release(epoch, &line);
    if shared.with_store("release epoch", release).await? == Changed::Before {
        return Err(not_now(record));
    }
    taken_up(shared, epoch).await
}

async fn exclude(shared: &Shared, record: &Record, node: String, line: String) -> Result<(), RewarderError> {
    let epoch = record.epoch;
    let documents = shared.with_store("find inputs", move |store| store.documents(epoch)).await?;
    let (inputs, _) = documents.ok_or(RewarderError::Unknown("epoch"))?;
    let listed = calculus::closed_inputs(&inputs).collect::<Result<Vec<_>, _>>()?;
    if !listed.iter().any(|one| one.node == node) {
        return Err(RewarderError::Order(format!("epoch {epoch} has no snapshot of {node}")));
    }
    if listed.len() < 2 {
        return Err(RewarderError::Order(format!("epoch {epoch} has no other snapshot")));
    }
    // The store may not have noted what the ledger has: a process may have died between the two.
    match reconcile::is_paid(shared, record).await {
        Ok(false) => {}
        Ok(true) => {
            let why = format!("the ledger has batches of epoch {epoch}: release it, and publish a correction");
            return Err(RewarderError::Order(why));
        }
        Err(error) => return Err(RewarderError::Ledger(error.into_text())),
    }
    let anew = move |store: &EpochStore| store.compute_anew(epoch, &line);
    if shared.with_store("compute anew", anew).await? == Changed::Before {
        return Err(not_now(record));
    }
    shared.registry.forget(epoch);
    // The files of the run that does not count any more go; those of the next are written when it is computed.
    let artifacts = shared.artifacts.clone();
    let removed = shared.scope.blocking().run("remove files", move || artifacts.remove(epoch)).await?;
    removed.map(drop).map_err(|error| RewarderError::Files(format!("files cannot be removed: {error}")))
}

/// An epoch that was taken up again is no longer said to be set aside.
async fn taken_up(shared: &Shared, epoch: u64) -> Result<(), RewarderError> {
    shared.registry.forget(epoch);
    let artifacts = shared.artifacts.clone();
    let remove = move || artifacts.remove_file(epoch, bundle::QUARANTINE);
    let removed = shared.scope.blocking().run("remove quarantine", remove).await?;
    removed.map_err(|error| RewarderError::Files(format!("a quarantine cannot be taken back: {error}")))
}

fn not_now(record: &Record) -> RewarderError {
    let Record { epoch, state, posted, .. } = record;
    RewarderError::Order(match (state, posted) {
        (State::Quarantined, 0) => {
            format!("another run follows that of epoch {epoch}: publish a correction instead")
        }
        (State::Quarantined, _) => {
            format!("{posted} batches of epoch {epoch} were paid: release it, and publish a correction")
        }
        _ => format!("epoch {epoch} is {state}, not quarantined"),
    })
}
