//! The journal as plain text for other accounting programs: hledger, ledger and beancount.
//!
//! Amounts are whole minor units. An account without a floor, which an asset is issued from, is under `Equity`, every
//! other under `Assets`. Holds that are not settled move nothing and are left out. At the end every balance is asserted,
//! so that whoever reads the text checks it.

use std::fmt::{self, Write};

use crate::{Account, AccountId, Asset, Entry, EntryKind, Floor, Request, Transfer};

/// The plain-text accounting format of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// hledger, and ledger, which reads the same.
    Hledger,
    /// The format of beancount.
    Beancount,
}

const DAY: u64 = 86_400;

/// What comes before the accounts: an asset, for programs that want it declared.
///
/// # Errors
/// Only those of `out`.
pub fn asset(out: &mut impl Write, dialect: Dialect, asset: Asset) -> fmt::Result {
    match dialect {
        Dialect::Hledger => writeln!(out, "commodity {asset}"),
        Dialect::Beancount => Ok(()),
    }
}

/// What comes before the first request: for beancount, every account, opened on `first`, the time of the earliest
/// request.
///
/// # Errors
/// Only those of `out`.
pub fn begin(out: &mut impl Write, dialect: Dialect, first: u64, account: &Account) -> fmt::Result {
    match dialect {
        Dialect::Hledger => writeln!(out, "account {}", name(account)),
        Dialect::Beancount => writeln!(out, "{} open {} {}", date(first), name(account), account.asset),
    }
}

/// A request as a transaction, if anything moved. `account` looks accounts up by name.
///
/// # Errors
/// Those of `out`, and if an account is not known.
pub fn request<'a>(
    out: &mut impl Write,
    dialect: Dialect,
    request: &Request,
    entries: impl IntoIterator<Item = &'a Entry>,
    account: impl Fn(&AccountId) -> Option<(Asset, Floor)>,
) -> fmt::Result {
    let moved = |entry: &'a Entry| match &entry.kind {
        EntryKind::Move(transfer) | EntryKind::Settle { transfer, .. } => Some(transfer),
        EntryKind::Open { .. } | EntryKind::Hold(_) | EntryKind::Void { .. } => None,
    };
    let mut moved = entries.into_iter().filter_map(moved).peekable();
    if moved.peek().is_none() {
        return Ok(());
    }
    writeln!(out)?;
    match dialect {
        Dialect::Hledger => {
            writeln!(out, "{} ({}) request", date(request.at), request.number)?;
            writeln!(out, "    ; key: {}", commented(request.key.as_str()))?;
            writeln!(out, "    ; reference: {}", commented(request.reference.as_str()))?;
        }
        Dialect::Beancount => {
            writeln!(out, "{} * \"request {}\"", date(request.at), request.number)?;
            writeln!(out, "  key: \"{}\"", quoted(request.key.as_str()))?;
            writeln!(out, "  reference: \"{}\"", quoted(request.reference.as_str()))?;
        }
    }
    moved.try_for_each(|transfer| postings(out, transfer, &account))
}

/// What every account has, asserted on the day after `last`, the time of the latest request. `below` is what accounts
/// whose names lie below its own have of the same asset: beancount counts that with it.
///
/// # Errors
/// Only those of `out`.
pub fn assertion(
    out: &mut impl Write,
    dialect: Dialect,
    last: u64,
    account: &Account,
    below: i128,
) -> fmt::Result {
    let (day, name, asset) = (date(last + DAY), name(account), account.asset);
    let balance = match dialect {
        Dialect::Hledger => account.balance,
        Dialect::Beancount => account.balance.saturating_add(below),
    };
    match dialect {
        Dialect::Hledger => writeln!(out, "\n{day} balance\n    {name}  0 {asset} = {balance} {asset}"),
        Dialect::Beancount => writeln!(out, "{day} balance {name} {balance} {asset}"),
    }
}

/// What the account is called in the text. Different accounts have different names.
#[must_use]
pub fn name(account: &Account) -> String {
    full_name(&account.id, account.floor)
}

fn postings(
    out: &mut impl Write,
    transfer: &Transfer,
    account: &impl Fn(&AccountId) -> Option<(Asset, Floor)>,
) -> fmt::Result {
    let Transfer { from, to, amount } = transfer;
    let (asset, from_floor) = account(from).ok_or(fmt::Error)?;
    let (_, to_floor) = account(to).ok_or(fmt::Error)?;
    writeln!(out, "    {}  -{amount} {asset}", full_name(from, from_floor))?;
    writeln!(out, "    {}  {amount} {asset}", full_name(to, to_floor))
}

fn full_name(id: &AccountId, floor: Floor) -> String {
    let mut full = match floor {
        Floor::Unlimited => "Equity".to_owned(),
        Floor::Overdraft(_) => "Assets".to_owned(),
    };
    for part in id.as_str().split('/') {
        full.push(':');
        put_part(&mut full, part);
    }
    full
}

/// A part of a name begins with a capital letter or a digit and goes on with letters, digits and dashes. A dash begins
/// an escaped byte, in capital digits; `X-` before anything but such digits stands for nothing.
fn put_part(full: &mut String, part: &str) {
    if !part.starts_with(|first: char| first.is_ascii_uppercase() || first.is_ascii_digit()) {
        full.push_str("X-");
    }
    for byte in part.bytes() {
        if byte.is_ascii_alphanumeric() {
            full.push(char::from(byte));
        } else {
            full.push_str(&format!("-{byte:02X}"));
        }
    }
}

/// ledger takes what is in brackets in a comment for a date.
fn commented(text: &str) -> String {
    text.replace('%', "%25").replace('[', "%5B")
}

fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

/// The day of a time, in UTC.
fn date(at: u64) -> String {
    // Civil from days, counted in eras of 400 years from a March the first.
    let days = at / DAY + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let table = [
            (0, "1970-01-01"),
            (DAY - 1, "1970-01-01"),
            (DAY, "1970-01-02"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_709_164_800, "2024-02-29"),
            (1_735_603_200, "2024-12-31"),
            (1_735_689_600, "2025-01-01"),
            (4_107_456_000, "2100-02-28"),
            (4_107_542_400, "2100-03-01"),
            (253_402_300_799, "9999-12-31"),
        ];
        for (at, day) in table {
            assert_eq!(date(at), day);
        }
    }

    #[test]
    fn different_accounts_have_different_names() {
        let table = [
            ("pool", "Assets:X-pool"),
            ("Pool", "Assets:Pool"),
            ("9", "Assets:9"),
            ("actor/b3:1f", "Assets:X-actor:X-b3-3A1f"),
            ("X-pool", "Assets:X-2Dpool"),
            ("X", "Assets:X"),
            ("/", "Assets:X-:X-"),
            ("a//b", "Assets:X-a:X-:X-b"),
            ("-", "Assets:X--2D"),
            ("X/a;b", "Assets:X:X-a-3Bb"),
        ];
        for (id, full) in table {
            assert_eq!(full_name(&AccountId::new(id).unwrap(), Floor::ZERO), full);
        }
        assert_eq!(full_name(&AccountId::new("a").unwrap(), Floor::Unlimited), "Equity:X-a");
    }

    #[test]
    fn quotes_stay_inside_their_text() {
        assert_eq!(quoted(r#"a"b\c"#), r#"a\"b\\c"#);
        assert_eq!(commented("a[1]%"), "a%5B1]%25");
    }
}
