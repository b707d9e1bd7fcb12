//! Holds: promised, then settled or voided, once.

use ron_ledger::{Amount, Batch, Key, LedgerError, Reference, Refusal, Step};

use crate::support::{Place, balance, batch, funded, held, hold, id, pay};

on_every_store!(
    what_is_held_cannot_be_spent,
    a_settled_hold_moves_the_amount,
    a_voided_hold_gives_it_back,
    a_hold_is_closed_once,
    a_hold_closed_twice_in_one_batch_is_refused,
    a_hold_survives_being_opened_again,
    a_hold_opens_its_receiver_when_the_batch_says_so,
);

fn what_is_held_cannot_be_spent(place: &Place) {
    let ledger = funded(place);
    ledger.post(&batch("a", vec![hold("pool", "ada", 600)])).unwrap();
    assert_eq!((balance(&*ledger, "pool"), held(&*ledger, "pool"), balance(&*ledger, "ada")), (1000, 600, 0));
    let refusal = Refusal::Insufficient { account: id("pool"), asked: Amount::from(401), available: 400 };
    assert_eq!(ledger.post(&batch("b", vec![pay("pool", "bob", 401)])), Err(refusal.clone().into()));
    assert_eq!(ledger.post(&batch("b", vec![hold("pool", "bob", 401)])), Err(refusal.into()));
    ledger.post(&batch("b", vec![pay("pool", "bob", 400)])).unwrap();
}

fn a_settled_hold_moves_the_amount(place: &Place) {
    let ledger = funded(place);
    let held_at = ledger.post(&batch("a", vec![hold("pool", "ada", 1000)])).unwrap().receipt.first_entry;
    ledger.post(&batch("b", vec![Step::Settle(held_at)])).unwrap();
    assert_eq!((balance(&*ledger, "pool"), held(&*ledger, "pool"), balance(&*ledger, "ada")), (0, 0, 1000));
}

fn a_voided_hold_gives_it_back(place: &Place) {
    let ledger = funded(place);
    let held_at = ledger.post(&batch("a", vec![hold("pool", "ada", 1000)])).unwrap().receipt.first_entry;
    ledger.post(&batch("b", vec![Step::Void(held_at), pay("pool", "bob", 1000)])).unwrap();
    assert_eq!((held(&*ledger, "pool"), balance(&*ledger, "ada"), balance(&*ledger, "bob")), (0, 0, 1000));
}

fn a_hold_is_closed_once(place: &Place) {
    let ledger = funded(place);
    let held_at = ledger.post(&batch("a", vec![hold("pool", "ada", 7)])).unwrap().receipt.first_entry;
    let settled = ledger.post(&batch("b", vec![Step::Settle(held_at)])).unwrap();
    let closed = Err(LedgerError::Refused(Refusal::HoldClosed(held_at)));
    assert_eq!(ledger.post(&batch("c", vec![Step::Settle(held_at)])), closed);
    assert_eq!(ledger.post(&batch("c", vec![Step::Void(held_at)])), closed);
    let replayed = ledger.post(&batch("b", vec![Step::Settle(held_at)])).unwrap();
    assert_eq!((replayed.receipt, replayed.replayed), (settled.receipt, true));
    let not_a_hold = Err(LedgerError::Refused(Refusal::UnknownHold(settled.receipt.first_entry)));
    assert_eq!(ledger.post(&batch("c", vec![Step::Void(settled.receipt.first_entry)])), not_a_hold);
}

fn a_hold_closed_twice_in_one_batch_is_refused(place: &Place) {
    let ledger = funded(place);
    let held_at = ledger.post(&batch("a", vec![hold("pool", "ada", 7)])).unwrap().receipt.first_entry;
    let twice = batch("b", vec![Step::Void(held_at), Step::Settle(held_at)]);
    assert_eq!(ledger.post(&twice), Err(LedgerError::Refused(Refusal::HoldClosed(held_at))));
    assert_eq!(held(&*ledger, "pool"), 7, "and is still open");
    ledger.post(&batch("c", vec![Step::Settle(held_at)])).unwrap();
}

fn a_hold_survives_being_opened_again(place: &Place) {
    let mut ledger = funded(place);
    let held_at = ledger.post(&batch("a", vec![hold("pool", "ada", 7)])).unwrap().receipt.first_entry;
    if place.is_kept() {
        ledger = place.open();
    }
    ledger.post(&batch("b", vec![Step::Settle(held_at)])).unwrap();
    assert_eq!(balance(&*ledger, "ada"), 7);
}

fn a_hold_opens_its_receiver_when_the_batch_says_so(place: &Place) {
    let ledger = funded(place);
    let (key, reference) = (Key::new("a").unwrap(), Reference::new("").unwrap());
    let batch = Batch::opening_receivers(key, reference, 0, vec![hold("pool", "new", 7)]).unwrap();
    assert_eq!(ledger.post(&batch).unwrap().receipt.entries, 2);
    assert_eq!(balance(&*ledger, "new"), 0);
}
