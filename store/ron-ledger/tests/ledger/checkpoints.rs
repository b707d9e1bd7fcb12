//! Signed checkpoints: what they vouch for, and who is believed.

use ron_ledger::{
    Checkpoint, Fault, Ledger, LedgerError, NodeKey, Scrutiny, Signer, Step, checkpoint, verify,
};

use crate::support::{Place, batch, funded, hold, open, pay};

on_every_store!(
    a_checkpoint_is_stored_once_and_verified,
    opening_from_a_checkpoint_checks_what_followed,
    an_unknown_signer_is_not_believed,
    a_forged_checkpoint_is_found,
);

fn key() -> NodeKey {
    NodeKey::from_seed(&[7; 32]).unwrap()
}

fn stored(ledger: &dyn Ledger) -> Vec<Checkpoint> {
    ledger.snapshot().unwrap().checkpoints(0, 10).unwrap()
}

fn a_checkpoint_is_stored_once_and_verified(place: &Place) {
    let empty = place.open();
    assert_eq!(checkpoint(&*empty, &key()), Ok(None), "there is nothing to vouch for");
    drop(empty);
    let ledger = funded(place);
    let first = checkpoint(&*ledger, &key()).unwrap().unwrap();
    assert_eq!(checkpoint(&*ledger, &key()), Ok(Some(first.clone())));
    assert_eq!(stored(&*ledger), [first]);
    assert!(verify(&mut *ledger.snapshot().unwrap(), &[key().public_key()]).is_ok());
}

fn opening_from_a_checkpoint_checks_what_followed(place: &Place) {
    let mut ledger = funded(place);
    let held_at = ledger.post(&batch("a", vec![hold("pool", "ada", 9)])).unwrap().receipt.first_entry;
    checkpoint(&*ledger, &key()).unwrap();
    let steps = vec![Step::Settle(held_at), hold("pool", "bob", 5), open("eve", ron_ledger::Floor::ZERO)];
    ledger.post(&batch("b", steps)).unwrap();
    ledger.post(&batch("c", vec![pay("ada", "eve", 4), Step::Void(held_at + 2)])).unwrap();
    if place.is_kept() {
        drop(ledger);
        ledger = place.try_open(&Scrutiny::SinceCheckpoint(vec![key().public_key()])).unwrap();
    }
    let second = checkpoint(&*ledger, &key()).unwrap().unwrap();
    assert_eq!(second.link.number, 4);
    assert!(verify(&mut *ledger.snapshot().unwrap(), &[key().public_key()]).is_ok());
}

fn an_unknown_signer_is_not_believed(place: &Place) {
    let ledger = funded(place);
    checkpoint(&*ledger, &NodeKey::from_seed(&[8; 32]).unwrap()).unwrap();
    let verdict = verify(&mut *ledger.snapshot().unwrap(), &[key().public_key()]);
    assert_eq!(verdict, Err(LedgerError::Damaged(Fault::BadSignature(1))));
    assert!(verify(&mut *ledger.snapshot().unwrap(), &[]).is_ok(), "but it is signed by whom it says");
}

fn a_forged_checkpoint_is_found(place: &Place) {
    let ledger = funded(place);
    let link = ledger.snapshot().unwrap().head().unwrap();
    // Signed, but about accounts that never were.
    let state = [1; 32];
    let signature = key().sign(Checkpoint::payload(&link, &state).as_bytes());
    let forged = Checkpoint { link, state, key: key().public_key(), signature };
    ledger.keep_checkpoint(&forged).unwrap();
    let wrong = Err(LedgerError::Damaged(Fault::WrongCheckpoint(1)));
    assert_eq!(verify(&mut *ledger.snapshot().unwrap(), &[]).map(drop), wrong);
    assert_eq!(checkpoint(&*ledger, &key()).map(drop), wrong);
    if place.is_kept() {
        let scrutiny = Scrutiny::SinceCheckpoint(vec![key().public_key()]);
        assert_eq!(place.try_open(&scrutiny).map(drop), wrong);
    }
}

#[test]
fn a_node_key_does_not_show_its_secret() {
    assert!(!format!("{:?}", key()).contains("7, 7, 7"));
}
