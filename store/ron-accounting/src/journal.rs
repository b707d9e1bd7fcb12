//! Usage as it is written down: cumulative units per epoch, process, actor and metric, in SQLite. Blocking.
//!
//! Every process ("boot") writes rows of its own and overwrites only those, with what it has counted so far. So a process
//! that is killed has lost what it counted since its last write, about a second, and nothing is counted twice when its
//! successor begins at zero: the seal adds up the boots.

mod quarantine;
mod schema;

use std::{cell::Cell, path::Path, time::Duration};

use rewards::SnapshotSeal;
use rusqlite::{Connection, ErrorCode, OptionalExtension, TransactionBehavior, params};
use types::{ActorId, ObjectId};

use crate::{Page, Sealed};
pub use quarantine::{Corrected, Quarantined};

/// Why usage could not be written down or read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// SQLite or the system refused.
    #[error("the usage journal cannot be used: {0}")]
    Failed(String),
    /// The file is damaged.
    #[error(
        "the usage journal is damaged: {0}; restore it from a backup, or move it away and lose what is not sealed"
    )]
    Damaged(String),
    /// The file belongs to epochs of another length.
    #[error(
        "the usage journal has epochs of {was:?}, not {asked:?}: their numbers would mean other times; set \
         `rewarder.epoch_duration` back, or start with another `node.data_dir`"
    )]
    OtherEpochs {
        /// The length it was begun with.
        was: Duration,
        /// The length asked for.
        asked: Duration,
    },
    /// A sum does not fit.
    #[error("more was used in epoch {epoch} than can be counted")]
    Overflow {
        /// The number of the epoch.
        epoch: u64,
    },
}

impl From<rusqlite::Error> for JournalError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged(error.to_string()),
            _ => Self::Failed(error.to_string()),
        }
    }
}

/// One process's name among those that write to a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BootId([u8; 16]);

impl BootId {
    /// The name under which the same process goes on after its clock was corrected.
    #[must_use]
    pub(crate) fn after_correction(self) -> Self {
        Self(u128::from_be_bytes(self.0).wrapping_add(1).to_be_bytes())
    }

    /// The name made of these random bytes.
    #[must_use]
    pub const fn new(random: [u8; 16]) -> Self {
        Self(random)
    }
}

/// What was used by whom in an epoch, by all boots: in the order of actors and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    /// The actor that the usage is counted for.
    pub actor: ActorId,
    /// The metric that was counted.
    pub metric: String,
    /// Number of units.
    pub units: u128,
}

/// The journal of one node.
#[derive(Debug)]
pub struct Journal {
    connection: Connection,
    /// Every epoch before this one in which something was used is sealed.
    first_unsealed: Cell<u64>,
    /// What SQLite says when that was found; another process has written since if it says something else.
    data_version: Cell<i64>,
}

/// As many epochs before the present one are looked at again and again: another process may still write to them.
const RECENT: u64 = 2;

