//! What a batch may do, and what is written for it.

use crate::support::{Rows, asset, batch, hold, id, open, pay, transfer};
use ledgerbook::{
    Account, Amount, Asset, Batch, Book, EntryKind, Floor, Key, Link, Reference, Refusal, Step, Terms,
};

fn refused(step: Step) -> Refusal {
    let mut rows = Rows::funded();
    let before = rows.clone();
    let refusal = rows.post(&batch("a", vec![pay("pool", "ada", 1), step])).unwrap_err();
    assert_eq!((rows.accounts, rows.links), (before.accounts, before.links), "nothing happened");
    refusal
}

#[test]
fn every_refusal_has_its_case() {
    let insufficient = |asked, available| Refusal::Insufficient {
        account: id("pool"),
        asked: Amount::from(asked),
        available,
    };
    assert_eq!(refused(pay("pool", "ada", 1000)), insufficient(1000, 999));
    assert_eq!(refused(hold("pool", "ada", 1000)), insufficient(1000, 999));
    assert_eq!(refused(pay("pool", "eve", 1)), Refusal::UnknownAccount(id("eve")));
    assert_eq!(refused(pay("eve", "pool", 1)), Refusal::UnknownAccount(id("eve")));
    assert_eq!(refused(open("ada", Floor::Unlimited)), Refusal::OtherTerms(id("ada")));
    let other = Terms { account: id("ada"), asset: Asset::new("OTHER").unwrap(), floor: Floor::ZERO };
    assert_eq!(refused(Step::Open(other)), Refusal::OtherTerms(id("ada")));
    assert_eq!(refused(Step::Settle(5)), Refusal::UnknownHold(5));
    assert_eq!(refused(Step::Void(5)), Refusal::UnknownHold(5));
    let mut all = transfer("issuer", "pool", 1);
    all.amount = Amount::MAX;
    assert_eq!(refused(Step::Transfer(all.clone())), Refusal::Overflow(id("issuer")));
    all.from = id("ada");
    assert!(matches!(refused(Step::Transfer(all)), Refusal::Insufficient { available: 1, .. }));
}

#[test]
fn every_refusal_has_a_word_of_its_own() {
    let (account, asked, available) = (id("a"), Amount::from(1), 0);
    let words = [
        (Refusal::Empty, "empty"),
        (Refusal::TooManySteps, "too_many_steps"),
        (Refusal::BadTime, "bad_time"),
        (Refusal::ZeroAmount, "zero_amount"),
        (Refusal::SameAccount(id("a")), "same_account"),
        (Refusal::UnknownAccount(id("a")), "unknown_account"),
        (Refusal::OtherTerms(id("a")), "other_terms"),
        (Refusal::AssetMismatch { from: id("a"), to: id("b") }, "asset_mismatch"),
        (Refusal::Insufficient { account, asked, available }, "insufficient"),
        (Refusal::Overflow(id("a")), "overflow"),
        (Refusal::UnknownHold(1), "unknown_hold"),
        (Refusal::HoldClosed(1), "hold_closed"),
    ];
    for (refusal, word) in words {
        assert_eq!(refusal.code(), word);
    }
}

#[test]
fn what_no_ledger_could_do_is_no_batch() {
    let build =
        |at, steps| Batch::new(Key::new("k").unwrap(), Reference::new("").unwrap(), at, steps).map(drop);
    let end = 253_402_300_800;
    assert_eq!(build(0, vec![]), Err(Refusal::Empty));
    assert_eq!(build(0, vec![pay("a", "b", 1); Batch::MAX_STEPS]), Ok(()));
    assert_eq!(build(0, vec![pay("a", "b", 1); Batch::MAX_STEPS + 1]), Err(Refusal::TooManySteps));
    assert_eq!(build(end - 1, vec![pay("a", "b", 1)]), Ok(()));
    assert_eq!(build(end, vec![pay("a", "b", 1)]), Err(Refusal::BadTime));
    for step in [pay, hold] {
        assert_eq!(build(0, vec![step("a", "b", 0)]), Err(Refusal::ZeroAmount));
        assert_eq!(build(0, vec![step("a", "a", 1)]), Err(Refusal::SameAccount(id("a"))));
    }
}

