//! The epoch store: what every epoch has come to, in SQLite or PostgreSQL. Blocking.
//!
//! **Exactly one.** An epoch's row is its closed input set: whoever inserts it first has closed it, with the snapshots and
//! the policy in it. Every later change is one conditional update (`… WHERE state = …`), so any number of workers,
//! processes and machines may try the same change, and it happens once.
//!
//! **Never with the ledger.** The store and the ledger share no transaction. What was asked of the ledger and is not
//! noted here is asked again, under the same key, and the ledger says what it said the first time.

mod chain;
mod database;
mod links;
mod migrations;
mod policies;
#[cfg(feature = "postgres")]
mod postgres;
mod record;
mod rows;
mod sqlite;

use std::{path::Path, sync::Arc, time::Duration};

use database::{Database, Value};
use record::COLUMNS;

pub use chain::{ChainPlace, Choice, DisputeRoom, Kept};
pub use database::StoreError;
pub use links::ChainRun;
pub use policies::KeptPolicy;
pub use record::{Record, State};

/// A snapshot as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The id of the node that sealed it.
    pub node: String,
    /// The signed document.
    pub document: String,
    /// The address of its rows.
    pub object: String,
}

/// What an epoch is closed with, once.
#[derive(Clone, Debug)]
pub struct Closing {
    /// The number of the epoch.
    pub epoch: u64,
    /// The digest of the list of snapshots.
    pub inputs: String,
    /// The list: one signed document a line.
    pub input_document: String,
    /// The digest of the policy.
    pub policy: String,
    /// The signed policy.
    pub policy_document: String,
}

/// How the reasons of epochs begin that the ledger has paid otherwise than the store says.
const CONTRADICTED: &str = "conflict:%";

/// The result of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// The change was made now.
    Now,
    /// It cannot be made any more: the epoch is elsewhere already.
    Before,
}

/// The store. Cheap to clone.
#[derive(Clone, Debug)]
pub struct EpochStore(Arc<dyn Database>);

impl EpochStore {
    /// The name of the file in a node's data.
    pub const FILE: &str = "epochs.sqlite";

