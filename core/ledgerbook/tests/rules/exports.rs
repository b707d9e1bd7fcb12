//! The journal as text, word for word.

use ledgerbook::{
    AccountId,
    plain_text::{self, Dialect},
};

use crate::support::{Rows, batch, hold, pay};

fn text(dialect: Dialect) -> String {
    let mut rows = Rows::funded();
    rows.post(&batch("pay/[1]", vec![pay("pool", "ada", 7), hold("pool", "bob", 5)])).unwrap();
    rows.post(&batch("settle", vec![ledgerbook::Step::Settle(7)])).unwrap();
    let second = rows.post(&batch("hold", vec![hold("pool", "bob", 1)])).unwrap();
    rows.post(&batch("void", vec![ledgerbook::Step::Void(second.first_entry)])).unwrap();
    let terms = |id: &AccountId| {
        rows.accounts.iter().find(|account| account.id == *id).map(|account| (account.asset, account.floor))
    };
    let mut out = String::new();
    plain_text::asset(&mut out, dialect, rows.accounts[0].asset).unwrap();
    for account in &rows.accounts {
        plain_text::begin(&mut out, dialect, 1_700_000_000, account).unwrap();
    }
    for request in &rows.requests {
        let own = rows.entries.iter().filter(|entry| entry.request == request.number);
        plain_text::request(&mut out, dialect, request, own, terms).unwrap();
    }
    out.push('\n');
    for account in &rows.accounts {
        plain_text::assertion(&mut out, dialect, 1_700_000_000, account, 0).unwrap();
    }
    out
}

#[test]
fn hledger_and_ledger_are_given_this() {
    let expected = "\
commodity CREDIT
account Equity:X-issuer
account Assets:X-pool
account Assets:X-ada
account Assets:X-bob

2023-11-14 (1) request
    ; key: fund
    ; reference: test
    Equity:X-issuer  -1000 CREDIT
    Assets:X-pool  1000 CREDIT

2023-11-14 (2) request
    ; key: pay/%5B1]
    ; reference: test
    Assets:X-pool  -7 CREDIT
    Assets:X-ada  7 CREDIT

2023-11-14 (3) request
    ; key: settle
    ; reference: test
    Assets:X-pool  -5 CREDIT
    Assets:X-bob  5 CREDIT


2023-11-15 balance
    Equity:X-issuer  0 CREDIT = -1000 CREDIT

2023-11-15 balance
    Assets:X-pool  0 CREDIT = 988 CREDIT

2023-11-15 balance
    Assets:X-ada  0 CREDIT = 7 CREDIT

2023-11-15 balance
    Assets:X-bob  0 CREDIT = 5 CREDIT
";
    assert_eq!(text(Dialect::Hledger), expected);
}

#[test]
fn beancount_is_given_this() {
    let expected = "\
2023-11-14 open Equity:X-issuer CREDIT
2023-11-14 open Assets:X-pool CREDIT
2023-11-14 open Assets:X-ada CREDIT
2023-11-14 open Assets:X-bob CREDIT

2023-11-14 * \"request 1\"
  key: \"fund\"
  reference: \"test\"
    Equity:X-issuer  -1000 CREDIT
    Assets:X-pool  1000 CREDIT

2023-11-14 * \"request 2\"
  key: \"pay/[1]\"
  reference: \"test\"
    Assets:X-pool  -7 CREDIT
    Assets:X-ada  7 CREDIT

2023-11-14 * \"request 3\"
  key: \"settle\"
  reference: \"test\"
    Assets:X-pool  -5 CREDIT
    Assets:X-bob  5 CREDIT

2023-11-15 balance Equity:X-issuer -1000 CREDIT
2023-11-15 balance Assets:X-pool 988 CREDIT
2023-11-15 balance Assets:X-ada 7 CREDIT
2023-11-15 balance Assets:X-bob 5 CREDIT
";
    assert_eq!(text(Dialect::Beancount), expected);
}