#[test]
fn assets_do_not_mix() {
    let mut rows = Rows::funded();
    let terms = Terms { account: id("eve"), asset: Asset::new("OTHER").unwrap(), floor: Floor::ZERO };
    rows.post(&batch("a", vec![Step::Open(terms)])).unwrap();
    let mismatch = Refusal::AssetMismatch { from: id("pool"), to: id("eve") };
    assert_eq!(rows.post(&batch("b", vec![pay("pool", "eve", 1)])), Err(mismatch.clone()));
    assert_eq!(rows.post(&batch("b", vec![hold("pool", "eve", 1)])), Err(mismatch));
}

#[test]
fn a_group_is_numbered_in_order_and_its_refused_batches_leave_no_trace() {
    let mut rows = Rows::funded();
    let new = |key, steps| {
        let (key, reference) = (Key::new(key).unwrap(), Reference::new("").unwrap());
        Batch::opening_receivers(key, reference, 7, steps).unwrap()
    };
    let group = [
        new("a", vec![pay("pool", "eve", 600)]),
        new("b", vec![pay("pool", "fay", 300), pay("pool", "gus", 101)]),
        new("c", vec![hold("pool", "gus", 400), pay("eve", "ada", 1)]),
    ];
    let outcomes = rows.group(&group);
    let short = Refusal::Insufficient { account: id("pool"), asked: Amount::from(101), available: 100 };
    assert_eq!(outcomes[1], Err(short));
    let (first, last) = (outcomes[0].as_ref().unwrap(), outcomes[2].as_ref().unwrap());
    assert_eq!((first.number, first.first_entry, first.entries, first.at), (2, 6, 2, 7));
    assert_eq!((last.number, last.first_entry, last.entries), (3, 8, 3));
    let Link { number, accounts, requests, entries, .. } = rows.head();
    assert_eq!((number, accounts, requests, entries), (2, 6, 3, 10));
    let names: Vec<&str> = rows.accounts.iter().map(|account| account.id.as_str()).collect();
    assert_eq!(names, ["issuer", "pool", "ada", "bob", "eve", "gus"]);
    let gus = rows.account("gus");
    assert_eq!((gus.number, gus.opened, gus.balance, gus.floor, gus.asset), (6, 8, 0, Floor::ZERO, asset()));
    assert_eq!((rows.balance("pool"), rows.account("pool").held, rows.balance("eve")), (400, 400, 599));
    assert!(rows.audit().is_ok());
}

#[test]
fn holds_are_reserved_then_settled_or_voided_once() {
    let mut rows = Rows::funded();
    let first = rows.post(&batch("a", vec![hold("pool", "ada", 600), hold("pool", "bob", 400)])).unwrap();
    assert_eq!((rows.balance("pool"), rows.account("pool").held), (1000, 1000));
    let (ada, bob) = (first.first_entry, first.first_entry + 1);
    rows.post(&batch("b", vec![Step::Settle(ada), Step::Void(bob)])).unwrap();
    assert_eq!((rows.balance("pool"), rows.account("pool").held), (400, 0));
    assert_eq!((rows.balance("ada"), rows.balance("bob")), (600, 0));
    for step in [Step::Settle(ada), Step::Void(ada), Step::Settle(bob), Step::Void(bob)] {
        let (Step::Settle(number) | Step::Void(number)) = step else { panic!("no hold") };
        assert_eq!(rows.post(&batch("c", vec![step])), Err(Refusal::HoldClosed(number)));
    }
    let third = rows.post(&batch("c", vec![hold("pool", "bob", 9)])).unwrap().first_entry;
    let twice = batch("d", vec![Step::Settle(third), Step::Void(third)]);
    assert_eq!(rows.post(&twice), Err(Refusal::HoldClosed(third)));
    rows.post(&batch("d", vec![Step::Void(third)])).unwrap();
    assert!(rows.audit().is_ok());
}

