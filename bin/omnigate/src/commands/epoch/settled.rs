//! Whether an epoch's payouts are in a ledger.

use rewards::Run;
use ron_ledger::{Ledger, Place, Scrutiny};
use svc_rewarder::{FoundPayouts, find_payouts, other_follower};

use super::TrustArgs;
use crate::failure::Failure;

/// What a ledger says of an epoch.
#[derive(Debug)]
pub(super) enum Settled {
    /// No ledger was named.
    NotAsked,
    /// So many batches are there, and none is missing. Payouts of these actors are parked.
    All {
        /// The number of epochs to list.
        batches: u64,
        /// Whose payouts are in an account of their own, because theirs could not take them.
        parked: Vec<String>,
    },
    /// The batch under this key is not there.
    Missing(String),
}

/// Looks for every batch of a run. A batch that is there with other payouts is an error.
pub(super) fn settled(args: &TrustArgs, run: &Run) -> Result<Settled, Failure> {
    let Some(url) = &args.ledger else { return Ok(Settled::NotAsked) };
    let ledger = open(&url.expose().parse().map_err(Failure::bad_config)?)?;
    if let Some(other) = other_follower(&*ledger, run).map_err(Failure::failed)? {
        let message = format!("the ledger has {other} as the run that follows the run before this one");
        return Err(Failure::failed(message)
            .help("the epoch store was older than the ledger when this run was computed"));
    }
    let (pool, mut parked) = (&args.pool_account, Vec::new());
    for intent in run.batches() {
        match find_payouts(&*ledger, &intent, pool).map_err(Failure::failed)? {
            FoundPayouts::Missing => return Ok(Settled::Missing(intent.key())),
            FoundPayouts::Paid(places) => {
                parked.extend(places.into_iter().map(|(at, _)| intent.transfers[at].to.to_string()));
            }
            FoundPayouts::Other => {
                let message = format!("{} in the ledger is not what this run pays from {pool}", intent.key());
                return Err(Failure::failed(message)
                    .help("`--pool-account` names the account that payouts are taken from"));
            }
        }
    }
    Ok(Settled::All { batches: run.manifest().batches.get(), parked })
}

/// The ledger that is there, all of it checked. A file that is not there is not made.
fn open(place: &Place) -> Result<Box<dyn Ledger>, Failure> {
    if let Place::File(path) = place
        && !path.is_file()
    {
        return Err(Failure::failed(format!("there is no ledger {}", path.display())));
    }
    place.open(&Scrutiny::Everything).map_err(Failure::failed)
}
