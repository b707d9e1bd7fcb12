//! Holds on the command line: made, listed, settled and voided.

use std::collections::BTreeMap;

use ron_ledger::{Batch, Entry, EntryKind, Ledger, Scrutiny, Step, Transfer};
use serde_json::{Value, json};

use super::{
    super::{pretty, print, token::now},
    args::{CloseArgs, LedgerArgs, TransferArgs},
    failure,
    write::not_reserved,
};
use crate::failure::Failure;

/// How many entries are fetched at once.
const PAGE: u32 = 1000;

/// Holds an amount; prints the number by which it is settled or voided.
pub(super) fn hold(args: &LedgerArgs, hold: &TransferArgs) -> Result<(), Failure> {
    let TransferArgs { from, to, amount, key, reference, open_receiver, json: as_json } = hold;
    not_reserved(key)?;
    let step = Step::Hold(Transfer { from: from.clone(), to: to.clone(), amount: *amount });
    let make = if *open_receiver { Batch::opening_receivers } else { Batch::new };
    let batch = make(key.clone(), reference.clone(), now()?, vec![step]).map_err(Failure::bad_config)?;
    let ledger = args.open(&args.scrutiny()?)?;
    let posted = ledger.post(&batch).map_err(failure)?;
    // An account that was opened for the receiver has an entry before the hold's.
    let number = posted.receipt.first_entry + u64::from(posted.receipt.entries.saturating_sub(1));
    print(&if *as_json {
        pretty(&json!({ "hold": number, "request": posted.receipt.request, "replayed": posted.replayed }))
    } else {
        format!("{} as hold {number}\n", if posted.replayed { "held before" } else { "held" })
    })
}

/// Settles or voids a hold, once per key.
pub(super) fn close(args: &LedgerArgs, close: &CloseArgs, settle: bool) -> Result<(), Failure> {
    let CloseArgs { hold, key, reference, json: as_json } = close;
    not_reserved(key)?;
    let (step, done) = if settle { (Step::Settle(*hold), "settled") } else { (Step::Void(*hold), "voided") };
    let batch =
        Batch::new(key.clone(), reference.clone(), now()?, vec![step]).map_err(Failure::bad_config)?;
    let posted = args.open(&args.scrutiny()?)?.post(&batch).map_err(failure)?;
    let (request, replayed) = (posted.receipt.request, posted.replayed);
    print(&if *as_json {
        pretty(&json!({ "hold": hold, "state": done, "request": request, "replayed": replayed }))
    } else if replayed {
        format!("hold {hold} was {done} before\n")
    } else {
        format!("hold {hold} {done}\n")
    })
}

/// Lists the holds that are open.
pub(super) fn list(args: &LedgerArgs, as_json: bool) -> Result<(), Failure> {
    let open = open_holds(&*args.open(&Scrutiny::Nothing)?)?;
    if as_json {
        let one = |(number, transfer): (&u64, &Transfer)| -> Value {
            json!({ "hold": number, "from": transfer.from.as_str(), "to": transfer.to.as_str(),
                "amount": transfer.amount.to_string() })
        };
        return print(&pretty(&Value::Array(open.iter().map(one).collect())));
    }
    let line = |(number, Transfer { from, to, amount }): (&u64, &Transfer)| {
        format!("hold {number}: {amount} from {from} to {to}\n")
    };
    print(&if open.is_empty() { "no open holds\n".to_owned() } else { open.iter().map(line).collect() })
}

fn open_holds(ledger: &dyn Ledger) -> Result<BTreeMap<u64, Transfer>, Failure> {
    let mut snapshot = ledger.snapshot().map_err(failure)?;
    let (mut open, mut after) = (BTreeMap::new(), 0);
    loop {
        let page = snapshot.entries(after, PAGE).map_err(failure)?;
        let Some(last) = page.last() else { return Ok(open) };
        after = last.number;
        for Entry { number, kind, .. } in page {
            match kind {
                EntryKind::Hold(transfer) => drop(open.insert(number, transfer)),
                EntryKind::Settle { hold, .. } | EntryKind::Void { hold, .. } => drop(open.remove(&hold)),
                EntryKind::Open { .. } | EntryKind::Move(_) => {}
            }
        }
    }
}
