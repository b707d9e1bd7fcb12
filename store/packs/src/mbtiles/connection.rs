//! A connection to a database that may be hostile.

use std::{
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use pmtiles::Coord;
use rusqlite::{
    ErrorCode, OpenFlags,
    config::DbConfig,
    hooks::{AuthAction, AuthContext, Authorization},
    limits::Limit,
    types::ValueRef,
};

use crate::{
    error::{MbtilesError, PackError},
    mbtiles::LOOK_UP,
    options::Limits,
};

/// Steps of the database's machine between two looks at how many there were.
const STRIDE: i32 = 1000;

/// How many strides one row may take: some ten milliseconds.
const STRIDES: u32 = 1000;

/// How long one row may take, whatever its steps are: one that compares or copies large values takes milliseconds. Long enough
/// for a disk that has to spin up.
const LONGEST: Duration = Duration::from_secs(20);

/// The functions that a pack may call, which all take as long as their arguments. Others make large values out of nothing.
const FUNCTIONS: [&str; 11] =
    ["abs", "coalesce", "if", "ifnull", "iif", "max", "min", "nullif", "pow", "power", "round"];

/// A connection on which nothing can be written, called or done without end.
#[derive(Debug)]
pub(crate) struct Connection {
    inner: rusqlite::Connection,
    effort: Arc<Effort>,
}

/// What the present row has taken so far.
#[derive(Debug)]
struct Effort {
    strides: AtomicU32,
    opened: Instant,
    /// When the row was begun, in milliseconds since the connection was opened.
    began: AtomicU64,
}

impl Effort {
    fn new() -> Self {
        Self { strides: AtomicU32::new(0), opened: Instant::now(), began: AtomicU64::new(0) }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn begin(&self) {
        self.strides.store(0, Ordering::Relaxed);
        self.began.store(self.now(), Ordering::Relaxed);
    }

    /// Counts a stride; whether the row has taken too much.
    fn is_over(&self) -> bool {
        let took = self.now().saturating_sub(self.began.load(Ordering::Relaxed));
        self.strides.fetch_add(1, Ordering::Relaxed) >= STRIDES || u128::from(took) > LONGEST.as_millis()
    }
}

impl Connection {
    pub(crate) fn open(path: &Path, limits: &Limits) -> Result<Self, MbtilesError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_PRIVATE_CACHE;
        let mut inner = rusqlite::Connection::open_with_flags(uri(path), flags)?;
        let effort = Arc::new(Effort::new());
        let counted = Arc::clone(&effort);
        inner.progress_handler(STRIDE, Some(move || counted.is_over()))?;
        harden(&inner, limits)?;
        Ok(Self { inner, effort })
    }

    /// From now on nothing but reading tables is allowed, and a few functions.
    pub(crate) fn restrict(&mut self) -> Result<(), MbtilesError> {
        Ok(self.inner.authorizer(Some(authorize))?)
    }

    /// The connection, for a query whose every row may take as long as one lookup.
    pub(crate) fn query(&self) -> &rusqlite::Connection {
        self.next_row();
        &self.inner
    }

    /// Another row may take as long again.
    pub(crate) fn next_row(&self) {
        self.effort.begin();
    }

    /// Drops what is cached of the file.
    pub(crate) fn forget(&self) {
        // It frees what it can; there is nothing to do about the rest.
        let _ = self.inner.release_memory();
    }

    /// The first row that the lookup finds.
    pub(crate) fn tile(&self, coord: Coord) -> Result<Option<Vec<u8>>, PackError> {
        self.look_up(coord).map_err(|error| match error.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) => PackError::Slow,
            Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen | ErrorCode::OutOfMemory) => {
                PackError::Io(std::io::Error::other(error.to_string()))
            }
            _ => PackError::Corrupt,
        })
    }

    fn look_up(&self, coord: Coord) -> rusqlite::Result<Option<Vec<u8>>> {
        let mut statement = self.query().prepare_cached(LOOK_UP)?;
        let mut rows = statement.query((coord.z(), coord.x(), coord.tms_row()))?;
        let Some(row) = rows.next()? else { return Ok(None) };
        Ok(match row.get_ref(0)? {
            ValueRef::Blob(tile) => Some(tile.to_vec()),
            _ => None,
        })
    }
}

/// Immutable: no locks, no journals, nothing beside the file is looked at.
fn uri(path: &Path) -> String {
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => uri.push((*byte).into()),
            other => uri.push_str(&format!("%{other:02x}")),
        }
    }
    uri.push_str("?mode=ro&immutable=1");
    uri
}

fn harden(inner: &rusqlite::Connection, limits: &Limits) -> rusqlite::Result<()> {
    for (config, value) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        (DbConfig::SQLITE_DBCONFIG_DQS_DML, false),
        (DbConfig::SQLITE_DBCONFIG_DQS_DDL, false),
    ] {
        inner.set_db_config(config, value)?;
    }
    // Room for a tile, and for the other columns of its row.
    let longest = limits.pmtiles.metadata_bytes.max(limits.pmtiles.tile_bytes.into()).saturating_add(1 << 16);
    for (limit, value) in [
        (Limit::SQLITE_LIMIT_LENGTH, i32::try_from(longest).unwrap_or(i32::MAX)),
        (Limit::SQLITE_LIMIT_SQL_LENGTH, 100_000),
        (Limit::SQLITE_LIMIT_COLUMN, 100),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, 50),
        (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 5),
        (Limit::SQLITE_LIMIT_VDBE_OP, 25_000),
        (Limit::SQLITE_LIMIT_FUNCTION_ARG, 8),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 50),
        (Limit::SQLITE_LIMIT_VARIABLE_NUMBER, 10),
        (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 0),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    ] {
        inner.set_limit(limit, value)?;
    }
    // No memory maps, no temporary files, no indexes made on the way; 256 KiB of pages, since the
    // system caches them as well.
    inner.execute_batch(
        "PRAGMA query_only = ON; PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0; PRAGMA temp_store = MEMORY;
         PRAGMA automatic_index = OFF; PRAGMA cache_size = -256;",
    )
}

fn authorize(context: AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::Select | AuthAction::Read { .. } => Authorization::Allow,
        AuthAction::Function { function_name }
            if FUNCTIONS.contains(&function_name.to_ascii_lowercase().as_str()) =>
        {
            Authorization::Allow
        }
        _ => Authorization::Deny,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_a_path_whatever_is_in_it() {
        let uri = uri(Path::new("/maps/50% off?mode=rwc#ä.mbtiles"));
        assert_eq!(uri, "file:/maps/50%25%20off%3fmode%3drwc%23%c3%a4.mbtiles?mode=ro&immutable=1");
    }
}
