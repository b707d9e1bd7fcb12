//! What is known of URLs: which object each led to, and how long that may be believed. In SQLite, for one owner.
//!
//! **In what order things are written.** A row is put after its object is committed, which survives a crash by itself.
//! So every row that a crash leaves has a whole object behind it, or one that has been evicted since and is simply
//! fetched again. Because of that, losing the last rows costs no more than fetching again, and the file is synced when
//! its log is folded in, not with every row (WAL, `synchronous = NORMAL`): killing the process loses nothing, a power
//! cut at most the last rows, and neither damages the file.
//!
//! **What a flipped bit does.** A row that was changed on disk could send one URL to the object of another, whose bytes
//! would then be verified and wrong. So every row carries a hash of what it says, and one that does not match is
//! dropped when it is loaded; a file that SQLite finds damaged is started again.

mod row;
mod schema;

use std::path::Path;

use rusqlite::{Connection, ErrorCode, Transaction, params};
use types::ObjectId;

pub use row::UrlRow;

/// Why the index could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The file is damaged. Opened again, it is started again.
    #[error("the index of URLs is damaged: {0}")]
    Damaged(String),
    /// The disk is full, or cannot be written to.
    #[error("the index of URLs cannot be written: {0}")]
    Unwritable(String),
    /// The system or SQLite refused.
    #[error("the index of URLs cannot be used: {0}")]
    Failed(String),
    /// A row has more in it than is kept.
    #[error("one URL has too much data to store: more than {} bytes", UrlRow::MAX_TEXT)]
    TooLong,
}

impl From<rusqlite::Error> for IndexError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged(error.to_string()),
            Some(ErrorCode::DiskFull | ErrorCode::ReadOnly | ErrorCode::SystemIoFailure) => {
                Self::Unwritable(error.to_string())
            }
            _ => Self::Failed(error.to_string()),
        }
    }
}

/// The state of the index when it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// There was no index; a new one was created.
    New,
    /// The index is intact.
    Kept,
    /// It could not be used and was started again.
    Replaced {
        /// The reason why the old index was dropped.
        why: String,
    },
}

/// A change of the index. Several are made at once with [`UrlIndex::apply`].
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// What is known of a URL now, instead of what was.
    Put(&'a UrlRow),
    /// Nothing is known of the URL any more.
    Remove(&'a str),
    /// Nothing is known of the URLs that led to this object.
    RemoveObject(ObjectId),
    /// The URL was asked for, in seconds of Unix time.
    Touch {
        /// The URL of the object.
        url: &'a str,
        /// The time of use, in Unix seconds.
        at: u64,
    },
}

/// The index, which has one owner. Everything blocks.
#[derive(Debug)]
pub struct UrlIndex {
    connection: Connection,
}

impl UrlIndex {
    /// The index in a file, made if it is not there, and started again if it is damaged: it can be.
    ///
    /// # Errors
    /// [`IndexError::Failed`] if the file cannot be used.
    pub fn open(path: &Path) -> Result<(Self, Start), IndexError> {
        let (connection, start) = schema::open(path)?;
        Ok((Self { connection }, start))
    }

    /// The index in a file as it was when its log was last folded in, only to be read: whatever is put fails. For a disk that
    /// is full.
    ///
    /// # Errors
    /// [`IndexError`] if there is none, or none of this version.
    pub fn open_unchanging(path: &Path) -> Result<Self, IndexError> {
        Ok(Self { connection: schema::open_unchanging(path)? })
    }

    /// An index in memory, which writes nothing and ends with the process.
    ///
    /// # Errors
    /// [`IndexError::Failed`] if there is no memory.
    pub fn in_memory() -> Result<Self, IndexError> {
        Ok(Self { connection: schema::open_in_memory()? })
    }

    /// At most `max` rows, those used last first. Rows that are not what was put are dropped, here and in the file.
    ///
    /// # Errors
    /// [`IndexError`].
    pub fn load(&mut self, max: usize) -> Result<Vec<UrlRow>, IndexError> {
        let (mut rows, mut wrong) = (Vec::new(), Vec::new());
        {
            let mut statement = self.connection.prepare(row::SELECT)?;
            let mut found = statement.query([max as u64])?;
            while let Some(sql) = found.next()? {
                match UrlRow::from_sql(sql) {
                    Ok(row) => rows.push(row),
                    Err(_) => wrong.push(sql.get::<_, i64>("id")?),
                }
            }
        }
        let transaction = self.connection.transaction()?;
        for id in wrong {
            transaction.execute("DELETE FROM urls WHERE id = ?", [id])?;
        }
        transaction.commit()?;
        Ok(rows)
    }

    /// Makes changes, all or none of them.
    ///
    /// # Errors
    /// [`IndexError`]; nothing is changed then.
    pub fn apply(&mut self, changes: &[Change<'_>]) -> Result<(), IndexError> {
        let transaction = self.connection.transaction()?;
        changes.iter().try_for_each(|change| apply(&transaction, *change))?;
        Ok(transaction.commit()?)
    }

    /// [`Change::Put`].
    ///
    /// # Errors
    /// [`IndexError`].
    pub fn put(&mut self, row: &UrlRow) -> Result<(), IndexError> {
        self.apply(&[Change::Put(row)])
    }

    /// [`Change::Remove`].
    ///
    /// # Errors
    /// [`IndexError`].
    pub fn remove(&mut self, url: &str) -> Result<(), IndexError> {
        self.apply(&[Change::Remove(url)])
    }

    /// [`Change::RemoveObject`].
    ///
    /// # Errors
    /// [`IndexError`].
    pub fn remove_object(&mut self, id: ObjectId) -> Result<(), IndexError> {
        self.apply(&[Change::RemoveObject(id)])
    }

    /// [`Change::Touch`].
    ///
    /// # Errors
    /// [`IndexError`].
    pub fn touch(&mut self, url: &str, at: u64) -> Result<(), IndexError> {
        self.apply(&[Change::Touch { url, at }])
    }

    /// Drops all rows but the `keep` that were used last; says how many.
    ///
    /// # Errors
    /// [`IndexError`].
    pub fn prune(&mut self, keep: usize) -> Result<usize, IndexError> {
        const SQL: &str = "DELETE FROM urls WHERE id IN
            (SELECT id FROM urls ORDER BY used DESC, id DESC LIMIT -1 OFFSET ?)";
        Ok(self.connection.execute(SQL, [keep as u64])?)
    }

    /// The number of rows.
    ///
    /// # Errors
    /// [`IndexError`].
    pub fn count(&self) -> Result<u64, IndexError> {
        Ok(self.connection.query_row("SELECT count(*) FROM urls", (), |row| row.get(0))?)
    }
}

fn apply(transaction: &Transaction<'_>, change: Change<'_>) -> Result<(), IndexError> {
    match change {
        Change::Put(row) => row.put(transaction)?,
        Change::Remove(url) => drop(transaction.execute("DELETE FROM urls WHERE url = ?", [url])?),
        Change::RemoveObject(id) => {
            transaction.execute("DELETE FROM urls WHERE object = ?", [id.as_bytes()])?;
        }
        Change::Touch { url, at } => {
            transaction.execute("UPDATE urls SET used = max(used, ?) WHERE url = ?", params![at, url])?;
        }
    }
    Ok(())
}
