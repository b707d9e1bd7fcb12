//! Random batches: conservation after every commit, and every audit agrees.

use std::collections::BTreeMap;

use ledgerbook::{AccountId, Floor, Step, plain_text};
use proptest::prelude::*;

use crate::support::{Rows, batch, hold, id, open, pay};

fn name(number: u8) -> String {
    format!("account/{}", number % 6)
}

/// Account 0 issues; the others have an overdraft of 0 or 20.
fn floor(number: u8) -> Floor {
    match number % 6 {
        0 => Floor::Unlimited,
        odd if odd % 2 == 1 => Floor::ZERO,
        _ => Floor::Overdraft(20_u64.into()),
    }
}

fn step() -> impl Strategy<Value = Step> {
    let pair = || (0..6_u8, 1..6_u8, 1..100_u64);
    prop_oneof![
        1 => (0..6_u8).prop_map(|account| open(&name(account), floor(account))),
        5 => pair().prop_map(|(from, by, amount)| pay(&name(from), &name(from + by), amount)),
        3 => pair().prop_map(|(from, by, amount)| hold(&name(from), &name(from + by), amount)),
        2 => (1..60_u64).prop_map(Step::Settle),
        1 => (1..60_u64).prop_map(Step::Void),
    ]
}

fn groups() -> impl Strategy<Value = Vec<Vec<Vec<Step>>>> {
    let batch = prop::collection::vec(step(), 1..4);
    prop::collection::vec(prop::collection::vec(batch, 1..4), 1..30)
}

/// Σ balances = 0, nothing held is negative, and what is held is the sum of the open holds; floors are kept.
fn conserved(rows: &Rows) {
    assert_eq!(rows.accounts.iter().map(|account| account.balance).sum::<i128>(), 0);
    let mut held = BTreeMap::<&AccountId, i128>::new();
    for entry in &rows.entries {
        use ledgerbook::EntryKind::{Hold, Move, Open, Settle, Void};
        match &entry.kind {
            Hold(transfer) => *held.entry(&transfer.from).or_default() += transfer.amount.get(),
            Settle { transfer, .. } | Void { transfer, .. } => {
                *held.entry(&transfer.from).or_default() -= transfer.amount.get();
            }
            Open { .. } | Move(_) => {}
        }
    }
    for account in &rows.accounts {
        assert_eq!(account.held, held.get(&account.id).copied().unwrap_or(0));
        assert!(account.held >= 0);
        if let Some(lowest) = account.floor.lowest() {
            assert!(account.balance - account.held >= lowest, "{account:?}");
        }
    }
}

proptest! {
    #[test]
    fn nothing_is_made_or_lost(groups in groups()) {
        let mut rows = Rows::default();
        let all = (0..6).map(|account| open(&name(account), floor(account))).collect();
        rows.post(&batch("accounts", all)).unwrap();
        let mut key = 0;
        for group in groups {
            let before = rows.clone();
            // Nobody knows the number of a hold before it is committed.
            let known = |step: Step| match step {
                Step::Settle(hold) => Step::Settle(hold.min(before.head().entries)),
                Step::Void(hold) => Step::Void(hold.min(before.head().entries)),
                other => other,
            };
            let batches: Vec<_> = group.into_iter().map(|steps| {
                key += 1;
                batch(&key.to_string(), steps.into_iter().map(known).collect())
            }).collect();
            let outcomes = rows.group(&batches);
            let posted = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
            prop_assert_eq!(rows.requests.len(), before.requests.len() + posted);
            conserved(&rows);
            // The same one by one: a group is nothing but a common link.
            let mut one_by_one = before.clone();
            for batch in &batches {
                let _ = one_by_one.post(batch);
            }
            prop_assert_eq!(&one_by_one.accounts, &rows.accounts);
            prop_assert_eq!(&one_by_one.entries, &rows.entries);
            prop_assert_eq!(&one_by_one.requests, &rows.requests);
        }
        let tally = rows.audit().unwrap();
        prop_assert_eq!(tally.entries, rows.entries.len() as u64);
    }

    #[test]
    fn different_accounts_have_different_names_in_an_export(one in "[ -~&&[^ ]]{1,6}", other in "[X/a2D-]{1,6}") {
        let mut rows = Rows::default();
        rows.post(&batch("a", vec![open(&one, Floor::ZERO)])).unwrap();
        if one != other {
            rows.post(&batch("b", vec![open(&other, Floor::ZERO)])).unwrap();
            prop_assert_ne!(plain_text::name(rows.account(&one)), plain_text::name(rows.account(&other)));
        }
        let shown = plain_text::name(rows.account(&one));
        let begins_well = |part: &str| part.starts_with(|c: char| c.is_ascii_uppercase() || c.is_ascii_digit());
        prop_assert!(shown.split(':').all(begins_well), "{}", shown);
        prop_assert_eq!(rows.account(&one).id.clone(), id(&one));
    }
}
