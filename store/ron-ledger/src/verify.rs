//! Whether everything is what was written: the whole journal, or what follows the last checkpoint that is trusted.

use ledgerbook::{Account, Audit, Checkpoint, Entry, Fault, Link, Request, TailAudit, Tally};

use crate::{LedgerError, Snapshot, pages, sign::is_signed};

/// How much of a ledger is checked when it is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scrutiny {
    /// Everything, from the first entry.
    #[default]
    Everything,
    /// What follows the last checkpoint signed by one of these keys, and all balances against it. Everything if there
    /// is none. What lies before is left to [`verify`], later.
    SinceCheckpoint(Vec<[u8; 32]>),
    /// Nothing but that it is a ledger: for a caller that calls [`verify`] at once.
    Nothing,
}

pub(crate) fn at_open(snapshot: &mut dyn Snapshot, scrutiny: &Scrutiny) -> Result<(), LedgerError> {
    match scrutiny {
        Scrutiny::Everything => verify(snapshot, &[]).map(drop),
        Scrutiny::SinceCheckpoint(keys) => since_checkpoint(snapshot, keys).map(drop),
        Scrutiny::Nothing => Ok(()),
    }
}

/// Checks everything: the store's own structure, every row, every rule, the chain, all checkpoints, all balances.
///
/// Checkpoints must be signed by the keys they name, and by one of `trusted` unless that is empty.
///
/// # Errors
/// [`LedgerError::Damaged`] with the first thing that is not what was written.
pub fn verify(snapshot: &mut dyn Snapshot, trusted: &[[u8; 32]]) -> Result<Tally, LedgerError> {
    snapshot.check_structure()?;
    let last = check_signatures(snapshot, trusted)?;
    let mut audit = Audit::new();
    walk(snapshot, Link::GENESIS, &mut audit, |audit, link| match &last {
        Some(last) if last.link.number == link.number && last.state != audit.state_root() => {
            Err(Fault::WrongCheckpoint(link.number))
        }
        _ => Ok(()),
    })?;
    accounts(snapshot, |account| audit.account(account))?;
    Ok(audit.finish()?)
}

/// Checks what follows the last checkpoint that is trusted, or everything if there is none.
pub(crate) fn since_checkpoint(snapshot: &mut dyn Snapshot, keys: &[[u8; 32]]) -> Result<Tally, LedgerError> {
    let Some(last) = last_trusted(snapshot, keys)? else {
        return verify(snapshot, &[]);
    };
    let start = last.link;
    let mut audit = TailAudit::after(last);
    walk(snapshot, start, &mut audit, |_, _| Ok(()))?;
    accounts(snapshot, |account| audit.account(account))?;
    Ok(audit.finish()?)
}

/// Every signature; the last checkpoint.
fn check_signatures(
    snapshot: &mut dyn Snapshot,
    trusted: &[[u8; 32]],
) -> Result<Option<Checkpoint>, LedgerError> {
    let mut checkpoints = pages::checkpoints();
    let mut last = None;
    while let Some(checkpoint) = checkpoints.next(snapshot)? {
        let known = trusted.is_empty() || trusted.contains(&checkpoint.key);
        if !known || !is_signed(&checkpoint) {
            return Err(Fault::BadSignature(checkpoint.link.number).into());
        }
        last = Some(checkpoint);
    }
    Ok(last)
}

/// The last checkpoint by one of the keys. If its signature is wrong, so is the ledger.
fn last_trusted(snapshot: &mut dyn Snapshot, keys: &[[u8; 32]]) -> Result<Option<Checkpoint>, LedgerError> {
    let mut checkpoints = pages::checkpoints();
    let mut last = None;
    while let Some(checkpoint) = checkpoints.next(snapshot)? {
        if keys.contains(&checkpoint.key) {
            last = Some(checkpoint);
        }
    }
    match last {
        Some(last) if !is_signed(&last) => Err(Fault::BadSignature(last.link.number).into()),
        other => Ok(other),
    }
}

/// What both audits are told, in order.
trait Reads {
    fn request(&mut self, request: &Request) -> Result<(), Fault>;
    fn entry(&mut self, entry: &Entry) -> Result<(), Fault>;
    fn link(&mut self, link: &Link) -> Result<(), Fault>;
}

macro_rules! reads {
    ($($audit:ty),*) => {$(
        impl Reads for $audit {
            fn request(&mut self, request: &Request) -> Result<(), Fault> {
                self.request(request)
            }

            fn entry(&mut self, entry: &Entry) -> Result<(), Fault> {
                self.entry(entry)
            }

            fn link(&mut self, link: &Link) -> Result<(), Fault> {
                self.link(link)
            }
        }
    )*};
}

reads!(Audit, TailAudit);

/// Tells an audit every row after `start`, link by link, and `at_link` of each that was right.
fn walk<A: Reads>(
    snapshot: &mut dyn Snapshot,
    start: Link,
    audit: &mut A,
    at_link: impl Fn(&A, &Link) -> Result<(), Fault>,
) -> Result<(), LedgerError> {
    let mut links = pages::links(start.number);
    let mut requests = pages::requests(start.requests);
    let mut entries = pages::entries(start.entries);
    let mut seen = start.requests;
    while let Some(link) = links.next(snapshot)? {
        while seen < link.requests {
            let Some(request) = requests.next(snapshot)? else {
                return Err(Fault::WrongCount(link.number).into());
            };
            audit.request(&request)?;
            for _ in 0..request.entries {
                match entries.next(snapshot)? {
                    Some(entry) => audit.entry(&entry)?,
                    None => return Err(Fault::WrongCount(link.number).into()),
                }
            }
            seen += 1;
        }
        audit.link(&link)?;
        at_link(audit, &link)?;
    }
    if requests.next(snapshot)?.is_some() || entries.next(snapshot)?.is_some() {
        return Err(Fault::Unlinked.into());
    }
    Ok(())
}

fn accounts(
    snapshot: &mut dyn Snapshot,
    mut tell: impl FnMut(&Account) -> Result<(), Fault>,
) -> Result<(), LedgerError> {
    let mut accounts = pages::accounts();
    while let Some(account) = accounts.next(snapshot)? {
        tell(&account)?;
    }
    Ok(())
}
