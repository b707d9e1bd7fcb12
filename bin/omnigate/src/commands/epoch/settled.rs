//! Whether an epoch's payouts are in a ledger.

use rewards::Run;
use ron_ledger::{AccountId, Key, Ledger, Place, Scrutiny};
use svc_rewarder::payout_batch;

use super::TrustArgs;
use crate::failure::Failure;

/// What a ledger says of an epoch.
#[derive(Debug)]
pub(super) enum Settled {
    /// No ledger was named.
    NotAsked,
    /// So many batches are there, and none is missing.
    All(u64),
    /// The batch under this key is not there.
    Missing(String),
}

/// Looks for every batch of a run. A batch that is there with other payouts is an error.
pub(super) fn settled(args: &TrustArgs, run: &Run) -> Result<Settled, Failure> {
    let Some(url) = &args.ledger else { return Ok(Settled::NotAsked) };
    let ledger = open(&url.expose().parse().map_err(Failure::bad_config)?)?;
    for intent in run.batches() {
        let ours = payout_batch(&intent, &args.pool_account).map_err(Failure::failed)?;
        match found(&*ledger, ours.key())? {
            None => return Ok(Settled::Missing(intent.key())),
            Some(body) if body == *ours.body() => {}
            Some(_) => {
                let pool: &AccountId = &args.pool_account;
                return Err(Failure::failed(format!(
                    "{} in the ledger is not what this run pays from {pool}",
                    intent.key()
                ))
                .help("`--pool-account` names the account that payouts are taken from"));
            }
        }
    }
    Ok(Settled::All(run.manifest().batches.get()))
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

fn found(ledger: &dyn Ledger, key: &Key) -> Result<Option<[u8; 32]>, Failure> {
    Ok(ledger.request(key).map_err(Failure::failed)?.map(|request| request.body))
}