    /// A store in a file.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn open(path: &Path, epoch_duration: Duration) -> Result<Self, StoreError> {
        Ok(Self(Arc::new(sqlite::Sqlite::open(path, millis(epoch_duration))?)))
    }

    /// A store that ends with the process.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn in_memory(epoch_duration: Duration) -> Result<Self, StoreError> {
        Ok(Self(Arc::new(sqlite::Sqlite::in_memory(millis(epoch_duration))?)))
    }

    /// A store in PostgreSQL, which several nodes share. A server that does not answer, or does not let this role in yet,
    /// is asked again with every call.
    ///
    /// # Errors
    /// [`StoreError`], if asking again does not help.
    #[cfg(feature = "postgres")]
    pub fn connect(url: &str, timeout: Duration, epoch_duration: Duration) -> Result<Self, StoreError> {
        let store = Self(Arc::new(postgres::Postgres::new(url, timeout, millis(epoch_duration))?));
        match store.ping() {
            Ok(()) => {}
            Err(error @ (StoreError::Unavailable(_) | StoreError::Denied(_))) => {
                tracing::warn!(%error, "the node continues without its epoch store, and tries again");
            }
            Err(error) => return Err(error),
        }
        Ok(store)
    }

    /// Whether it answers.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn ping(&self) -> Result<(), StoreError> {
        self.0
            .query("SELECT value FROM rewarder_numbers WHERE name = $1", &[Value::text("version")])
            .map(drop)
    }

    /// The snapshots listed for an epoch, by node.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn snapshots(&self, epoch: u64) -> Result<Vec<Listed>, StoreError> {
        let find = "SELECT node, document, object FROM rewarder_snapshots WHERE epoch = $1 ORDER BY node";
        self.0.query(find, &[Value::number(epoch)])?.into_iter().map(listed).collect()
    }

    /// Epochs from `first` to `last` that have snapshots and are not closed, the oldest first; 64 at most.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn unclosed(&self, first: u64, last: u64) -> Result<Vec<u64>, StoreError> {
        let find = "SELECT DISTINCT epoch FROM rewarder_snapshots WHERE epoch >= $1 AND epoch <= $2
                    AND epoch NOT IN (SELECT epoch FROM rewarder_epochs WHERE epoch >= $1) ORDER BY epoch LIMIT 64";
        let found = self.0.query(find, &[Value::number(first), Value::number(last)])?;
        found.iter().map(|columns| count_of(columns)).collect()
    }

    /// Epochs before `first` that have snapshots and are not closed, with the nodes that sealed these, the latest first; 64
    /// at most.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn unclosed_before(&self, first: u64) -> Result<Vec<(u64, String)>, StoreError> {
        let find = "SELECT epoch, node FROM rewarder_snapshots WHERE epoch < $1
                    AND epoch NOT IN (SELECT epoch FROM rewarder_epochs) ORDER BY epoch DESC LIMIT 64";
        let read = |columns: Vec<Value>| match <[Value; 2]>::try_from(columns) {
            Ok([epoch, node]) => Ok((record::count(&epoch)?, record::text(node)?)),
            Err(_) => missing(),
        };
        self.0.query(find, &[Value::number(first)])?.into_iter().map(read).collect()
    }

    /// The first epoch that is closed automatically, if those from `recent` on are: no epoch before one that is closed and
    /// before `recent`.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn first_to_close(&self, recent: u64) -> Result<u64, StoreError> {
        let found = self.0.query("SELECT max(epoch) FROM rewarder_epochs", &[])?;
        Ok(match first(found)? {
            Value::Null => recent,
            last => recent.min(record::count(&last)?.saturating_add(1)),
        })
    }

    /// Epochs from `first` on that are to be computed, the oldest first; 64 at most.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn to_compute(&self, first: u64) -> Result<Vec<Record>, StoreError> {
        let find = format!(
            "SELECT {COLUMNS} FROM rewarder_epochs WHERE state IN ($1, $2) AND epoch >= $3 ORDER BY epoch LIMIT 64"
        );
        let [sealed, computing] = [State::Sealed, State::Computing].map(Value::text);
        self.0
            .query(&find, &[sealed, computing, Value::number(first)])?
            .into_iter()
            .map(Record::read)
            .collect()
    }

    /// Epochs from `first` on that are to be paid, the oldest first; 64 at most. Those that follow a run that the ledger
    /// contradicts are not.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn to_pay(&self, first: u64) -> Result<Vec<Record>, StoreError> {
        let find = format!(
            "SELECT {COLUMNS} FROM rewarder_epochs WHERE state IN ($1, $2) AND epoch >= $3 AND {}
             ORDER BY epoch LIMIT 64",
            uncontradicted(["$4", "$5"])
        );
        let [computed, emitting, quarantined] =
            [State::Computed, State::Emitting, State::Quarantined].map(Value::text);
        let parameters = [computed, emitting, Value::number(first), quarantined, Value::text(CONTRADICTED)];
        self.0.query(&find, &parameters)?.into_iter().map(Record::read).collect()
    }

    /// Epochs from `first` on that have batches in the ledger, the oldest first; at most `limit`.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn paid(&self, first: u64, limit: u64) -> Result<Vec<Record>, StoreError> {
        let find = format!(
            "SELECT {COLUMNS} FROM rewarder_epochs WHERE posted > 0 AND epoch >= $1 ORDER BY epoch LIMIT $2"
        );
        let parameters = [Value::number(first), Value::number(limit)];
        self.0.query(&find, &parameters)?.into_iter().map(Record::read).collect()
    }

    /// The ledger has lost batches of an epoch, from `first` on: they are to be posted again.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn reopen(&self, epoch: u64, first: u64, reason: &str) -> Result<Changed, StoreError> {
        let change = "UPDATE rewarder_epochs SET state = $1, posted = $2, reason = $3
                      WHERE epoch = $4 AND state IN ($5, $1) AND posted > $2 AND retired_at IS NULL";
        let parameters = [
            Value::text(State::Emitting),
            Value::number(first),
            Value::text(reason),
            Value::number(epoch),
            Value::text(State::Settled),
        ];
        self.change(change, &parameters)
    }

    /// Epochs that are set aside, the latest first; 16 at most.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn quarantined(&self) -> Result<Vec<Record>, StoreError> {
        let find =
            format!("SELECT {COLUMNS} FROM rewarder_epochs WHERE state = $1 ORDER BY epoch DESC LIMIT 16");
        self.0.query(&find, &[Value::text(State::Quarantined)])?.into_iter().map(Record::read).collect()
    }

    /// The latest epochs before `before` that have snapshots and are not closed, the latest first; at most `limit`.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn open_epochs(&self, before: u64, limit: u64) -> Result<Vec<u64>, StoreError> {
        let find = "SELECT DISTINCT epoch FROM rewarder_snapshots WHERE epoch < $1
                    AND epoch NOT IN (SELECT epoch FROM rewarder_epochs) ORDER BY epoch DESC LIMIT $2";
        let found = self.0.query(find, &[Value::number(before), Value::number(limit)])?;
        found.iter().map(|columns| count_of(columns)).collect()
    }

    /// The latest epochs before `before`.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn latest(&self, before: u64, limit: u64) -> Result<Vec<Record>, StoreError> {
        let find =
            format!("SELECT {COLUMNS} FROM rewarder_epochs WHERE epoch < $1 ORDER BY epoch DESC LIMIT $2");
        self.0
            .query(&find, &[Value::number(before), Value::number(limit)])?
            .into_iter()
            .map(Record::read)
            .collect()
    }

    /// What is known of an epoch; `None` until it is closed.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn record(&self, epoch: u64) -> Result<Option<Record>, StoreError> {
        let find = format!("SELECT {COLUMNS} FROM rewarder_epochs WHERE epoch = $1");
        self.0.query(&find, &[Value::number(epoch)])?.pop().map(Record::read).transpose()
    }

    /// The input set and the policy that an epoch was closed with.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn documents(&self, epoch: u64) -> Result<Option<(String, String)>, StoreError> {
        let find = "SELECT input_document, policy_document FROM rewarder_epochs WHERE epoch = $1";
        let found = self.0.query(find, &[Value::number(epoch)])?.pop();
        found
            .map(|columns| {
                let mut columns = columns.into_iter();
                let mut next = || columns.next().map_or_else(missing, record::text);
                Ok((next()?, next()?))
            })
            .transpose()
    }

    /// Closes an epoch's inputs, unless they are closed; says as what they are.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn close(&self, closing: &Closing) -> Result<Record, StoreError> {
        let put = "INSERT INTO rewarder_epochs
                   (epoch, state, inputs, policy, input_document, policy_document, batches, posted)
                   VALUES ($1, $2, $3, $4, $5, $6, 0, 0) ON CONFLICT DO NOTHING";
        let parameters = [
            Value::number(closing.epoch),
            Value::text(State::Sealed),
            Value::text(&closing.inputs),
            Value::text(&closing.policy),
            Value::text(&closing.input_document),
            Value::text(&closing.policy_document),
        ];
        self.0.execute(put, &parameters)?;
        self.record(closing.epoch)?
            .ok_or_else(|| StoreError::Damaged("what was written is not there".to_owned()))
    }

    /// Somebody computes an epoch.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn computing(&self, epoch: u64) -> Result<Changed, StoreError> {
        let change = "UPDATE rewarder_epochs SET state = $1 WHERE epoch = $2 AND state IN ($3, $1)";
        self.change(
            change,
            &[Value::text(State::Computing), Value::number(epoch), Value::text(State::Sealed)],
        )
    }

    /// An epoch is computed.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn computed(
        &self,
        epoch: u64,
        run_key: &str,
        commitment: &str,
        batches: u64,
    ) -> Result<Changed, StoreError> {
        let change = "UPDATE rewarder_epochs SET state = $1, run_key = $2, commitment = $3, batches = $4, reason = NULL
                      WHERE epoch = $5 AND state IN ($6, $7)";
        let parameters = [
            Value::text(State::Computed),
            Value::text(run_key),
            Value::text(commitment),
            Value::number(batches),
            Value::number(epoch),
            Value::text(State::Sealed),
            Value::text(State::Computing),
        ];
        self.change(change, &parameters)
    }

    /// Batches of an epoch are being transferred: those of the run with this commitment, if it still stands and follows no
    /// run that the ledger contradicts.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn emitting(&self, epoch: u64, commitment: &str) -> Result<Changed, StoreError> {
        let change = format!(
            "UPDATE rewarder_epochs SET state = $1, reason = NULL, emitted = 1
             WHERE epoch = $2 AND state IN ($3, $1) AND commitment = $4 AND {}",
            uncontradicted(["$5", "$6"])
        );
        let [emitting, computed, quarantined] =
            [State::Emitting, State::Computed, State::Quarantined].map(Value::text);
        let run = Value::text(commitment);
        self.change(
            &change,
            &[emitting, Value::number(epoch), computed, run, quarantined, Value::text(CONTRADICTED)],
        )
    }

    /// An epoch that is computed waits for something.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn waits_for(&self, epoch: u64, what: &str) -> Result<Changed, StoreError> {
        let change = "UPDATE rewarder_epochs SET reason = $1 WHERE epoch = $2 AND state IN ($3, $4)";
        let states = [State::Computed, State::Emitting].map(Value::text);
        let [computed, emitting] = states;
        self.change(change, &[Value::text(what), Value::number(epoch), computed, emitting])
    }

    /// The first `posted` batches of the run of an epoch are in the ledger.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn posted(&self, epoch: u64, commitment: &str, posted: u64) -> Result<Changed, StoreError> {
        let change = "UPDATE rewarder_epochs SET posted = $1
                      WHERE epoch = $2 AND state = $3 AND commitment = $4 AND posted < $1 AND $1 <= batches";
        let (emitting, run) = (Value::text(State::Emitting), Value::text(commitment));
        self.change(change, &[Value::number(posted), Value::number(epoch), emitting, run])
    }

    /// Every batch of the run of an epoch is in the ledger, at a time in seconds since 1970; `parked` says what of it is kept for
    /// receivers that cannot be paid.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn settled(
        &self,
        epoch: u64,
        commitment: &str,
        unix: u64,
        parked: Option<&str>,
    ) -> Result<Changed, StoreError> {
        let change = "UPDATE rewarder_epochs SET state = $1, reason = $2, settled_at = $3
                      WHERE epoch = $4 AND state = $5 AND commitment = $6 AND posted = batches";
        let (settled, emitting) = (Value::text(State::Settled), Value::text(State::Emitting));
        let (parked, run) = (parked.map_or(Value::Null, Value::text), Value::text(commitment));
        self.change(change, &[settled, parked, Value::number(unix), Value::number(epoch), emitting, run])
    }

    /// Settled epochs with a reason, which is what of them is parked; the latest first, 16 at most.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn parked(&self) -> Result<Vec<Record>, StoreError> {
        let find = format!(
            "SELECT {COLUMNS} FROM rewarder_epochs WHERE state = $1 AND reason IS NOT NULL ORDER BY epoch DESC LIMIT 16"
        );
        self.0.query(&find, &[Value::text(State::Settled)])?.into_iter().map(Record::read).collect()
    }

    /// What was parked of an epoch was moved on.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn released(&self, epoch: u64) -> Result<Changed, StoreError> {
        let change = "UPDATE rewarder_epochs SET reason = NULL WHERE epoch = $1 AND state = $2";
        self.change(change, &[Value::number(epoch), Value::text(State::Settled)])
    }

    /// Retires settled epochs of which nothing is parked, that are not among the latest `keep` and were settled before
    /// `before`: their files and rows are no longer needed from `unix` on, both in seconds since 1970.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn retire(&self, keep: u64, before: u64, unix: u64) -> Result<u64, StoreError> {
        let change = "UPDATE rewarder_epochs SET retired_at = $1
                      WHERE state = $2 AND reason IS NULL AND retired_at IS NULL AND coalesce(settled_at, 0) < $3
                      AND epoch NOT IN (SELECT epoch FROM rewarder_epochs ORDER BY epoch DESC LIMIT $4)";
        let parameters =
            [Value::number(unix), Value::text(State::Settled), Value::number(before), Value::number(keep)];
        self.0.execute(change, &parameters)
    }

    /// The epochs from `first` to `last` that are retired.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn retired(&self, first: u64, last: u64) -> Result<Vec<u64>, StoreError> {
        let find =
            "SELECT epoch FROM rewarder_epochs WHERE retired_at IS NOT NULL AND epoch >= $1 AND epoch <= $2";
        let found = self.0.query(find, &[Value::number(first), Value::number(last)])?;
        found.iter().map(|columns| count_of(columns)).collect()
    }

    /// Something about an epoch does not add up.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn quarantine(&self, epoch: u64, reason: &str) -> Result<Changed, StoreError> {
        // Without a run it gives up its place in the chain, so that others do not wait for it; they do if the ledger has
        // paid the epoch otherwise, because nobody knows here what that run carried over.
        let change = "UPDATE rewarder_epochs SET state = $1, reason = $2,
                          chain = CASE WHEN commitment IS NULL AND $2 NOT LIKE $3 THEN NULL ELSE chain END,
                          link = CASE WHEN commitment IS NULL AND $2 NOT LIKE $3 THEN NULL ELSE link END,
                          corrections = CASE WHEN commitment IS NULL AND $2 NOT LIKE $3 THEN NULL ELSE corrections END,
                          payees = CASE WHEN commitment IS NULL AND $2 NOT LIKE $3 THEN NULL ELSE payees END
                      WHERE epoch = $4 AND state <> $5 AND state <> $1";
        let parameters = [
            Value::text(State::Quarantined),
            Value::text(reason),
            Value::text(CONTRADICTED),
            Value::number(epoch),
            Value::text(State::Settled),
        ];
        self.change(change, &parameters)
    }

    fn change(&self, sql: &str, parameters: &[Value]) -> Result<Changed, StoreError> {
        Ok(if self.0.execute(sql, parameters)? > 0 { Changed::Now } else { Changed::Before })
    }
}

