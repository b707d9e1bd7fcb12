//! Posting: what is booked, what is refused, and what a key means.

use ron_ledger::{Amount, Asset, Batch, Floor, Key, LedgerError, Reference, Refusal, Step, Terms};

use crate::support::{Place, asset, balance, batch, funded, id, open, pay, transfer};

on_every_store!(
    a_transfer_moves_what_it_says,
    a_batch_is_booked_whole_or_not_at_all,
    the_same_batch_sent_again_has_its_first_result,
    the_same_key_with_another_body_is_a_conflict,
    a_refused_batch_leaves_its_key_free,
    every_refusal_leaves_the_ledger_as_it_was,
    an_overdraft_is_used_to_its_last_unit,
    receivers_are_opened_when_the_batch_says_so,
    opening_an_account_again_on_the_same_terms_is_nothing_new,
    amounts_of_127_bits_are_kept_exactly,
    balances_beyond_the_range_are_refused,
);

fn a_transfer_moves_what_it_says(place: &Place) {
    let ledger = funded(place);
    let posted = ledger.post(&batch("a", vec![pay("pool", "ada", 300), pay("ada", "bob", 100)])).unwrap();
    assert!(!posted.replayed);
    assert_eq!((posted.receipt.request, posted.receipt.first_entry, posted.receipt.entries), (2, 6, 2));
    let balances = ["issuer", "pool", "ada", "bob"].map(|name| balance(&*ledger, name));
    assert_eq!(balances, [-1000, 700, 200, 100]);
    assert_eq!(ledger.account(&id("nobody")), Ok(None));
}

fn a_batch_is_booked_whole_or_not_at_all(place: &Place) {
    let ledger = funded(place);
    let short = batch("a", vec![pay("pool", "ada", 999), pay("pool", "bob", 2)]);
    let refusal = Refusal::Insufficient { account: id("pool"), asked: Amount::from(2), available: 1 };
    assert_eq!(ledger.post(&short), Err(LedgerError::Refused(refusal)));
    assert_eq!(balance(&*ledger, "ada"), 0);
    assert_eq!(ledger.snapshot().unwrap().head().unwrap().requests, 1);
}

fn the_same_batch_sent_again_has_its_first_result(place: &Place) {
    let mut ledger = funded(place);
    let paid = batch("a", vec![pay("pool", "ada", 10)]);
    let first = ledger.post(&paid).unwrap();
    ledger.post(&batch("b", vec![pay("pool", "bob", 990)])).unwrap();
    if place.is_kept() {
        ledger = place.open();
    }
    // Later, and although the pool is empty by now.
    let again =
        Batch::new(paid.key().clone(), paid.reference().clone(), 1_800_000_000, paid.steps().to_vec());
    let again = ledger.post(&again.unwrap()).unwrap();
    assert_eq!((again.receipt, again.replayed), (first.receipt, true));
    assert_eq!(balance(&*ledger, "ada"), 10);
    let request = ledger.request(paid.key()).unwrap().unwrap();
    assert_eq!((request.receipt(), request.at, request.body), (first.receipt, 1_700_000_000, *paid.body()));
}

fn the_same_key_with_another_body_is_a_conflict(place: &Place) {
    let ledger = funded(place);
    ledger.post(&batch("a", vec![pay("pool", "ada", 10)])).unwrap();
    let key = Key::new("a").unwrap();
    let conflict = Err(LedgerError::Conflict { key: key.clone(), request: 2 });
    assert_eq!(ledger.post(&batch("a", vec![pay("pool", "ada", 11)])), conflict);
    let steps = vec![pay("pool", "ada", 10)];
    let other_reference = Batch::new(key.clone(), Reference::new("another run").unwrap(), 0, steps.clone());
    assert_eq!(ledger.post(&other_reference.unwrap()), conflict);
    let opening = Batch::opening_receivers(key, Reference::new("for a test").unwrap(), 0, steps);
    assert_eq!(ledger.post(&opening.unwrap()), conflict);
    assert_eq!(balance(&*ledger, "ada"), 10);
}

fn a_refused_batch_leaves_its_key_free(place: &Place) {
    let ledger = funded(place);
    let dear = batch("a", vec![pay("ada", "bob", 5)]);
    assert!(matches!(ledger.post(&dear), Err(LedgerError::Refused(Refusal::Insufficient { .. }))));
    assert_eq!(ledger.request(dear.key()), Ok(None));
    ledger.post(&batch("b", vec![pay("pool", "ada", 5)])).unwrap();
    assert_eq!(ledger.post(&dear).map(|posted| posted.replayed), Ok(false));
}

