//! Whatever a book would not have written is found.

use crate::support::{Rows, batch, hold, id, open, pay};
use ledgerbook::{
    Amount, Batch, Checkpoint, Entry, EntryKind, Fault, Floor, Key, Reference, Refusal, StateRoot, Step,
    TailAudit, Tally,
};

/// Three links: the second over two requests, with holds and accounts opened on the way.
fn journal() -> Rows {
    let mut rows = Rows::funded();
    let (key, reference) = (Key::new("b").unwrap(), Reference::new("run").unwrap());
    let group = [
        batch("a", vec![hold("pool", "ada", 300), pay("pool", "bob", 20)]),
        Batch::opening_receivers(key, reference, 5, vec![pay("bob", "eve", 7), hold("bob", "eve", 2)])
            .unwrap(),
    ];
    assert!(rows.group(&group).iter().all(Result::is_ok));
    rows.post(&batch("c", vec![Step::Settle(6), Step::Void(10), pay("ada", "eve", 1)])).unwrap();
    rows
}

#[test]
fn a_journal_as_written_is_whole() {
    let rows = journal();
    assert_eq!(rows.audit(), Ok(Tally { accounts: 5, requests: 4, entries: 13, links: 3 }));
    assert_eq!(Rows::default().audit(), Ok(Tally::default()));
}

/// The hashes of a journal, as they will be for ever: another version must read what this one wrote.
#[test]
fn the_chain_is_the_same_in_every_version() {
    let hex = |hash: &[u8; 32]| hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let rows = journal();
    let mut root = StateRoot::default();
    rows.accounts.iter().for_each(|account| root.account(account));
    let chain =
        [hex(&rows.head().hash), hex(&rows.head().root), hex(&rows.requests[3].body), hex(&root.finish())];
    assert_eq!(chain, CHAIN);
    let payload = Checkpoint::payload(&rows.head(), &[0xAB; 32]);
    let lines: Vec<&str> = payload.lines().collect();
    assert_eq!(
        lines[..5],
        ["omnigate-ledger-checkpoint-v1", "link 3", "accounts 5", "requests 4", "entries 13"]
    );
    assert_eq!(lines[5..], [format!("chain {}", CHAIN[0]), format!("state {}", "ab".repeat(32))]);
    assert!(payload.ends_with('\n'));
}

const CHAIN: [&str; 4] = [
    "9c4a82da070ff559ae3925dcd31a3229b77074f7654b40956925dcb4c5e31257",
    "9d478623cd3cd3649a368a0c4c479430c3031cc7480f09388b75837157908541",
    "2185e84ec46659127c0fd0a44b6fd15a564789379723d44f5c449f5e908ef60f",
    "7fc3278bd44a99c23b4003d4bdaba56edacbb63192318db6238991e935a34a69",
];

#[test]
fn an_audit_knows_what_a_checkpoint_has_to_say() {
    let rows = Rows::funded();
    let mut audit = ledgerbook::Audit::new();
    audit.request(&rows.requests[0]).unwrap();
    rows.entries.iter().for_each(|entry| audit.entry(entry).unwrap());
    let mut root = StateRoot::new();
    rows.accounts.iter().for_each(|account| root.account(account));
    assert_eq!(audit.state_root(), root.finish());
}

/// One change of one row, and what is found.
fn found(change: impl FnOnce(&mut Rows)) -> Fault {
    let mut rows = journal();
    change(&mut rows);
    rows.audit().unwrap_err()
}

fn amount(entry: &mut Entry) -> &mut Amount {
    match &mut entry.kind {
        EntryKind::Move(transfer) | EntryKind::Hold(transfer) => &mut transfer.amount,
        EntryKind::Settle { transfer, .. } | EntryKind::Void { transfer, .. } => &mut transfer.amount,
        EntryKind::Open { .. } => panic!("no amount"),
    }
}

#[test]
fn every_changed_value_is_found() {
    assert_eq!(found(|rows| *amount(&mut rows.entries[6]) = Amount::from(19)), Fault::WrongRoot(2));
    assert_eq!(found(|rows| rows.requests[1].key = Key::new("x").unwrap()), Fault::WrongRoot(2));
    assert_eq!(found(|rows| rows.requests[1].body[31] ^= 1), Fault::WrongRoot(2));
    assert_eq!(found(|rows| rows.requests[1].reference = Reference::new("x").unwrap()), Fault::WrongRoot(2));
    assert_eq!(found(|rows| rows.requests[1].at += 1), Fault::WrongRoot(2));
    assert_eq!(found(|rows| rows.links[1].root[0] ^= 1), Fault::WrongRoot(2));
    assert_eq!(found(|rows| rows.links[1].hash[0] ^= 1), Fault::WrongHash(2));
    assert_eq!(found(|rows| rows.links[2].accounts += 1), Fault::WrongCount(3));
    assert_eq!(found(|rows| rows.links[2].requests += 1), Fault::WrongCount(3));
    assert_eq!(found(|rows| rows.links[2].entries += 1), Fault::WrongCount(3));
    let wrong = |name| Fault::WrongAccount(id(name));
    assert_eq!(found(|rows| rows.accounts[2].balance += 1), wrong("ada"));
    assert_eq!(found(|rows| rows.accounts[2].held += 1), wrong("ada"));
    assert_eq!(found(|rows| rows.accounts[2].floor = Floor::Unlimited), wrong("ada"));
    assert_eq!(found(|rows| rows.accounts[2].opened += 1), wrong("ada"));
    assert_eq!(found(|rows| rows.accounts[2].number += 1), wrong("ada"));
    assert_eq!(found(|rows| rows.accounts[2].id = id("adb")), wrong("adb"));
}

