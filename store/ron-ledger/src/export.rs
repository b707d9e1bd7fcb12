//! Exports: the journal as text that hledger, ledger and beancount read.

use std::{
    collections::{BTreeSet, HashMap},
    io::Write,
};

use ledgerbook::{
    Account, AccountId, Asset, Floor,
    plain_text::{self, Dialect},
};

use crate::{LedgerError, Snapshot, pages};

/// Writes all of a ledger's moment, ending with an assertion of every balance.
///
/// # Errors
/// [`LedgerError::Unavailable`] if it cannot be written, others if it cannot be read.
pub fn export(snapshot: &mut dyn Snapshot, dialect: Dialect, out: &mut dyn Write) -> Result<(), LedgerError> {
    let (first, last) = times(snapshot)?;
    let mut terms = HashMap::<AccountId, (Asset, Floor)>::new();
    let mut below = Below::default();
    each_account(snapshot, |account| {
        terms.insert(account.id.clone(), (account.asset, account.floor));
        below.add(account);
        Ok(())
    })?;
    let assets: BTreeSet<Asset> = terms.values().map(|(asset, _)| *asset).collect();
    assets.into_iter().try_for_each(|asset| put(out, |text| plain_text::asset(text, dialect, asset)))?;
    each_account(snapshot, |account| put(out, |text| plain_text::begin(text, dialect, first, account)))?;
    let (mut requests, mut entries) = (pages::requests(0), pages::entries(0));
    while let Some(request) = requests.next(snapshot)? {
        let mut own = Vec::new();
        for _ in 0..request.entries {
            own.extend(entries.next(snapshot)?);
        }
        let known = |id: &AccountId| terms.get(id).copied();
        put(out, |text| plain_text::request(text, dialect, &request, &own, known))?;
    }
    put(out, |text| {
        text.push('\n');
        Ok(())
    })?;
    each_account(snapshot, |account| {
        put(out, |text| plain_text::assertion(text, dialect, last, account, below.of(account)))
    })
}

/// What lies below each name in the text: the sums of the accounts whose names begin with it and a colon, by asset.
#[derive(Default)]
struct Below(HashMap<(String, Asset), i128>);

impl Below {
    fn add(&mut self, account: &Account) {
        let name = plain_text::name(account);
        for (colon, _) in name.match_indices(':') {
            let sum = self.0.entry((name[..colon].to_owned(), account.asset)).or_default();
            *sum = sum.saturating_add(account.balance);
        }
    }

    fn of(&self, account: &Account) -> i128 {
        self.0.get(&(plain_text::name(account), account.asset)).copied().unwrap_or_default()
    }
}

/// The times of the earliest and the latest request.
fn times(snapshot: &mut dyn Snapshot) -> Result<(u64, u64), LedgerError> {
    let (mut first, mut last) = (u64::MAX, 0);
    let mut requests = pages::requests(0);
    while let Some(request) = requests.next(snapshot)? {
        (first, last) = (first.min(request.at), last.max(request.at));
    }
    Ok((first.min(last), last))
}

fn each_account(
    snapshot: &mut dyn Snapshot,
    mut tell: impl FnMut(&Account) -> Result<(), LedgerError>,
) -> Result<(), LedgerError> {
    let mut accounts = pages::accounts();
    while let Some(account) = accounts.next(snapshot)? {
        tell(&account)?;
    }
    Ok(())
}

fn put(out: &mut dyn Write, write: impl FnOnce(&mut String) -> std::fmt::Result) -> Result<(), LedgerError> {
    let mut text = String::new();
    let lost = || LedgerError::Damaged(ledgerbook::Fault::Unreadable("an entry names no account".to_owned()));
    write(&mut text).map_err(|_| lost())?;
    out.write_all(text.as_bytes()).map_err(|error| LedgerError::Unavailable(error.to_string()))
}