fn every_refusal_leaves_the_ledger_as_it_was(place: &Place) {
    let ledger = funded(place);
    let other = Terms { account: id("eve"), asset: Asset::new("OTHER").unwrap(), floor: Floor::ZERO };
    ledger.post(&batch("other", vec![Step::Open(other)])).unwrap();
    let mismatch = Refusal::AssetMismatch { from: id("pool"), to: id("eve") };
    let table = [
        (pay("pool", "nobody", 1), Refusal::UnknownAccount(id("nobody"))),
        (pay("nobody", "pool", 1), Refusal::UnknownAccount(id("nobody"))),
        (pay("pool", "eve", 1), mismatch),
        (open("ada", Floor::Unlimited), Refusal::OtherTerms(id("ada"))),
        (Step::Settle(1), Refusal::UnknownHold(1)),
        (Step::Void(99), Refusal::UnknownHold(99)),
        (Step::Void(u64::MAX), Refusal::UnknownHold(u64::MAX)),
    ];
    let before = ledger.snapshot().unwrap().head().unwrap();
    for (step, refusal) in table {
        let steps = vec![pay("pool", "ada", 1), step];
        assert_eq!(ledger.post(&batch("a", steps)), Err(LedgerError::Refused(refusal)));
    }
    assert_eq!(ledger.snapshot().unwrap().head().unwrap(), before);
    assert_eq!(balance(&*ledger, "ada"), 0);
}

fn an_overdraft_is_used_to_its_last_unit(place: &Place) {
    let ledger = funded(place);
    let overdraft = Floor::Overdraft(Amount::from(50));
    ledger.post(&batch("a", vec![open("carl", overdraft), pay("carl", "ada", 49)])).unwrap();
    ledger.post(&batch("b", vec![pay("carl", "ada", 1)])).unwrap();
    assert_eq!(balance(&*ledger, "carl"), -50);
    let refusal = Refusal::Insufficient { account: id("carl"), asked: Amount::from(1), available: 0 };
    assert_eq!(ledger.post(&batch("c", vec![pay("carl", "ada", 1)])), Err(refusal.into()));
}

fn receivers_are_opened_when_the_batch_says_so(place: &Place) {
    let ledger = funded(place);
    let steps = vec![pay("pool", "new/1", 1), pay("pool", "new/2", 2), pay("pool", "new/1", 3)];
    let key = Key::new("a").unwrap();
    let payout = Batch::opening_receivers(key, Reference::new("run").unwrap(), 0, steps).unwrap();
    let posted = ledger.post(&payout).unwrap();
    assert_eq!(posted.receipt.entries, 5, "two were opened");
    let opened = ledger.account(&id("new/1")).unwrap().unwrap();
    assert_eq!((opened.balance, opened.asset, opened.floor, opened.number), (4, asset(), Floor::ZERO, 5));
    assert_eq!(opened.opened, posted.receipt.first_entry);
}

fn opening_an_account_again_on_the_same_terms_is_nothing_new(place: &Place) {
    let ledger = funded(place);
    let posted = ledger.post(&batch("a", vec![open("ada", Floor::ZERO)])).unwrap();
    assert_eq!(posted.receipt.entries, 0);
    let posted = ledger.post(&batch("b", vec![pay("pool", "ada", 1)])).unwrap();
    assert_eq!((posted.receipt.request, posted.receipt.first_entry), (3, 6));
}

fn amounts_of_127_bits_are_kept_exactly(place: &Place) {
    let ledger = funded(place);
    let mut all = transfer("issuer", "rich", 1);
    all.amount = Amount::try_from(i128::MAX - 1000).unwrap();
    ledger.post(&batch("a", vec![open("rich", Floor::ZERO), Step::Transfer(all)])).unwrap();
    let ledger = if place.is_kept() { place.open() } else { ledger };
    assert_eq!(balance(&*ledger, "rich"), i128::MAX - 1000);
    assert_eq!(balance(&*ledger, "issuer"), -i128::MAX);
}

fn balances_beyond_the_range_are_refused(place: &Place) {
    let ledger = funded(place);
    let mut all = transfer("issuer", "ada", 1);
    all.amount = Amount::MAX;
    let refused = ledger.post(&batch("a", vec![Step::Transfer(all)]));
    assert_eq!(refused, Err(LedgerError::Refused(Refusal::Overflow(id("issuer")))));
}