#[test]
fn rows_that_are_missing_or_too_many_are_found() {
    let order = |what, expected, found| Fault::OutOfOrder { what, expected, found };
    assert_eq!(found(|rows| drop(rows.requests.remove(1))), order("request", 2, 3));
    assert_eq!(found(|rows| rows.requests[1].number = 9), order("request", 2, 9));
    assert_eq!(found(|rows| rows.requests[1].first_entry = 7), order("entry", 6, 7));
    assert_eq!(found(|rows| drop(rows.entries.remove(6))), order("entry", 7, 8));
    assert_eq!(found(|rows| rows.entries[6].number = 9), order("entry", 7, 9));
    assert_eq!(found(|rows| rows.entries[6].request = 3), order("entry", 7, 8));
    assert_eq!(found(|rows| rows.requests[1].entries -= 1), order("an entry of request", 2, 2));
    assert_eq!(found(|rows| rows.requests[3].entries += 1), Fault::WrongCount(3));
    assert_eq!(found(|rows| rows.links.retain(|link| link.number != 2)), order("link", 2, 3));
    assert_eq!(found(|rows| rows.links.truncate(2)), Fault::Unlinked);
    assert_eq!(found(|rows| drop(rows.accounts.pop())), Fault::WrongAccounts { expected: 5, found: 4 });
    assert_eq!(found(|rows| rows.accounts.push(rows.accounts[0].clone())), Fault::WrongAccount(id("issuer")));
    let extra = |rows: &mut Rows| {
        let mut request = rows.requests[3].clone();
        (request.number, request.first_entry, request.entries) = (5, 14, 0);
        rows.requests.push(request);
    };
    assert_eq!(found(extra), Fault::Unlinked);
}

/// A journal whose hashes are right but whose entries no book would have allowed.
fn forged(kind: EntryKind) -> Fault {
    let mut rows = journal();
    let mut audit = ledgerbook::Audit::new();
    rows.requests.truncate(1);
    rows.requests[0].entries += 1;
    audit.request(&rows.requests[0]).unwrap();
    rows.entries[..5].iter().for_each(|entry| audit.entry(entry).unwrap());
    audit.entry(&Entry { number: 6, request: 1, kind }).unwrap_err()
}

#[test]
fn entries_that_break_a_rule_are_found_even_if_they_are_chained() {
    let forbidden = |refusal| Fault::Forbidden { entry: 6, refusal };
    let moved = |from: &str, to: &str, amount| crate::support::transfer(from, to, amount);
    let spent = EntryKind::Move(moved("pool", "ada", 1001));
    let (account, asked) = (id("pool"), Amount::from(1001));
    assert_eq!(forged(spent), forbidden(Refusal::Insufficient { account, asked, available: 1000 }));
    let settled = EntryKind::Settle { hold: 5, transfer: moved("pool", "ada", 1) };
    assert_eq!(forged(settled), forbidden(Refusal::UnknownHold(5)));
    let again = EntryKind::Open { account: id("ada"), asset: crate::support::asset(), floor: Floor::ZERO };
    assert_eq!(forged(again), forbidden(Refusal::OtherTerms(id("ada"))));
    assert_eq!(
        forged(EntryKind::Move(moved("pool", "pool", 1))),
        forbidden(Refusal::SameAccount(id("pool")))
    );
    assert_eq!(forged(EntryKind::Move(moved("pool", "ada", 0))), forbidden(Refusal::ZeroAmount));
}

#[test]
fn a_hold_is_settled_for_what_it_held() {
    let mut rows = journal();
    let mut audit = ledgerbook::Audit::new();
    audit.request(&rows.requests[0]).unwrap();
    rows.entries[..5].iter().for_each(|entry| audit.entry(entry).unwrap());
    rows.requests[1].entries = 2;
    audit.request(&rows.requests[1]).unwrap();
    audit.entry(&rows.entries[5]).unwrap();
    let kind = EntryKind::Settle { hold: 6, transfer: crate::support::transfer("pool", "ada", 299) };
    let fault = audit.entry(&Entry { number: 7, request: 2, kind }).unwrap_err();
    assert_eq!(fault, Fault::Forbidden { entry: 7, refusal: Refusal::UnknownHold(6) });
}

