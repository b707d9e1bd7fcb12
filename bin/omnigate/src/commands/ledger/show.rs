//! What a ledger says: balances, whether it is whole, its journal as text.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
};

use ron_ledger::{Account, Checkpoint, Ledger, Scrutiny, Snapshot, Tally};
use serde_json::{Value, json};

use super::{
    super::{pretty, print},
    args::{Format, LedgerArgs},
    failure,
};
use crate::failure::Failure;

/// A checkpoint has a few lines.
const MAX_CHECKPOINT: u64 = 4096;
/// How many accounts are fetched at once.
const PAGE: u32 = 1000;

pub(super) fn balances(ledger: &dyn Ledger, as_json: bool) -> Result<(), Failure> {
    let accounts = accounts(&mut *ledger.snapshot().map_err(failure)?)?;
    if as_json {
        return print(&pretty(&Value::Array(accounts.iter().map(account_json).collect())));
    }
    let width =
        accounts.iter().map(|account| account.id.as_str().len()).max().unwrap_or(0).max("account".len());
    let mut text = format!("{:width$}  {:>20}  {:>20}\n", "account", "balance", "held");
    for Account { id, balance, held, asset, .. } in &accounts {
        text.push_str(&format!("{:width$}  {balance:>20}  {held:>20}  {asset}\n", id.as_str()));
    }
    print(&text)
}

pub(super) fn verify(args: &LedgerArgs, kept: Option<&Path>, as_json: bool) -> Result<(), Failure> {
    let trusted = args.place()?.1.trusted();
    let ledger = args.open(&Scrutiny::Nothing)?;
    let mut snapshot = ledger.snapshot().map_err(failure)?;
    let tally = ron_ledger::verify(&mut *snapshot, &trusted).map_err(failure)?;
    if let Some(path) = kept {
        leads_through(&mut *snapshot, path)?;
    }
    let (count, last) = checkpoints(&mut *snapshot)?;
    if last.is_none() && !trusted.is_empty() && tally.links > 0 {
        let message =
            "every row is as it was written, but no checkpoint is there by one of `ledger.trusted_keys`";
        let help = "if it was ever signed, its checkpoints were deleted: compare it with a backup; \
                    `omnigate ledger checkpoint` signs what is there";
        return Err(Failure::failed(message).help(help));
    }
    let Some(last) = last else { return print(&tally_text("whole", &tally, as_json)) };
    let (link, key) = (last.link.number, hex(&last.key));
    print(&if as_json {
        let mut counts = tally_json("whole", &tally);
        counts["checkpoints"] = json!({ "count": count, "link": link, "key": key });
        pretty(&counts)
    } else {
        let tally = tally_text("whole", &tally, false);
        format!("{tally}signed: {count} checkpoints, the last at link {link} by {key}\n")
    })
}

/// Sees to it that the chain leads through a checkpoint that was kept elsewhere.
fn leads_through(snapshot: &mut dyn Snapshot, path: &Path) -> Result<(), Failure> {
    let wrong = || {
        Failure::bad_config(format!("{} is no checkpoint", path.display()))
            .help("`omnigate ledger checkpoint --json` prints one")
    };
    let bytes = ron_transport::files::read_public_or_pipe(path, MAX_CHECKPOINT).map_err(Failure::failed)?;
    let kept: Value = serde_json::from_slice(&bytes).map_err(|_| wrong())?;
    let number = kept["link"].as_u64().filter(|number| *number > 0).ok_or_else(wrong)?;
    let chain = kept["chain"].as_str().ok_or_else(wrong)?;
    let found = snapshot.links(number - 1, 1).map_err(failure)?;
    match found.first().filter(|link| link.number == number) {
        Some(link) if hex(&link.hash) == chain => Ok(()),
        Some(link) => Err(Failure::failed(format!(
            "link {number} is {}, and the checkpoint that was kept has {chain}: this is another ledger",
            hex(&link.hash)
        ))),
        None => Err(Failure::failed(format!("the ledger ends before link {number}, which was signed"))),
    }
}

/// How many checkpoints there are, and the last.
fn checkpoints(snapshot: &mut dyn Snapshot) -> Result<(u64, Option<Checkpoint>), Failure> {
    let (mut count, mut last) = (0, None);
    loop {
        let mut page = snapshot.checkpoints(count, PAGE).map_err(failure)?;
        if page.is_empty() {
            return Ok((count, last));
        }
        count += page.len() as u64;
        last = page.pop();
    }
}

#[expect(clippy::disallowed_methods, reason = "a command that writes a file and ends; no runtime is running")]
pub(super) fn export(ledger: &dyn Ledger, format: Format, output: Option<&Path>) -> Result<(), Failure> {
    let mut snapshot = ledger.snapshot().map_err(failure)?;
    let unwritable = |error: io::Error| Failure::failed(format!("cannot write the export: {error}"));
    match output {
        Some(path) => {
            let mut out = BufWriter::new(File::create_new(path).map_err(unwritable)?);
            ron_ledger::export(&mut *snapshot, format.into(), &mut out).map_err(failure)?;
            out.into_inner().map_err(|error| unwritable(error.into_error()))?.sync_all().map_err(unwritable)
        }
        None => {
            let mut out = BufWriter::new(io::stdout().lock());
            ron_ledger::export(&mut *snapshot, format.into(), &mut out).map_err(failure)?;
            out.flush().map_err(unwritable)
        }
    }
}

/// What was looked at or copied.
pub(super) fn tally_text(what: &str, tally: &Tally, as_json: bool) -> String {
    if as_json {
        return pretty(&tally_json(what, tally));
    }
    let Tally { accounts, requests, entries, links } = tally;
    format!("{what}: {accounts} accounts, {requests} requests, {entries} entries, {links} links\n")
}

fn tally_json(what: &str, tally: &Tally) -> Value {
    let Tally { accounts, requests, entries, links } = tally;
    json!({ "state": what, "accounts": accounts, "requests": requests, "entries": entries, "links": links })
}

/// Bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn account_json(account: &Account) -> Value {
    json!({
        "account": account.id.as_str(),
        "asset": account.asset.as_str(),
        "balance": account.balance.to_string(),
        "held": account.held.to_string(),
        "available": account.available().map(|available| available.to_string()),
    })
}

/// All of them, by name.
fn accounts(snapshot: &mut dyn Snapshot) -> Result<Vec<Account>, Failure> {
    let mut all: Vec<Account> = Vec::new();
    loop {
        let after = all.last().map_or(0, |account| account.number);
        let page = snapshot.accounts(after, PAGE).map_err(failure)?;
        if page.is_empty() {
            all.sort_by(|one, other| one.id.cmp(&other.id));
            return Ok(all);
        }
        all.extend(page);
    }
}
