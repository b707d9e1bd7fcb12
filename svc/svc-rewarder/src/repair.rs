//! Orders about epochs: one that was set aside is released, or computed without a node; one that is not paid is held.
//!
//! Each order is signed by a key that signs policies, is noted with the epoch, and is published in its bundle. An order that
//! is noted is not carried out again, so that nobody can repeat it later.

use rewards::{Action, Order, SignedOrder, bundle};
use ron_accounting::Ed25519;

use crate::{
    RewarderError,
    artifacts::Artifacts,
    calculus, files, links, reconcile,
    shared::Shared,
    store::{Changed, EpochStore, Record, State},
    taken_over::{malformed, text, untrusted},
};

/// Why an epoch is held, as one word.
const HELD: &str = "held";

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
    let known = order.clone();
    let before = shared
        .with_store("find epoch", move |store| {
            // Whatever its signatures are: anyone can add one, and a published order must not be carried out twice.
            let is_known =
                |line: &str| SignedOrder::read(line.as_bytes()).is_ok_and(|one| *one.order() == known);
            let noted = store.orders(epoch)?.lines().any(is_known);
            Ok(store.record(epoch)?.map(|record| (record, noted)))
        })
        .await?;
    let (record, is_noted) = before.ok_or(RewarderError::Unknown("epoch"))?;
    if is_noted {
        tidy_up(shared, epoch).await?;
        return Ok((record, false));
    }
    match &order.action {
        Action::Hold => hold(shared, &record, &order, line).await?,
        Action::Release => release(shared, &record, line).await?,
        Action::Exclude(node) => exclude(shared, &record, node.to_string(), line).await?,
    }
    let Order { action, reason, .. } = &order;
    tracing::warn!(epoch, ?action, reason, "an order about an epoch is carried out");
    tidy_up(shared, epoch).await?;
    shared.due.notify_one();
    let record = shared.with_store("find epoch", move |store| store.record(epoch)).await?;
    record.map(|record| (record, true)).ok_or(RewarderError::Unknown("epoch"))
}

async fn hold(shared: &Shared, record: &Record, order: &Order, line: String) -> Result<(), RewarderError> {
    let epoch = record.epoch;
    // Noted in the same step: without the order nobody would know why it is held, and one that is refused is not noted.
    let reason = format!("{HELD}: {}", order.reason);
    let hold = move |store: &EpochStore| store.hold(epoch, &reason, &line);
    if shared.with_store("hold epoch", hold).await? == Changed::Before {
        return Err(RewarderError::Order(format!("epoch {epoch} is settled or quarantined")));
    }
    shared.registry.succeeded(epoch);
    files::tell_of(shared, epoch, HELD, &order.reason).await
}

async fn release(shared: &Shared, record: &Record, line: String) -> Result<(), RewarderError> {
    let epoch = record.epoch;
    let release = move |store: &EpochStore| store.release(epoch, &line);
    if shared.with_store("release epoch", release).await? == Changed::Before {
        return Err(not_now(record));
    }
    shared.registry.forget(epoch);
    Ok(())
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
        Ok(false) if !links::is_posted(shared, epoch).await? => {}
        Ok(_) => {
            let why =
                format!("the ledger has the run of epoch {epoch}: release it, and publish a correction");
            return Err(RewarderError::Order(why));
        }
        Err(error) => return Err(RewarderError::Ledger(error.into_text())),
    }
    let anew = move |store: &EpochStore| store.compute_anew(epoch, &line);
    if shared.with_store("compute anew", anew).await? == Changed::Before {
        return Err(not_now(record));
    }
    shared.registry.forget(epoch);
    Ok(())
}

async fn tidy_up(shared: &Shared, epoch: u64) -> Result<(), RewarderError> {
    let (store, artifacts) = (shared.store.clone(), shared.artifacts.clone());
    // Whoever has the epoch in work writes its files.
    let Some(claim) = shared.registry.claim(epoch) else { return Ok(()) };
    let tidy = move || {
        let _claim = claim;
        tidy(&store, &artifacts, epoch)
    };
    shared.call("tidy files up", tidy).await?
}

/// Has the files of an epoch say what the store says: no quarantine that is over, no run that was taken back, and every
/// order. May be repeated. Blocking.
pub(crate) fn tidy(store: &EpochStore, artifacts: &Artifacts, epoch: u64) -> Result<(), RewarderError> {
    let failed = |error: std::io::Error| RewarderError::Files(format!("files of epoch {epoch}: {error}"));
    let Some(record) = store.record(epoch)? else { return Ok(()) };
    // While it is computed, the files of its next run are on their way.
    if record.state != State::Computing && artifacts.is_stale(&record).map_err(failed)? {
        return artifacts.remove(epoch).map(drop).map_err(failed);
    }
    if record.state != State::Quarantined {
        artifacts.remove_file(epoch, bundle::QUARANTINE).map_err(failed)?;
    }
    let orders = store.orders(epoch)?;
    let is_there = artifacts.commitment(epoch).map_err(failed)?.is_some();
    if orders.is_empty() || !is_there {
        return Ok(());
    }
    let published = artifacts.read(epoch, bundle::ORDERS).map_err(failed)?;
    if published.is_some_and(|published| *published == *orders.as_bytes()) {
        return Ok(());
    }
    artifacts.add(epoch, bundle::ORDERS, orders.as_bytes()).map_err(failed)
}

fn not_now(record: &Record) -> RewarderError {
    let Record { epoch, state, posted, .. } = record;
    RewarderError::Order(match (state, posted) {
        (State::Quarantined, 0) => {
            format!(
                "another run follows that of epoch {epoch}, or paying it had begun: release it, and publish a correction"
            )
        }
        (State::Quarantined, _) => {
            format!("{posted} batches of epoch {epoch} were paid: release it, and publish a correction")
        }
        _ => format!("epoch {epoch} is {state}, not quarantined"),
    })
}