#[test]
fn a_hold_that_was_closed_is_no_hold_any_more() {
    let rows = journal();
    let mut audit = ledgerbook::Audit::new();
    let mut entries = rows.entries.iter();
    for request in &rows.requests {
        let mut request = request.clone();
        // Room for one more at the end.
        request.entries += u32::from(request.number == 4);
        audit.request(&request).unwrap();
        entries
            .by_ref()
            .take(if request.number == 4 { 3 } else { usize::try_from(request.entries).unwrap() })
            .for_each(|entry| audit.entry(entry).unwrap());
    }
    let kind = rows.entries[10].kind.clone();
    assert!(matches!(kind, EntryKind::Settle { hold: 6, .. }));
    let fault = audit.entry(&Entry { number: 14, request: 4, kind }).unwrap_err();
    assert_eq!(fault, Fault::Forbidden { entry: 14, refusal: Refusal::UnknownHold(6) });
}

/// An audit from a checkpoint at the second link.
fn tail(change: impl FnOnce(&mut Rows, &mut Checkpoint)) -> Result<Tally, Fault> {
    let mut rows = Rows::funded();
    let group = [batch("a", vec![hold("pool", "ada", 300), hold("pool", "bob", 20)])];
    assert!(rows.group(&group).iter().all(Result::is_ok));
    let (link, mut root) = (rows.head(), StateRoot::new());
    rows.accounts.iter().for_each(|account| root.account(account));
    let mut checkpoint = Checkpoint { link, state: root.finish(), key: [0; 32], signature: [0; 64] };
    let steps = vec![Step::Settle(6), Step::Void(7), pay("ada", "bob", 5), open("eve", Floor::ZERO)];
    rows.post(&batch("c", steps)).unwrap();
    rows.post(&batch("d", vec![pay("bob", "eve", 2), hold("ada", "eve", 3)])).unwrap();
    change(&mut rows, &mut checkpoint);
    let mut audit = TailAudit::after(checkpoint.clone());
    for request in &rows.requests[2..] {
        audit.request(request)?;
        for entry in rows.entries.iter().filter(|entry| entry.request == request.number) {
            audit.entry(entry)?;
        }
        audit.link(&rows.links[usize::try_from(request.number - 1).unwrap()])?;
    }
    rows.accounts.iter().try_for_each(|account| audit.account(account))?;
    audit.finish()
}

#[test]
fn an_audit_from_a_checkpoint_finds_what_changed_since_and_every_balance() {
    assert_eq!(tail(|_, _| {}), Ok(Tally { accounts: 5, requests: 4, entries: 13, links: 4 }));
    let found = |change: fn(&mut Rows, &mut Checkpoint)| tail(change).unwrap_err();
    let wrong = |name| Fault::WrongAccount(id(name));
    assert_eq!(
        found(|rows, _| rows.entries[11].number = 13),
        Fault::OutOfOrder { what: "entry", expected: 12, found: 13 }
    );
    assert_eq!(found(|rows, _| *amount(&mut rows.entries[11]) = Amount::from(1)), Fault::WrongRoot(4));
    assert_eq!(found(|rows, _| rows.links[2].hash[0] ^= 1), Fault::WrongHash(3));
    assert_eq!(found(|rows, _| rows.accounts[1].balance += 1), Fault::WrongCheckpoint(2));
    assert_eq!(found(|rows, _| rows.accounts[1].held += 1), Fault::WrongCheckpoint(2));
    assert_eq!(found(|rows, _| rows.accounts[0].balance += 1), Fault::WrongCheckpoint(2));
    assert_eq!(found(|_, checkpoint| checkpoint.state[0] ^= 1), Fault::WrongCheckpoint(2));
    assert_eq!(found(|rows, _| rows.accounts[4].balance += 1), wrong("eve"));
    assert_eq!(found(|rows, _| rows.accounts[4].held += 1), wrong("eve"));
    assert_eq!(found(|rows, _| rows.accounts[4].number += 1), wrong("eve"));
    assert_eq!(found(|rows, _| rows.accounts[4].opened -= 9), wrong("eve"));
    assert_eq!(found(|rows, _| rows.accounts[4].floor = Floor::Unlimited), wrong("eve"));
    assert_eq!(found(|rows, _| drop(rows.accounts.pop())), wrong("eve"));
    assert_eq!(found(|rows, _| drop(rows.accounts.remove(3))), Fault::WrongCheckpoint(2));
    let twice = |rows: &mut Rows, _: &mut Checkpoint| {
        let mut copy = rows.accounts[3].clone();
        copy.opened = 12;
        rows.accounts.insert(3, copy);
    };
    assert!(matches!(found(twice), Fault::WrongAccount(_) | Fault::WrongCheckpoint(_)));
}
