//! Signed documents that are handed in: orders about epochs, objections, corrections, and the registry of payees.

use bytes::Bytes;
use http::StatusCode;
use rewards::{Dispute, bundle};
use ron_accounting::Ed25519;
use ron_transport::Response;
use serde_json::{Value, json};

use super::{answer, history};
use crate::{
    RewarderError, repair,
    shared::Shared,
    store::{EpochStore, Kept},
    taken_over::{self, malformed, text},
};

/// Corrections in one answer at most.
const MAX_CORRECTIONS: u64 = 1000;

type Answer = Result<Response, RewarderError>;

/// Carries out an order about an epoch.
pub(super) async fn order(shared: &Shared, epoch: u64, body: &[u8]) -> Answer {
    let (record, changed) = repair::carry_out(shared, epoch, body).await?;
    let status = if changed { StatusCode::ACCEPTED } else { StatusCode::OK };
    Ok(answer::document(status, &answer::summary(&record)))
}

/// Keeps an objection, and adds it to the epoch's files.
pub(super) async fn dispute(shared: &Shared, epoch: u64, body: Bytes) -> Answer {
    let dispute = Dispute::read(&body).map_err(|error| malformed(&error))?;
    let run = dispute.run;
    if run.epoch.number() != epoch {
        return Err(RewarderError::Order(format!("the objection is to epoch {}", run.epoch)));
    }
    let has_line = history::has_line(shared, epoch, &dispute.actor).await?;
    let settings = shared.settings.load_full();
    let room = taken_over::dispute_room(&settings, dispute.actor.as_str(), &dispute.key, has_line);
    let Some(room) = room.filter(|_| dispute.is_good(&Ed25519)) else {
        return Err(RewarderError::Untrusted(rewards::SignatureError::Untrusted));
    };
    let (hash, document) = (dispute.hash(), text(dispute.to_bytes()));
    let (name, author, kept_document) = (hash.to_string(), dispute.key.to_string(), document.clone());
    let keep = move |store: &EpochStore| {
        let commitment = store.record(epoch)?.and_then(|record| record.commitment);
        if commitment != Some(run.commitment.to_string()) {
            return Ok(None);
        }
        store.keep_dispute(epoch, &name, &kept_document, (room, &author)).map(Some)
    };
    let kept = shared.with_store("keep a dispute", keep).await?;
    match kept {
        None => return Err(RewarderError::Order(format!("epoch {epoch} has no run {}", run.commitment))),
        Some(Kept::Other) => {
            let (most, each) = room.limits();
            let why = format!("epoch {epoch} has {each} disputes by this key already, or {most} by its like");
            return Err(RewarderError::Order(why));
        }
        Some(Kept::Now | Kept::Before) => {}
    }
    tracing::warn!(epoch, receiver = %dispute.actor, reason = dispute.reason, "an epoch is disputed");
    let artifacts = shared.artifacts.clone();
    let add = move || artifacts.add(epoch, &bundle::dispute_file(hash), document.as_bytes());
    // Where the epoch's files are not here, they are written with it later.
    let _ = shared.scope.blocking().run("write a dispute", add).await?;
    Ok(answer::document(StatusCode::OK, &json!({ "epoch": epoch, "hash": hash.to_string() })))
}

/// The objections to an epoch.
pub(super) async fn disputes(shared: &Shared, epoch: u64) -> Answer {
    let find = move |store: &EpochStore| {
        let is_known = store.record(epoch)?.is_some() || !store.snapshots(epoch)?.is_empty();
        if is_known { store.disputes(epoch).map(Some) } else { Ok(None) }
    };
    let found = shared.with_store("find disputes", find).await?.ok_or(RewarderError::Unknown("epoch"))?;
    Ok(answer::document(StatusCode::OK, &json!({ "epoch": epoch, "disputes": read_all(&found) })))
}

/// Stores a correction.
pub(super) async fn correct(shared: &Shared, body: Bytes) -> Answer {
    let (store, settings) = (shared.store.clone(), shared.settings.load_full());
    let accept = move || taken_over::accept_correction(&store, &settings, &body);
    let (correction, is_new) = shared.ask("keep correction", accept).await?;
    let (hash, corrects) = (correction.hash().to_string(), correction.corrects.epoch.number());
    tracing::warn!(
        epoch = corrects,
        reason = correction.reason,
        "the correction {hash} takes effect in the next run"
    );
    let status = if is_new { StatusCode::ACCEPTED } else { StatusCode::OK };
    Ok(answer::document(status, &json!({ "hash": hash, "corrects": corrects })))
}

/// The latest corrections of the policy in force, in the order in which they came.
pub(super) async fn corrections(shared: &Shared) -> Answer {
    let chain = shared.settings.load().policy.clone();
    let latest = move |store: &EpochStore| store.latest_corrections(&chain, MAX_CORRECTIONS);
    let found = shared.with_store("find corrections", latest).await?;
    Ok(answer::document(StatusCode::OK, &json!({ "corrections": read_all(&found) })))
}

/// Keeps a registry of payees.
pub(super) async fn put_payees(shared: &Shared, body: Bytes) -> Answer {
    let (store, settings) = (shared.store.clone(), shared.settings.load_full());
    let accept = move || taken_over::accept_payees(&store, &settings, &body);
    let payees = shared.ask("keep payees", accept).await?;
    let (version, entries) = (payees.version.get(), payees.entries().len());
    tracing::info!("version {version} of the registry of payees applies from the next run on");
    let said = json!({ "version": version, "hash": payees.hash().to_string(), "entries": entries });
    Ok(answer::document(StatusCode::OK, &said))
}

/// The newest registry of payees that a trusted key has signed.
pub(super) async fn payees(shared: &Shared) -> Answer {
    let (store, settings) = (shared.store.clone(), shared.settings.load_full());
    let find = move || taken_over::newest_payees(&store, &settings.policy_keys, &settings.policy);
    let found = shared.ask("find payees", find).await?;
    let (_, document) = found.ok_or(RewarderError::Unknown("registry of payees"))?;
    Ok(answer::bytes(document.into(), "application/json"))
}

fn read_all(documents: &[String]) -> Vec<Value> {
    documents.iter().filter_map(|document| serde_json::from_str(document).ok()).collect()
}
