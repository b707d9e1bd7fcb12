//! Many at once: everything is booked once, whoever commits it.

use std::{
    collections::HashSet,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use ron_ledger::{Ledger, LedgerError, Refusal, verify};

use crate::support::{Place, balance, batch, funded, pay, post_surely};

on_every_store!(
    batches_of_many_threads_are_all_booked_once,
    one_batch_sent_by_many_threads_is_booked_once,
    many_threads_cannot_overspend_together,
);

const THREADS: u64 = 8;

fn batches_of_many_threads_are_all_booked_once(place: &Place) {
    const EACH: u64 = 20;
    let ledger = funded(place);
    let ledger: &dyn Ledger = &*ledger;
    thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for turn in 0..EACH {
                    let to = if turn % 2 == 0 { "ada" } else { "bob" };
                    post_surely(ledger, &batch(&format!("{thread}/{turn}"), vec![pay("pool", to, 1)]))
                        .unwrap();
                }
            });
        }
    });
    let spent = i128::from(THREADS * EACH);
    assert_eq!((balance(ledger, "pool"), balance(ledger, "ada")), (1000 - spent, spent / 2));
    let tally = verify(&mut *ledger.snapshot().unwrap(), &[]).unwrap();
    assert_eq!(tally.requests, 1 + THREADS * EACH);
    assert!(tally.links <= tally.requests);
}

fn one_batch_sent_by_many_threads_is_booked_once(place: &Place) {
    let ledger = funded(place);
    let ledger: &dyn Ledger = &*ledger;
    let first = AtomicU64::new(0);
    let receipts = Mutex::new(HashSet::new());
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let posted = post_surely(ledger, &batch("once", vec![pay("pool", "ada", 1000)])).unwrap();
                first.fetch_add(u64::from(!posted.replayed), Ordering::Relaxed);
                receipts.lock().unwrap().insert(posted.receipt.request);
            });
        }
    });
    let receipts = receipts.into_inner().unwrap();
    assert_eq!((receipts.len(), first.into_inner()), (1, 1));
    assert_eq!(balance(ledger, "ada"), 1000);
}

fn many_threads_cannot_overspend_together(place: &Place) {
    let ledger = funded(place);
    let ledger: &dyn Ledger = &*ledger;
    let refused = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let refused = &refused;
            scope.spawn(move || {
                match post_surely(ledger, &batch(&thread.to_string(), vec![pay("pool", "ada", 300)])) {
                    Ok(_) => {}
                    Err(LedgerError::Refused(Refusal::Insufficient { .. })) => {
                        refused.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(other) => panic!("{other}"),
                }
            });
        }
    });
    assert_eq!((refused.into_inner(), balance(ledger, "pool")), (THREADS - 3, 100));
}

/// Every process has a ledger of its own on the same database, or the same file.
fn replicas_agree(place: &Place) {
    const EACH: u64 = 25;
    drop(funded(place));
    let posted = AtomicU64::new(0);
    thread::scope(|scope| {
        for replica in 0..THREADS {
            let posted = &posted;
            scope.spawn(move || {
                let ledger = place.open();
                for turn in 0..EACH {
                    // Both directions, so that locks are wanted in both orders; every key is sent by two replicas.
                    let (from, to) = if replica / 2 % 2 == 0 { ("pool", "ada") } else { ("ada", "pool") };
                    let paid = batch(&format!("{}/{turn}", replica / 2), vec![pay(from, to, 1)]);
                    match post_surely(&*ledger, &paid) {
                        Ok(outcome) => posted.fetch_add(u64::from(!outcome.replayed), Ordering::Relaxed),
                        Err(LedgerError::Refused(Refusal::Insufficient { .. })) => 0,
                        Err(other) => panic!("{other}"),
                    };
                }
            });
        }
    });
    let ledger = place.open();
    let tally = verify(&mut *ledger.snapshot().unwrap(), &[]).unwrap();
    assert_eq!(tally.requests, 1 + posted.into_inner(), "every key was posted once at most");
    assert_eq!(balance(&*ledger, "pool") + balance(&*ledger, "ada"), 1000);
}

#[test]
fn replicas_on_one_file_agree() {
    replicas_agree(&Place::file());
}

#[cfg(feature = "postgres")]
#[test]
fn replicas_on_one_server_agree() {
    replicas_agree(&Place::server());
}
