//! `omnigate cas put`.

#![expect(clippy::disallowed_methods, reason = "a command that reads a file and ends; no runtime is running")]

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use ::cas::{Cas, Committed, WriteError};
use serde_json::json;

use super::progress::Progress;
use crate::{
    commands::{pretty, print},
    failure::Failure,
};

/// The bytes that are read at once.
const PIECE_LEN: usize = 1 << 20;

/// Stores a file, or standard input, and prints its name.
pub(super) fn run(file: &Path, store: &Cas, as_json: bool) -> Result<(), Failure> {
    let shown = if is_stdin(file) { "standard input".into() } else { file.display().to_string() };
    let unreadable = |error: io::Error| Failure::failed(format!("cannot read {shown}: {error}"));
    let unwritable = |error: WriteError| Failure::failed(format!("cannot store {shown}: {error}"));
    let (mut input, total) = open(file).map_err(unreadable)?;
    let mut writer = store.begin().map_err(unwritable)?;
    let mut progress = Progress::new("stored", total);
    let mut piece = vec![0; PIECE_LEN];
    loop {
        match input.read(&mut piece) {
            Ok(0) => break,
            Ok(filled) => writer.write(&piece[..filled]).map_err(unwritable)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(unreadable(error)),
        }
        progress.set(writer.len());
    }
    let committed = writer.commit().map_err(unwritable)?;
    drop(progress);
    print(&told(&committed, as_json))
}

fn is_stdin(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// What to read, and how long it is, or 0 if there is no telling.
fn open(file: &Path) -> io::Result<(Box<dyn Read>, u64)> {
    if is_stdin(file) {
        return Ok((Box::new(io::stdin().lock()), 0));
    }
    let file = File::open(file)?;
    let metadata = file.metadata()?;
    Ok((Box::new(file), if metadata.is_file() { metadata.len() } else { 0 }))
}

fn told(committed: &Committed, as_json: bool) -> String {
    let Committed { id, len, is_new, evicted } = committed;
    if as_json {
        pretty(&json!({ "id": id, "len": len, "new": is_new, "evicted": evicted }))
    } else {
        format!("{id}\n")
    }
}
