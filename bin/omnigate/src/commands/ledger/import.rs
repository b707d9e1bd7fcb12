//! `omnigate ledger import`: many transfers from a file, each exactly once.
//!
//! A line is `key,from,to,amount,reference`; a cell with a comma or a quote is in quotes, as in any CSV file. Everything is read and checked before the first transfer is posted. Each is posted
//! under its own key: an import that broke off is started again with the same file, and what was posted is not posted twice.

use std::{collections::BTreeSet, path::Path};

use ron_ledger::{AccountId, Amount, Batch, Key, Ledger, LedgerError, Reference, Step, Transfer};
use ron_transport::files;
use serde_json::json;

use super::{
    super::{pretty, print, token::now},
    args::{ImportArgs, LedgerArgs},
    failure,
    write::not_reserved,
};
use crate::failure::Failure;

/// The longest file.
const MAX_BYTES: u64 = 256 << 20;
/// The first line of every file.
const HEADER: &str = "key,from,to,amount,reference";

/// A line of the file.
struct Row {
    line: usize,
    key: Key,
    reference: Reference,
    transfer: Transfer,
}

/// The result of an import.
#[derive(Default)]
struct Tally {
    posted: usize,
    replayed: usize,
    refused: Vec<(usize, String)>,
}

/// Posts the transfers of a file.
pub(super) fn import(args: &LedgerArgs, import: &ImportArgs) -> Result<bool, Failure> {
    let rows = read(&import.file)?;
    if import.dry_run {
        let sum = rows.iter().try_fold(0_i128, |sum, row| sum.checked_add(row.transfer.amount.get()));
        let sum = sum.map_or_else(|| "more than can be counted".to_owned(), |sum| sum.to_string());
        print(&format!("{} transfers can be read, {sum} in all; nothing was posted\n", rows.len()))?;
        return Ok(true);
    }
    let ledger = args.open(&args.scrutiny()?)?;
    let mut tally = Tally::default();
    for row in &rows {
        post(&*ledger, row, import.open_receivers, &mut tally)?;
    }
    tell(&tally, import.json)?;
    Ok(tally.refused.is_empty())
}

/// Posts one. What the ledger refuses is noted; what it cannot say ends the import.
fn post(ledger: &dyn Ledger, row: &Row, open_receivers: bool, tally: &mut Tally) -> Result<(), Failure> {
    let make = if open_receivers { Batch::opening_receivers } else { Batch::new };
    let steps = vec![Step::Transfer(row.transfer.clone())];
    let batch = make(row.key.clone(), row.reference.clone(), now()?, steps);
    let posted = match batch.map_err(LedgerError::Refused).and_then(|batch| ledger.post(&batch)) {
        Ok(posted) => posted,
        Err(error @ (LedgerError::Refused(_) | LedgerError::Conflict { .. })) => {
            tally.refused.push((row.line, error.to_string()));
            return Ok(());
        }
        Err(error) => return Err(failure(error)),
    };
    if posted.replayed {
        tally.replayed += 1;
    } else {
        tally.posted += 1;
    }
    Ok(())
}

fn tell(Tally { posted, replayed, refused }: &Tally, as_json: bool) -> Result<(), Failure> {
    if as_json {
        let refused: Vec<_> =
            refused.iter().map(|(line, why)| json!({ "line": line, "reason": why })).collect();
        return print(&pretty(&json!({ "posted": posted, "posted_before": replayed, "refused": refused })));
    }
    let lines: String = refused.iter().map(|(line, why)| format!("line {line}: refused: {why}\n")).collect();
    print(&format!("{lines}{posted} posted, {replayed} posted before, {} refused\n", refused.len()))
}

/// Reads and checks every line.
fn read(path: &Path) -> Result<Vec<Row>, Failure> {
    let bytes = files::read_public_or_pipe(path, MAX_BYTES).map_err(Failure::failed)?;
    let wrong = |line: usize, what: &dyn std::fmt::Display| {
        Failure::bad_config(format!("{}, line {line}: {what}; nothing was posted", path.display()))
    };
    let text = String::from_utf8(bytes).map_err(|_| wrong(1, &"it is not text"))?;
    let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
    if lines.next().map(|(_, line)| line) != Some(HEADER) {
        return Err(wrong(1, &format_args!("the first line is not `{HEADER}`")));
    }
    if !text.ends_with('\n') {
        let last = text.lines().count();
        return Err(wrong(last, &"it does not end with a line feed: the file may have been cut off"));
    }
    let (mut rows, mut keys) = (Vec::new(), BTreeSet::new());
    for (line, text) in lines.filter(|(_, text)| !text.is_empty()) {
        let row = row(line, text).map_err(|what| wrong(line, &what))?;
        not_reserved(&row.key).map_err(|_| wrong(line, &"the key is reserved"))?;
        if !keys.insert(row.key.as_str().to_owned()) {
            return Err(wrong(line, &"another line has the same key"));
        }
        rows.push(row);
    }
    Ok(rows)
}

fn row(line: usize, text: &str) -> Result<Row, String> {
    let cells = cells(text)?;
    let [key, from, to, amount, reference] = cells.as_slice() else {
        let help = "; a cell with a comma is written in quotes";
        return Err(format!("it has {} cells instead of 5{help}", cells.len()));
    };
    let said = |error: &dyn std::fmt::Display| error.to_string();
    Ok(Row {
        line,
        key: Key::new(key).map_err(|error| said(&error))?,
        reference: Reference::new(reference).map_err(|error| said(&error))?,
        transfer: Transfer {
            from: AccountId::new(from).map_err(|error| said(&error))?,
            to: AccountId::new(to).map_err(|error| said(&error))?,
            amount: amount.parse::<Amount>().map_err(|error| said(&error))?,
        },
    })
}

/// The cells of a line of CSV. A cell in quotes may have commas, and two quotes for one.
fn cells(line: &str) -> Result<Vec<String>, &'static str> {
    let (mut cells, mut rest) = (Vec::new(), line);
    loop {
        let (cell, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_cell(quoted)?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (rest[..end].to_owned(), &rest[end..])
            }
        };
        if cell.contains('"') && !rest.starts_with('"') {
            return Err("it has a quote in a cell that is not in quotes");
        }
        cells.push(cell);
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None if after.is_empty() => return Ok(cells),
            None => return Err("it has something between a cell's last quote and the comma"),
        }
    }
}

/// A cell in quotes, whose first is left out, and what is behind it.
fn quoted_cell(mut rest: &str) -> Result<(String, &str), &'static str> {
    let mut cell = String::new();
    loop {
        let (part, after) = rest.split_once('"').ok_or("it has a quote that is not closed")?;
        cell.push_str(part);
        match after.strip_prefix('"') {
            Some(more) => {
                cell.push('"');
                rest = more;
            }
            None => return Ok((cell, after)),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::cells;

    #[test]
    fn cells_are_divided_as_in_any_csv_file() {
        assert_eq!(cells("a,b,,\"c,\"\"d\"\"\",").unwrap(), ["a", "b", "", "c,\"d\"", ""]);
        assert_eq!(cells("").unwrap(), [""]);
        for wrong in ["a\"b", "\"a", "\"a\"b", "a,\"\"\""] {
            assert!(cells(wrong).is_err(), "{wrong}");
        }
    }
}
