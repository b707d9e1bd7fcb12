//! Backups: a SQLite file with everything a ledger has, whichever store it is in.

#![expect(clippy::disallowed_methods, reason = "everything in this crate blocks, and says so")]

use std::{
    ffi::OsString,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use ledgerbook::Tally;

use crate::{Ledger, LedgerError, Scrutiny, SqliteLedger, verify};

/// Writes everything a ledger has, at one moment, to a new file, and checks what was written. When this returns, the
/// file is on the disk; before, nothing has its name.
///
/// # Errors
/// [`LedgerError`]; a file that is there is left as it is.
pub fn backup(ledger: &dyn Ledger, to: &Path) -> Result<Tally, LedgerError> {
    new_file(to, |draft| {
        let copy = SqliteLedger::open(draft, &Scrutiny::Nothing)?;
        copy.fill(&mut *ledger.snapshot()?)?;
        copy.settle()?;
        verify(&mut *copy.snapshot()?, &[])
    })
}

/// Writes everything a backup has into a new ledger, and checks both.
///
/// # Errors
/// [`LedgerError::Damaged`] if the backup is not whole; [`LedgerError::BadSetup`] if the ledger is not empty.
pub fn restore(backup: &Path, into: &dyn Ledger) -> Result<Tally, LedgerError> {
    if !backup.is_file() {
        return Err(LedgerError::BadSetup(format!("there is no backup {}", backup.display())));
    }
    let backup = SqliteLedger::open(backup, &Scrutiny::Everything)?;
    into.fill(&mut *backup.snapshot()?)?;
    verify(&mut *into.snapshot()?, &[])
}

/// Has a file written under another name, and gives it its own when it is whole.
fn new_file<T>(path: &Path, write: impl FnOnce(&Path) -> Result<T, LedgerError>) -> Result<T, LedgerError> {
    let taken = || LedgerError::BadSetup(format!("{} is there already", path.display()));
    if fs::symlink_metadata(path).is_ok() {
        return Err(taken());
    }
    let draft = beside(path, ".partial");
    remove(&draft);
    let written = write(&draft).and_then(|result| publish(&draft, path).map(|()| result).map_err(failed));
    if written.is_err() {
        remove(&draft);
    }
    written
}

/// The file gets its name, unless something has it by now, and both are synced.
fn publish(draft: &Path, path: &Path) -> io::Result<()> {
    File::open(draft)?.sync_all()?;
    fs::hard_link(draft, path)?;
    remove(draft);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

fn failed(error: io::Error) -> LedgerError {
    match error.kind() {
        io::ErrorKind::StorageFull => LedgerError::Full(error.to_string()),
        io::ErrorKind::AlreadyExists => LedgerError::BadSetup(error.to_string()),
        _ => LedgerError::Unavailable(error.to_string()),
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// A draft with its log, if there is one.
fn remove(draft: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(beside(draft, suffix));
    }
}
