//! Rows out of SQLite.

use ledgerbook::{Account, AccountId, Checkpoint, Entry, Hold, Key, Link, Request};
use rusqlite::{Connection, Params, Row};

use super::failed;
use crate::{
    LedgerError,
    rows::{AccountRow, CheckpointRow, EntryRow, HOLD, LinkRow, RequestRow},
};

const ACCOUNTS: &str = "SELECT number, name, asset, overdraft, balance, held, opened FROM accounts";
const REQUESTS: &str = "SELECT number, key, body, reference, at, first_entry, entries FROM requests";
const ENTRIES: &str =
    "SELECT e.number, e.request, e.kind, s.name, t.name, e.amount, e.hold, t.asset, t.overdraft,
    (e.source IS NOT NULL) AND (s.name IS NULL)
    FROM entries e LEFT JOIN accounts s ON s.number = e.source LEFT JOIN accounts t ON t.number = e.target";
const LINKS: &str = "SELECT number, accounts, requests, entries, root, hash FROM links";
/// A checkpoint whose link is gone must not be gone with it.
const CHECKPOINTS: &str =
    "SELECT c.link, coalesce(l.accounts, -1), coalesce(l.requests, -1), coalesce(l.entries, -1),
    coalesce(l.root, x''), coalesce(l.hash, x''), c.state, c.key, c.signature
    FROM checkpoints c LEFT JOIN links l ON l.number = c.link";

pub(super) fn account(connection: &Connection, id: &AccountId) -> Result<Option<Account>, LedgerError> {
    Ok(accounts_named(connection, &[id])?.pop())
}

/// The accounts among these names.
pub(super) fn accounts_named(
    connection: &Connection,
    ids: &[&AccountId],
) -> Result<Vec<Account>, LedgerError> {
    let sql = with(ACCOUNTS, "WHERE name = ?");
    let mut statement = connection.prepare_cached(&sql).map_err(failed)?;
    let mut accounts = Vec::with_capacity(ids.len());
    for id in ids {
        let mut rows = statement.query([id.as_str()]).map_err(failed)?;
        if let Some(row) = rows.next().map_err(failed)? {
            accounts.push(account_row(row).map_err(failed)?.read()?);
        }
    }
    Ok(accounts)
}

pub(super) fn request(connection: &Connection, key: &Key) -> Result<Option<Request>, LedgerError> {
    let sql = with(REQUESTS, "WHERE key = ?");
    let rows = query(connection, &sql, [key.as_str()], request_row)?;
    Ok(rows.into_iter().next().map(RequestRow::read).transpose()?)
}

/// The entry of this number, if it is a hold.
pub(super) fn hold(connection: &Connection, number: u64) -> Result<Option<Hold>, LedgerError> {
    let sql = with(ENTRIES, "WHERE e.number = ? AND e.kind = ?");
    let hold = i64::try_from(number).unwrap_or(-1);
    let rows = query(connection, &sql, [hold, HOLD], entry_row)?;
    let Some(entry) = rows.into_iter().next().map(EntryRow::read).transpose()? else {
        return Ok(None);
    };
    let closed: i64 = connection
        .prepare_cached("SELECT count(*) FROM entries WHERE hold = ?")
        .and_then(|mut statement| statement.query_row([hold], |row| row.get(0)))
        .map_err(failed)?;
    Ok(entry.kind.transfer().map(|transfer| Hold { transfer: transfer.clone(), closed: closed > 0 }))
}

pub(super) fn head(connection: &Connection) -> Result<Link, LedgerError> {
    let sql = with(LINKS, "ORDER BY number DESC LIMIT 1");
    let rows = query(connection, &sql, (), link_row)?;
    Ok(rows.into_iter().next().map_or(Ok(Link::GENESIS), LinkRow::read)?)
}

pub(super) fn accounts(connection: &Connection, after: u64, limit: u32) -> Result<Vec<Account>, LedgerError> {
    let sql = with(ACCOUNTS, "WHERE number > ? ORDER BY number LIMIT ?");
    let rows = query(connection, &sql, (after, limit), account_row)?;
    Ok(rows.into_iter().map(AccountRow::read).collect::<Result<_, _>>()?)
}

