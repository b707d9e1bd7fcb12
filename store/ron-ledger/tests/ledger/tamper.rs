//! Tampering: what is stored is what was written, or it is found.

use std::path::Path;

use ron_ledger::{Ledger, LedgerError, NodeKey, Scrutiny, Signer, SqliteLedger, Step, checkpoint, verify};
use rusqlite::{Connection, types::Value};

use crate::support::{Chance, Place, batch, funded, hold, pay, seed, size};

/// Requests, holds, checkpoints: something of everything.
fn fill(place: &Place) {
    let ledger = funded(place);
    let key = NodeKey::from_seed(&[7; 32]).unwrap();
    for turn in 0..40_u64 {
        let steps = vec![pay("pool", "ada", 3), hold("pool", "bob", 4), pay("ada", "bob", 1)];
        let receipt = ledger.post(&batch(&format!("turn/{turn}"), steps)).unwrap().receipt;
        let close = [Step::Settle, Step::Void][usize::try_from(turn % 2).unwrap()](receipt.first_entry + 1);
        ledger.post(&batch(&format!("close/{turn}"), vec![close])).unwrap();
        if turn % 15 == 7 {
            checkpoint(&*ledger, &key).unwrap();
        }
    }
}

/// Every value of every table.
fn dump(path: &Path) -> Vec<Vec<Value>> {
    let sql = Connection::open(path).unwrap();
    let mut rows = Vec::new();
    for (table, order) in [
        ("accounts", "number"),
        ("requests", "number"),
        ("entries", "number"),
        ("links", "number"),
        ("checkpoints", "link, key"),
    ] {
        let mut statement = sql.prepare(&format!("SELECT * FROM {table} ORDER BY {order}")).unwrap();
        let columns = statement.column_count();
        let row = |row: &rusqlite::Row<'_>| (0..columns).map(|column| row.get(column)).collect();
        rows.extend(statement.query_map((), row).unwrap().map(|row| row.unwrap()));
    }
    rows
}

#[test]
fn a_flipped_bit_is_found_or_changes_no_value() {
    let place = Place::file();
    fill(&place);
    let (whole, right) = (std::fs::read(place.path()).unwrap(), dump(&place.path()));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flipped.db");
    let mut chance = Chance(seed());
    let (mut found, mut harmless) = (0, 0);
    let flips = size(300, 20_000);
    for _ in 0..flips {
        let bit = chance.below(whole.len() as u64 * 8);
        let mut bytes = whole.clone();
        bytes[usize::try_from(bit / 8).unwrap()] ^= 1 << (bit % 8);
        for suffix in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{suffix}", path.display()));
        }
        std::fs::write(&path, &bytes).unwrap();
        let opened = SqliteLedger::open(&path, &Scrutiny::Everything).map(drop);
        // Opened without a look, it is found by whoever verifies.
        let verified = SqliteLedger::open(&path, &Scrutiny::Nothing)
            .and_then(|ledger| verify(&mut *ledger.snapshot()?, &[]).map(drop));
        assert_eq!(opened.is_ok(), verified.is_ok(), "bit {bit}: {opened:?}, {verified:?}");
        match opened {
            Ok(()) => {
                assert_eq!(dump(&path), right, "bit {bit}");
                harmless += 1;
            }
            Err(_) => found += 1,
        }
    }
    println!("{flips} flips of single bits: {found} found, {harmless} changed no value");
    assert!(found > flips / 5, "much of the file is values");
}

/// Statements that change what is stored, as somebody would who can write to the tables.
const EDITS: [&str; 19] = [
    "UPDATE accounts SET balance = '701' WHERE name = 'pool'",
    "UPDATE accounts SET held = '1' WHERE name = 'ada'",
    "UPDATE accounts SET overdraft = NULL WHERE name = 'ada'",
    "UPDATE accounts SET overdraft = '5' WHERE name = 'ada'",
    "UPDATE accounts SET name = 'adb' WHERE name = 'ada'",
    "UPDATE accounts SET opened = 1 WHERE name = 'ada'",
    "UPDATE entries SET amount = '301' WHERE number = 6",
    "UPDATE entries SET target = 4 WHERE number = 6",
    "UPDATE entries SET kind = 1 WHERE number = 7",
    "UPDATE requests SET key = 'turn/x' WHERE number = 2",
    "UPDATE requests SET at = at + 1 WHERE number = 2",
    "UPDATE requests SET reference = 'another' WHERE number = 2",
    "UPDATE requests SET entries = entries + 1 WHERE number = 2",
    "DELETE FROM requests WHERE number = 81",
    "DELETE FROM entries WHERE number = 6",
    "DELETE FROM links WHERE number = 81",
    "DELETE FROM links WHERE number = 3",
    "DELETE FROM accounts WHERE name = 'issuer'",
    "INSERT INTO entries (number, request, kind, source, target, amount) VALUES (9999, 81, 1, 2, 3, '5')",
];

/// All of them, both by a whole audit and by one that begins at the last checkpoint unless it lies before.
fn edits_are_found(place: &Place, edit: impl Fn(&str)) {
    let refused = |scrutiny: &Scrutiny| match place.try_open(scrutiny) {
        Err(LedgerError::Damaged(_)) => true,
        Err(other) => panic!("{other}"),
        Ok(_) => false,
    };
    for statement in EDITS {
        edit(statement);
        assert!(refused(&Scrutiny::Everything), "{statement}");
        if statement.contains("accounts") || statement.contains("number = 81") {
            let key = NodeKey::from_seed(&[7; 32]).unwrap().public_key();
            assert!(refused(&Scrutiny::SinceCheckpoint(vec![key])), "{statement}");
        }
        edit("");
    }
    assert!(!refused(&Scrutiny::Everything), "as it was");
}

#[test]
fn edits_of_a_file_are_found() {
    let place = Place::file();
    fill(&place);
    let whole = std::fs::read(place.path()).unwrap();
    edits_are_found(&place, |statement| match statement {
        "" => std::fs::write(place.path(), &whole).unwrap(),
        _ => Connection::open(place.path()).unwrap().execute_batch(statement).unwrap(),
    });
}

#[cfg(feature = "postgres")]
#[test]
fn edits_on_a_server_are_found() {
    let place = Place::server();
    fill(&place);
    let Place::Server(database) = &place else { panic!("not a server") };
    let mut client = database.connect();
    client.batch_execute("CREATE SCHEMA kept").unwrap();
    let tables = ["accounts", "requests", "entries", "links", "checkpoints"];
    for table in tables {
        let keep = format!("CREATE TABLE kept.{table} AS SELECT * FROM omnigate_ledger.{table}");
        client.batch_execute(&keep).unwrap();
    }
    edits_are_found(&place, |statement| {
        let mut client = database.connect();
        let sql = match statement {
            "" => {
                let put_back = |table: &&str| {
                    format!("DELETE FROM {table}; INSERT INTO {table} SELECT * FROM kept.{table};")
                };
                tables.iter().map(put_back).collect()
            }
            _ => statement.replace("'301'", "301").replace("'5'", "5"),
        };
        client.batch_execute("SET search_path = omnigate_ledger").unwrap();
        client.batch_execute(&sql).unwrap();
    });
}
