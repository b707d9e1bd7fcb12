//! What an actor earned and was paid, epoch by epoch, and who is in an epoch: from the files of epochs that are kept here.

use std::cell::Cell;

use http::StatusCode;
use rewards::AllocationLine;
use ron_transport::Response;
use serde_json::{Value, json};
use types::ActorId;

use super::{answer, ask::Page};
use crate::{RewarderError, artifacts::Artifacts, shared::Shared, store::EpochStore};

type Answer = Result<Response, RewarderError>;

/// Lines that one search answers with at most.
const MAX_FOUND: usize = 100;

/// The lines of an actor in the latest epochs before one.
pub(super) async fn of_actor(shared: &Shared, actor: &str, page: Page) -> Answer {
    let actor = ActorId::new(actor).map_err(|error| RewarderError::Malformed(error.to_string()))?;
    let (artifacts, store, name) = (shared.artifacts.clone(), shared.store.clone(), actor.to_string());
    let look = move || epochs_of(&store, &artifacts, &name, page);
    let deadline = shared.clock.within(shared.windows.duration() / 2);
    let looked = shared.call("find an actor's lines", look);
    let (epochs, next) = shared.scope.by("compute", deadline, looked).await???;
    let said = json!({ "actor": actor.as_str(), "epochs": epochs, "next": next });
    Ok(answer::document(StatusCode::OK, &said))
}

fn epochs_of(
    store: &EpochStore,
    artifacts: &Artifacts,
    actor: &str,
    Page { limit, before }: Page,
) -> Result<(Vec<Value>, Option<u64>), RewarderError> {
    let records = store.latest(before, limit)?;
    let next = records.last().filter(|_| records.len() as u64 == limit).map(|record| record.epoch);
    let mut epochs = Vec::new();
    for record in records.iter().filter(|record| record.has_files()) {
        if artifacts.is_stale(record).map_err(|error| RewarderError::Files(error.to_string()))? {
            continue;
        }
        let found = search(artifacts, record.epoch, actor, actor, 1)?;
        if let Some(line) = found.into_iter().next() {
            epochs.push(json!({
                "epoch": record.epoch, "state": record.state.as_str(), "commitment": record.commitment,
                "line": line,
            }));
        }
    }
    Ok((epochs, next))
}

/// The first lines of an epoch whose actors begin with some letters.
pub(super) async fn beginning_with(shared: &Shared, epoch: u64, prefix: &str) -> Answer {
    let (artifacts, store) = (shared.artifacts.clone(), shared.store.clone());
    let (wanted, last) = (prefix.to_owned(), format!("{prefix}\u{7f}"));
    let look = move || {
        let is_stale = match store.record(epoch)? {
            None if store.snapshots(epoch)?.is_empty() => return Err(RewarderError::Unknown("epoch")),
            None => false,
            Some(record) => {
                artifacts.is_stale(&record).map_err(|error| RewarderError::Files(error.to_string()))?
            }
        };
        if is_stale { Ok(Vec::new()) } else { search(&artifacts, epoch, &wanted, &last, MAX_FOUND) }
    };
    let deadline = shared.clock.within(shared.windows.duration() / 2);
    let looked = shared.call("search an epoch", look);
    let lines = shared.scope.by("compute", deadline, looked).await???;
    let said = json!({ "epoch": epoch, "prefix": prefix, "lines": lines });
    Ok(answer::document(StatusCode::OK, &said))
}

/// Whether an actor has a line in the run of an epoch, as the files that are here have it.
pub(super) async fn has_line(shared: &Shared, epoch: u64, actor: &ActorId) -> Result<bool, RewarderError> {
    let (artifacts, store, name) = (shared.artifacts.clone(), shared.store.clone(), actor.to_string());
    let look = move || {
        let Some(record) = store.record(epoch)? else { return Ok(false) };
        let is_stale = artifacts.is_stale(&record);
        if is_stale.map_err(|error| RewarderError::Files(error.to_string()))? {
            return Ok(false);
        }
        Ok(!search(&artifacts, epoch, &name, &name, 1)?.is_empty())
    };
    shared.call_in_time("find an actor's line", look).await
}

/// The lines of actors from one name to another, at most so many. Lines are in the order of actors.
fn search(
    artifacts: &Artifacts,
    epoch: u64,
    first: &str,
    last: &str,
    most: usize,
) -> Result<Vec<Value>, RewarderError> {
    let (mut found, damaged) = (Vec::new(), Cell::new(false));
    let actor_of = |line: &[u8]| {
        let read = AllocationLine::read(line).ok();
        damaged.set(damaged.get() || read.is_none());
        read.map(|line| line.actor)
    };
    let is_before = |line: &[u8]| actor_of(line).is_some_and(|actor| actor.as_str() < first);
    let read = artifacts.sorted_lines(epoch, rewards::bundle::ALLOCATIONS, is_before, |line| {
        let is_wanted = actor_of(line).is_some_and(|actor| actor.as_str() <= last);
        if is_wanted {
            found.extend(serde_json::from_slice(line).ok());
        }
        is_wanted && found.len() < most
    });
    match read {
        Ok(()) if !damaged.get() => Ok(found),
        Ok(()) => Err(RewarderError::Files(format!("a line of epoch {epoch} is damaged"))),
        Err(error) => Err(RewarderError::Files(format!("lines of epoch {epoch}: {error}"))),
    }
}