pub(super) fn requests(connection: &Connection, after: u64, limit: u32) -> Result<Vec<Request>, LedgerError> {
    let sql = with(REQUESTS, "WHERE number > ? ORDER BY number LIMIT ?");
    let rows = query(connection, &sql, (after, limit), request_row)?;
    Ok(rows.into_iter().map(RequestRow::read).collect::<Result<_, _>>()?)
}

pub(super) fn entries(connection: &Connection, after: u64, limit: u32) -> Result<Vec<Entry>, LedgerError> {
    let sql = with(ENTRIES, "WHERE e.number > ? ORDER BY e.number LIMIT ?");
    let rows = query(connection, &sql, (after, limit), entry_row)?;
    Ok(rows.into_iter().map(EntryRow::read).collect::<Result<_, _>>()?)
}

pub(super) fn links(connection: &Connection, after: u64, limit: u32) -> Result<Vec<Link>, LedgerError> {
    let sql = with(LINKS, "WHERE number > ? ORDER BY number LIMIT ?");
    let rows = query(connection, &sql, (after, limit), link_row)?;
    Ok(rows.into_iter().map(LinkRow::read).collect::<Result<_, _>>()?)
}

pub(super) fn checkpoints(
    connection: &Connection,
    skip: u64,
    limit: u32,
) -> Result<Vec<Checkpoint>, LedgerError> {
    let sql = with(CHECKPOINTS, "ORDER BY c.link, c.key LIMIT ?2 OFFSET ?1");
    let rows = query(connection, &sql, (skip, limit), checkpoint_row)?;
    Ok(rows.into_iter().map(CheckpointRow::read).collect::<Result<_, _>>()?)
}

fn with(select: &str, rest: &str) -> String {
    format!("{select} {rest}")
}

fn query<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: fn(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, LedgerError> {
    let mut statement = connection.prepare_cached(sql).map_err(failed)?;
    statement.query_map(params, read).and_then(Iterator::collect).map_err(failed)
}

fn account_row(row: &Row<'_>) -> rusqlite::Result<AccountRow> {
    Ok(AccountRow {
        number: row.get(0)?,
        name: row.get(1)?,
        asset: row.get(2)?,
        overdraft: row.get(3)?,
        balance: row.get(4)?,
        held: row.get(5)?,
        opened: row.get(6)?,
    })
}

fn request_row(row: &Row<'_>) -> rusqlite::Result<RequestRow> {
    Ok(RequestRow {
        number: row.get(0)?,
        key: row.get(1)?,
        body: row.get(2)?,
        reference: row.get(3)?,
        at: row.get(4)?,
        first_entry: row.get(5)?,
        entries: row.get(6)?,
    })
}

fn entry_row(row: &Row<'_>) -> rusqlite::Result<EntryRow> {
    // A source that names no account is not the same as none.
    let lost: bool = row.get(9)?;
    let source = if lost { Some(String::new()) } else { row.get(3)? };
    Ok(EntryRow {
        number: row.get(0)?,
        request: row.get(1)?,
        kind: row.get(2)?,
        source,
        target: row.get(4)?,
        amount: row.get(5)?,
        hold: row.get(6)?,
        asset: row.get(7)?,
        overdraft: row.get(8)?,
    })
}

fn link_row(row: &Row<'_>) -> rusqlite::Result<LinkRow> {
    Ok(LinkRow {
        number: row.get(0)?,
        accounts: row.get(1)?,
        requests: row.get(2)?,
        entries: row.get(3)?,
        root: row.get(4)?,
        hash: row.get(5)?,
    })
}

fn checkpoint_row(row: &Row<'_>) -> rusqlite::Result<CheckpointRow> {
    Ok(CheckpointRow { link: link_row(row)?, state: row.get(6)?, key: row.get(7)?, signature: row.get(8)? })
}