#[test]
fn a_refused_batch_that_closed_a_hold_leaves_it_open_for_the_next_of_its_group() {
    let mut rows = Rows::funded();
    let number = rows.post(&batch("a", vec![hold("pool", "ada", 10)])).unwrap().first_entry;
    let group = [
        batch("b", vec![Step::Settle(number), pay("bob", "ada", 1)]),
        batch("c", vec![Step::Settle(number)]),
    ];
    let outcomes = rows.group(&group);
    assert!(outcomes[0].is_err() && outcomes[1].is_ok());
    assert_eq!((rows.balance("ada"), rows.account("pool").held), (10, 0));
}

#[test]
fn an_overdraft_ends_at_its_last_unit_and_holds_count() {
    let mut rows = Rows::funded();
    rows.post(&batch("a", vec![open("eve", Floor::Overdraft(Amount::from(10)))])).unwrap();
    rows.post(&batch("b", vec![hold("eve", "ada", 4), pay("eve", "ada", 6)])).unwrap();
    assert_eq!(rows.account("eve").available(), Some(0));
    assert!(matches!(rows.post(&batch("c", vec![pay("eve", "ada", 1)])), Err(Refusal::Insufficient { .. })));
    rows.post(&batch("d", vec![pay("issuer", "eve", 1), pay("eve", "ada", 1)])).unwrap();
}

#[test]
fn a_book_without_batches_writes_nothing() {
    assert!(Book::new().finish(&Link::GENESIS).is_none());
    assert!(Rows::default().post(&batch("a", vec![pay("a", "b", 1)])).is_err());
}

#[test]
fn a_book_knows_what_it_was_told() {
    let mut book = Book::new();
    let rows = Rows::funded();
    let ada: &Account = rows.account("ada");
    assert!(!book.knows(&ada.id) && !book.knows_hold(3));
    book.know(ada.clone());
    book.know(ada.clone());
    book.know_hold(3, ledgerbook::Hold { transfer: transfer("ada", "bob", 1), closed: false });
    assert!(book.knows(&ada.id) && book.knows_hold(3));
    assert_eq!(book.opened().count(), 0, "it exists");
}

#[test]
fn an_account_that_is_open_on_the_same_terms_is_left_as_it_is() {
    let mut rows = Rows::funded();
    let posted = rows.post(&batch("a", vec![open("ada", Floor::ZERO), pay("pool", "ada", 1)])).unwrap();
    assert_eq!((posted.entries, rows.accounts.len()), (1, 4));
    assert!(rows.audit().is_ok());
}

#[test]
fn a_book_says_which_accounts_must_not_exist_yet() {
    let mut book = Book::new();
    book.know(Rows::funded().account("ada").clone());
    book.apply(&batch("a", vec![open("ada", Floor::ZERO), open("eve", Floor::ZERO)])).unwrap();
    assert!(book.apply(&batch("b", vec![open("fay", Floor::ZERO), pay("ada", "eve", 1)])).is_err());
    assert_eq!(book.opened().collect::<Vec<_>>(), [&id("eve")]);
}

#[test]
fn an_entry_names_its_accounts() {
    let moved = transfer("ada", "bob", 1);
    let (ada, bob) = (id("ada"), id("bob"));
    let open = EntryKind::Open { account: ada.clone(), asset: asset(), floor: Floor::ZERO };
    assert_eq!((open.accounts(), open.transfer()), ((None, &ada), None));
    for kind in [
        EntryKind::Move(moved.clone()),
        EntryKind::Hold(moved.clone()),
        EntryKind::Settle { hold: 1, transfer: moved.clone() },
        EntryKind::Void { hold: 1, transfer: moved.clone() },
    ] {
        assert_eq!((kind.accounts(), kind.transfer()), ((Some(&ada), &bob), Some(&moved)));
    }
}
