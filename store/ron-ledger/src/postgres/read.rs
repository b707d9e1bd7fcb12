//! Rows out of PostgreSQL.

use ledgerbook::{Account, AccountId, Checkpoint, Entry, Hold, Key, Link, Request};
use postgres::Row;

use super::connection::Connection;
use crate::{
    LedgerError,
    rows::{AccountRow, CheckpointRow, EntryRow, HOLD, LinkRow, RequestRow},
};

const ACCOUNTS: &str =
    "SELECT number, name, asset, overdraft::text, balance::text, held::text, opened FROM accounts";
const REQUESTS: &str = "SELECT number, key, body, reference, at, first_entry, entries FROM requests";
const ENTRIES: &str = "SELECT e.number, e.request, e.kind, s.name, t.name, e.amount::text, e.hold, t.asset,
    t.overdraft::text, (e.source IS NOT NULL) AND (s.name IS NULL)
    FROM entries e LEFT JOIN accounts s ON s.number = e.source LEFT JOIN accounts t ON t.number = e.target";
const LINKS: &str = "SELECT number, accounts, requests, entries, root, hash FROM links";
/// A checkpoint whose link is gone must not be gone with it.
const CHECKPOINTS: &str =
    "SELECT c.link, coalesce(l.accounts, -1), coalesce(l.requests, -1), coalesce(l.entries, -1),
    coalesce(l.root, ''), coalesce(l.hash, ''), c.state, c.key, c.signature
    FROM checkpoints c LEFT JOIN links l ON l.number = c.link";

/// The accounts among these names, in order of their names; `lock` is `FOR UPDATE` or nothing.
pub(super) fn accounts_named(
    connection: &mut Connection,
    ids: &[&AccountId],
    lock: &str,
) -> Result<Vec<Account>, LedgerError> {
    let names: Vec<&str> = ids.iter().map(|id| id.as_str()).collect();
    let sql = format!("{ACCOUNTS} WHERE name = ANY($1) ORDER BY name {lock}");
    connection.query(&sql, &[&names])?.iter().map(account).collect()
}

pub(super) fn requests_keyed(
    connection: &mut Connection,
    keys: &[&Key],
) -> Result<Vec<Request>, LedgerError> {
    let keys: Vec<&str> = keys.iter().map(|key| key.as_str()).collect();
    let sql = format!("{REQUESTS} WHERE key = ANY($1)");
    connection.query(&sql, &[&keys])?.iter().map(request).collect()
}

/// The holds among these entries.
pub(super) fn holds(connection: &mut Connection, entries: &[u64]) -> Result<Vec<(u64, Hold)>, LedgerError> {
    const CLOSED: &str = "SELECT hold FROM entries WHERE hold = ANY($1)";
    let numbers: Vec<i64> = entries.iter().copied().map(signed).collect();
    let sql = format!("{ENTRIES} WHERE e.number = ANY($1) AND e.kind = {HOLD}");
    let found: Vec<Entry> =
        connection.query(&sql, &[&numbers])?.iter().map(entry).collect::<Result<_, _>>()?;
    let closed: Vec<i64> = connection.query(CLOSED, &[&numbers])?.iter().map(|row| row.get(0)).collect();
    let hold = |entry: Entry| {
        let transfer = entry.kind.transfer()?.clone();
        Some((entry.number, Hold { transfer, closed: closed.contains(&signed(entry.number)) }))
    };
    Ok(found.into_iter().filter_map(hold).collect())
}

pub(super) fn head(connection: &mut Connection) -> Result<Link, LedgerError> {
    let rows = connection.query(&format!("{LINKS} ORDER BY number DESC LIMIT 1"), &[])?;
    rows.first().map_or(Ok(Link::GENESIS), link)
}

pub(super) fn accounts(
    connection: &mut Connection,
    after: u64,
    limit: u32,
) -> Result<Vec<Account>, LedgerError> {
    page(connection, &format!("{ACCOUNTS} WHERE number > $1 ORDER BY number LIMIT $2"), after, limit, account)
}

pub(super) fn requests(
    connection: &mut Connection,
    after: u64,
    limit: u32,
) -> Result<Vec<Request>, LedgerError> {
    page(connection, &format!("{REQUESTS} WHERE number > $1 ORDER BY number LIMIT $2"), after, limit, request)
}

pub(super) fn entries(
    connection: &mut Connection,
    after: u64,
    limit: u32,
) -> Result<Vec<Entry>, LedgerError> {
    page(
        connection,
        &format!("{ENTRIES} WHERE e.number > $1 ORDER BY e.number LIMIT $2"),
        after,
        limit,
        entry,
    )
}

pub(super) fn links(connection: &mut Connection, after: u64, limit: u32) -> Result<Vec<Link>, LedgerError> {
    page(connection, &format!("{LINKS} WHERE number > $1 ORDER BY number LIMIT $2"), after, limit, link)
}

pub(super) fn checkpoints(
    connection: &mut Connection,
    skip: u64,
    limit: u32,
) -> Result<Vec<Checkpoint>, LedgerError> {
    let sql = format!("{CHECKPOINTS} ORDER BY c.link, c.key OFFSET $1 LIMIT $2");
    page(connection, &sql, skip, limit, checkpoint)
}

/// Numbers are counted from 1 and stay far below what a `bigint` holds; what callers make up may not.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn page<T>(
    connection: &mut Connection,
    sql: &str,
    after: u64,
    limit: u32,
    read: fn(&Row) -> Result<T, LedgerError>,
) -> Result<Vec<T>, LedgerError> {
    connection.query(sql, &[&signed(after), &i64::from(limit)])?.iter().map(read).collect()
}

fn account(row: &Row) -> Result<Account, LedgerError> {
    let row = AccountRow {
        number: row.get(0),
        name: row.get(1),
        asset: row.get(2),
        overdraft: row.get(3),
        balance: row.get(4),
        held: row.get(5),
        opened: row.get(6),
    };
    Ok(row.read()?)
}

fn request(row: &Row) -> Result<Request, LedgerError> {
    let row = RequestRow {
        number: row.get(0),
        key: row.get(1),
        body: row.get(2),
        reference: row.get(3),
        at: row.get(4),
        first_entry: row.get(5),
        entries: row.get(6),
    };
    Ok(row.read()?)
}

fn entry(row: &Row) -> Result<Entry, LedgerError> {
    // A source that names no account is not the same as none.
    let lost: bool = row.get(9);
    let row = EntryRow {
        number: row.get(0),
        request: row.get(1),
        kind: row.get(2),
        source: if lost { Some(String::new()) } else { row.get(3) },
        target: row.get(4),
        amount: row.get(5),
        hold: row.get(6),
        asset: row.get(7),
        overdraft: row.get(8),
    };
    Ok(row.read()?)
}

fn link(row: &Row) -> Result<Link, LedgerError> {
    Ok(link_row(row).read()?)
}

fn link_row(row: &Row) -> LinkRow {
    LinkRow {
        number: row.get(0),
        accounts: row.get(1),
        requests: row.get(2),
        entries: row.get(3),
        root: row.get(4),
        hash: row.get(5),
    }
}

fn checkpoint(row: &Row) -> Result<Checkpoint, LedgerError> {
    let row =
        CheckpointRow { link: link_row(row), state: row.get(6), key: row.get(7), signature: row.get(8) };
    Ok(row.read()?)
}