impl Journal {
    /// The journal in a file, made if it is not there, of epochs of this length.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn open(path: &Path, epoch_duration: Duration) -> Result<Self, JournalError> {
        Ok(Self::on(schema::prepare(Connection::open(path)?, epoch_duration)?))
    }

    /// A journal that ends with the process and writes nothing.
    ///
    /// # Errors
    /// [`JournalError::Failed`] if there is no memory for it.
    pub fn in_memory(epoch_duration: Duration) -> Result<Self, JournalError> {
        Ok(Self::on(schema::prepare(Connection::open_in_memory()?, epoch_duration)?))
    }

    fn on(connection: Connection) -> Self {
        Self { connection, first_unsealed: Cell::new(0), data_version: Cell::new(0) }
    }

    /// The latest epoch that anything was written of; no later process begins before it.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn last_epoch(&self) -> Result<u64, JournalError> {
        Ok(schema::number(&self.connection, "last_epoch")?.unwrap_or(0))
    }

    /// Writes down what a boot has counted; durable when this returns. Says how many rows came after their epoch was
    /// sealed, and were quarantined.
    ///
    /// # Errors
    /// [`JournalError`]; nothing is written then.
    pub fn book(&mut self, boot: BootId, pages: &[Page]) -> Result<u64, JournalError> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut late = 0;
        for page in pages {
            self.first_unsealed.set(self.first_unsealed.get().min(page.epoch));
            if document(&transaction, page.epoch)?.is_some() {
                late += page.units.len() as u64;
                quarantine::late(&transaction, boot, page)?;
                continue;
            }
            let mut put = transaction.prepare_cached(
                "INSERT INTO usage (epoch, actor, metric, boot, units) VALUES (?, ?, ?, ?, ?)
                 ON CONFLICT DO UPDATE SET units = max(units, excluded.units)",
            )?;
            for (actor, metric, units) in &page.units {
                // More than that in one process and epoch no meter can have counted in earnest.
                let units = i64::try_from(*units).unwrap_or(i64::MAX);
                put.execute(params![page.epoch, actor.as_str(), metric, boot.0, units])?;
            }
        }
        if let Some(last) = pages.iter().map(|page| page.epoch).max() {
            schema::raise(&transaction, "last_epoch", last)?;
        }
        transaction.commit()?;
        Ok(late)
    }

    /// Epochs before `present` in which something was used and that are not sealed, the oldest first; 64 at most.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn unsealed(&self, present: u64) -> Result<Vec<u64>, JournalError> {
        // One step down the key for each epoch, and none for those that are known to be sealed: this is asked every second,
        // and a journal may have the usage of years.
        let mut find = self
            .connection
            .prepare_cached("SELECT min(epoch) FROM usage WHERE epoch >= ?1 AND epoch < ?2")?;
        let version = self.connection.pragma_query_value(None, "data_version", |row| row.get(0))?;
        if self.data_version.replace(version) != version {
            self.first_unsealed.set(0);
        }
        let (mut found, mut first) = (Vec::new(), self.first_unsealed.get());
        while found.len() < 64 {
            let next = find.query_row([first, present], |row| row.get::<_, Option<i64>>(0))?;
            let Some(epoch) = next.map(i64::unsigned_abs) else { break };
            if document(&self.connection, epoch)?.is_none() {
                found.push(epoch);
            }
            first = epoch + 1;
        }
        let recent = present.saturating_sub(RECENT);
        self.first_unsealed.set(found.first().map_or(recent, |epoch| recent.min(*epoch)));
        Ok(found)
    }

    /// The latest epochs that anything is written of, sealed or not, the latest first; so many at most.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn latest(&self, limit: u32) -> Result<Vec<u64>, JournalError> {
        // One step down the key for each, rather than through all of its rows.
        let mut find = self.connection.prepare_cached("SELECT max(epoch) FROM usage WHERE epoch < ?")?;
        let (mut found, mut before) = (Vec::new(), i64::MAX);
        for _ in 0..limit {
            let Some(epoch) = find.query_row([before], |row| row.get::<_, Option<i64>>(0))? else { break };
            found.push(epoch.unsigned_abs());
            before = epoch;
        }
        Ok(found)
    }

    /// What was used in an epoch, by all boots together.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn used(&self, epoch: u64) -> Result<Vec<Used>, JournalError> {
        let mut find = self.connection.prepare_cached(
            "SELECT actor, metric, units FROM usage WHERE epoch = ? ORDER BY actor, metric, boot",
        )?;
        let mut rows = find.query([epoch])?;
        let mut all: Vec<Used> = Vec::new();
        while let Some(row) = rows.next()? {
            let (name, metric): (String, String) = (row.get(0)?, row.get(1)?);
            let units = u128::from(row.get::<_, u64>(2)?);
            match all.last_mut() {
                Some(last) if last.actor.as_str() == name && last.metric == metric => {
                    last.units = last.units.checked_add(units).ok_or(JournalError::Overflow { epoch })?;
                }
                _ => {
                    let actor =
                        ActorId::new(&name).map_err(|error| JournalError::Damaged(error.to_string()))?;
                    all.push(Used { actor, metric, units });
                }
            }
        }
        Ok(all)
    }

    /// The snapshot that an epoch was sealed as; `None` if it is not.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn sealed(&self, epoch: u64) -> Result<Option<Sealed>, JournalError> {
        let Some((document, object)) = document(&self.connection, epoch)? else { return Ok(None) };
        let damaged = |error: &dyn std::fmt::Display| JournalError::Damaged(error.to_string());
        let seal = SnapshotSeal::read(document.as_bytes()).map_err(|error| damaged(&error))?;
        Ok(Some(Sealed { seal, object: object.parse().map_err(|error| damaged(&error))? }))
    }

    /// Seals an epoch as `snapshot`, unless it is sealed; durable when this returns. Returns what it is sealed as.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn seal(&mut self, snapshot: &Sealed) -> Result<Sealed, JournalError> {
        let epoch = snapshot.seal.snapshot.epoch.number();
        let document = String::from_utf8_lossy(&snapshot.seal.to_bytes()).into_owned();
        self.connection.execute(
            "INSERT INTO sealed (epoch, document, object) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            params![epoch, document, snapshot.object.to_string()],
        )?;
        let sealed = self.sealed(epoch)?;
        sealed.ok_or_else(|| JournalError::Failed("what was written is not there".to_owned()))
    }

    /// Sealed epochs that nobody was told of for certain, the oldest first; 64 at most.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn untold(&self) -> Result<Vec<u64>, JournalError> {
        let mut find = self
            .connection
            .prepare_cached("SELECT epoch FROM sealed WHERE told = 0 ORDER BY epoch LIMIT 64")?;
        let epochs = find.query_map((), |row| row.get(0))?;
        Ok(epochs.collect::<Result<_, _>>()?)
    }

    /// Those who had to be told of a sealed epoch have been.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn told(&mut self, epoch: u64) -> Result<(), JournalError> {
        self.connection.execute("UPDATE sealed SET told = 1 WHERE epoch = ?", [epoch])?;
        Ok(())
    }

    /// Epochs from `first` on that were sealed as this node, that others were told of, and whose usage is not forgotten; the
    /// oldest first.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn told_from(&self, first: u64, node: &str) -> Result<Vec<u64>, JournalError> {
        let kept = schema::number(&self.connection, "pruned")?.unwrap_or(0);
        let find = "SELECT epoch FROM sealed WHERE epoch >= ? AND told = 1 AND instr(document, ?) > 0 ORDER BY epoch";
        let mut find = self.connection.prepare_cached(find)?;
        let epochs =
            find.query_map(params![first.max(kept), format!("\"node\":\"{node}\"")], |row| row.get(0))?;
        Ok(epochs.collect::<Result<_, _>>()?)
    }

    /// Sealed epochs before `epoch` whose usage is not forgotten yet, the oldest first; 64 at most.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn prunable(&self, epoch: u64) -> Result<Vec<u64>, JournalError> {
        let first = schema::number(&self.connection, "pruned")?.unwrap_or(0);
        let find =
            "SELECT epoch FROM sealed WHERE epoch >= ? AND epoch < ? AND told = 1 ORDER BY epoch LIMIT 64";
        let mut find = self.connection.prepare_cached(find)?;
        let epochs = find.query_map([first, epoch], |row| row.get(0))?;
        Ok(epochs.collect::<Result<_, _>>()?)
    }

    /// Whether the usage of an epoch is forgotten.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn is_pruned(&self, epoch: u64) -> Result<bool, JournalError> {
        Ok(schema::number(&self.connection, "pruned")?.is_some_and(|first| epoch < first))
    }

    /// Whether an epoch behind this one was sealed as the same rows.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn is_named_later(&self, object: ObjectId, epoch: u64) -> Result<bool, JournalError> {
        let find = "SELECT EXISTS (SELECT 1 FROM sealed WHERE epoch > ? AND object = ?)";
        let mut find = self.connection.prepare_cached(find)?;
        Ok(find.query_row(params![epoch, object.to_string()], |row| row.get(0))?)
    }

    /// Forgets what was used in a sealed epoch; its snapshot stays.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn prune(&mut self, epoch: u64) -> Result<(), JournalError> {
        self.connection.execute("DELETE FROM usage WHERE epoch = ?", [epoch])?;
        self.connection.execute("DELETE FROM quarantined WHERE epoch = ? AND units <= booked", [epoch])?;
        schema::raise(&self.connection, "pruned", epoch + 1)
    }
}

/// The document and the address of an epoch's snapshot.
fn document(connection: &Connection, epoch: u64) -> Result<Option<(String, String)>, JournalError> {
    let mut find = connection.prepare_cached("SELECT document, object FROM sealed WHERE epoch = ?")?;
    Ok(find.query_row([epoch], |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
}