/// Whether an epoch follows no run that the ledger contradicts. Its parameters are the state of quarantined epochs, and
/// [`CONTRADICTED`].
fn uncontradicted([quarantined, contradicted]: [&str; 2]) -> String {
    format!(
        "NOT EXISTS (SELECT 1 FROM rewarder_epochs AS before WHERE before.chain = rewarder_epochs.chain
             AND before.link < rewarder_epochs.link AND before.state = {quarantined} AND before.reason LIKE {contradicted})"
    )
}

/// A length in milliseconds.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn missing<T>() -> Result<T, StoreError> {
    Err(StoreError::Damaged("a column or a row is missing".to_owned()))
}

fn first(rows: Vec<Vec<Value>>) -> Result<Value, StoreError> {
    rows.into_iter().flatten().next().map_or_else(missing, Ok)
}

fn count_of(columns: &[Value]) -> Result<u64, StoreError> {
    columns.first().map_or_else(missing, record::count)
}

fn listed(columns: Vec<Value>) -> Result<Listed, StoreError> {
    let mut columns = columns.into_iter();
    let mut next = || columns.next().map_or_else(missing, record::text);
    Ok(Listed { node: next()?, document: next()?, object: next()? })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn settled(store: &EpochStore, epoch: u64, unix: u64) {
        let text = |what: &str| format!("{what} {epoch}");
        let closing = Closing {
            epoch,
            inputs: text("inputs"),
            input_document: text("list"),
            policy: text("policy"),
            policy_document: text("terms"),
        };
        store.close(&closing).unwrap();
        store.computed(epoch, "key", "commitment", 0).unwrap();
        store.emitting(epoch, "commitment").unwrap();
        assert_eq!(store.settled(epoch, "commitment", unix, None).unwrap(), Changed::Now);
    }

    #[test]
    fn the_latest_epochs_and_those_settled_lately_are_not_retired() {
        let store = EpochStore::in_memory(Duration::from_secs(60)).unwrap();
        // Epochs in which nothing was used are none; 3 was settled late.
        for (epoch, unix) in [(1, 100), (3, 900), (50, 300), (90, 400)] {
            settled(&store, epoch, unix);
        }
        assert_eq!(store.retire(2, 800, 1000).unwrap(), 1);
        let retired = |epoch| store.record(epoch).unwrap().unwrap().retired_at;
        assert_eq!([1, 3, 50, 90].map(retired), [Some(1000), None, None, None]);
        assert_eq!(store.retire(1, 1_000, 1001).unwrap(), 2, "all but the latest, in the end");
        assert_eq!([3, 50, 90].map(retired), [Some(1001), Some(1001), None]);
        assert_eq!(store.retired(3, 90).unwrap(), [3, 50]);
        assert_eq!(store.reopen(1, 0, "too late").unwrap(), Changed::Before);
    }
}
