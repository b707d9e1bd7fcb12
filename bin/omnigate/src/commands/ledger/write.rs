//! What changes a ledger, or writes another: accounts, transfers, checkpoints, backups.

use std::path::Path;

use ron_ledger::{
    AccountId, Batch, Floor, InvalidName, Key, NodeKey, Reference, Scrutiny, Signer, Step, Terms, Transfer,
};
use ron_transport::files;
use rustls_pki_types::{PrivatePkcs8KeyDer, pem::PemObject};
use serde_json::json;

use super::{
    super::{pretty, print, token::now},
    args::{AccountArgs, LedgerArgs, TransferArgs},
    failure,
    show::{hex, tally_text},
};
use crate::failure::Failure;

/// Begins the keys that accounts are opened under.
const OPENING: &str = "open/";
/// Begin the keys that nobody else may use: a payout under one of them would be a conflict, and its epoch quarantined.
const RESERVED: [&str; 2] = ["reward/", OPENING];
/// A key file has a few lines.
const MAX_KEY_BYTES: u64 = 4096;

pub(super) fn open(args: &LedgerArgs, account: &AccountArgs) -> Result<(), Failure> {
    let AccountArgs { account, asset, overdraft, issuer } = account;
    let floor = if *issuer { Floor::Unlimited } else { Floor::Overdraft(*overdraft) };
    let terms = Terms { account: account.clone(), asset: *asset, floor };
    // One key per account, so that the command can be given again.
    let key = opening_key(account).map_err(Failure::bad_config)?;
    let reference = Reference::new("").map_err(Failure::bad_config)?;
    let batch = Batch::new(key, reference, now()?, vec![Step::Open(terms)]).map_err(Failure::bad_config)?;
    let posted = args.make(&args.scrutiny()?)?.post(&batch).map_err(failure)?;
    print(&format!("{}: {account}\n", if posted.replayed { "open before" } else { "open" }))
}

/// The key that an account is opened under: one for each name, which may be as long as a key.
fn opening_key(account: &AccountId) -> Result<Key, InvalidName> {
    Key::new(&format!("{OPENING}{account}")).or_else(|_| {
        let hash = b3tree::Builder::new().update(account.as_str().as_bytes()).finish().root();
        Key::new(&format!("{OPENING}{hash}"))
    })
}

pub(super) fn transfer(args: &LedgerArgs, transfer: &TransferArgs) -> Result<(), Failure> {
    let TransferArgs { from, to, amount, key, reference, open_receiver, json: as_json } = transfer;
    not_reserved(key)?;
    let step = Step::Transfer(Transfer { from: from.clone(), to: to.clone(), amount: *amount });
    let make = if *open_receiver { Batch::opening_receivers } else { Batch::new };
    let batch = make(key.clone(), reference.clone(), now()?, vec![step]).map_err(Failure::bad_config)?;
    let posted = args.open(&args.scrutiny()?)?.post(&batch).map_err(failure)?;
    let (request, replayed) = (posted.receipt.request, posted.replayed);
    print(&if *as_json {
        pretty(&json!({ "request": request, "replayed": replayed }))
    } else if replayed {
        format!("posted before as request {request}\n")
    } else {
        format!("posted as request {request}\n")
    })
}

/// Refuses keys that only the program itself may use.
pub(super) fn not_reserved(key: &Key) -> Result<(), Failure> {
    match RESERVED.into_iter().find(|prefix| key.as_str().starts_with(prefix)) {
        Some(prefix) => {
            Err(Failure::bad_config(format!("keys that begin with `{prefix}` are kept for the program"))
                .help("choose another --key"))
        }
        None => Ok(()),
    }
}

pub(super) fn checkpoint(args: &LedgerArgs, key: &Path, as_json: bool) -> Result<(), Failure> {
    let unreadable =
        || Failure::bad_config(format!("{} is not an Ed25519 private key in PEM", key.display()));
    let pem = files::read_private_or_pipe(key, MAX_KEY_BYTES).map_err(Failure::bad_config)?;
    let document = PrivatePkcs8KeyDer::from_pem_slice(&pem).map_err(|_| unreadable())?;
    let signer = NodeKey::from_pkcs8(document.secret_pkcs8_der()).ok_or_else(unreadable)?;
    let ledger = args.open(&Scrutiny::Nothing)?;
    let Some(signed) = ron_ledger::checkpoint(&*ledger, &signer).map_err(failure)? else {
        return Err(Failure::failed("the ledger is empty: there is nothing to sign"));
    };
    let (link, chain, key) = (signed.link.number, hex(&signed.link.hash), hex(&signer.public_key()));
    print(&if as_json {
        pretty(&json!({ "link": link, "chain": chain, "key": key, "signature": hex(&signed.signature) }))
    } else {
        format!("signed link {link}\nchain {chain}\nkey   {key}\n")
    })
}

pub(super) fn backup(args: &LedgerArgs, file: &Path, as_json: bool) -> Result<(), Failure> {
    let ledger = args.open(&Scrutiny::Nothing)?;
    let tally = ron_ledger::backup(&*ledger, file).map_err(failure)?;
    print(&tally_text("backed up", &tally, as_json))
}

pub(super) fn restore(args: &LedgerArgs, file: &Path, as_json: bool) -> Result<(), Failure> {
    let ledger = args.make(&Scrutiny::Nothing)?;
    let tally = ron_ledger::restore(file, &*ledger).map_err(failure)?;
    print(&tally_text("restored", &tally, as_json))
}
