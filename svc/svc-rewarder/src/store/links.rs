//! Runs of a chain in their order, as the ledger is told of them.

use super::{
    EpochStore, State, StoreError,
    database::Value,
    missing,
    record::{count, text},
};

/// A run of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainRun {
    /// The number of the epoch.
    pub epoch: u64,
    /// The key of the run.
    pub run_key: String,
    /// The commitment of the run before; `None` for the first run of the chain.
    pub previous: Option<String>,
}

/// A run, and the run before it.
const CHAIN_RUN: &str = "SELECT this.epoch, this.run_key, before.commitment
    FROM rewarder_epochs AS this LEFT JOIN rewarder_epochs AS before
    ON before.chain = this.chain AND before.link = this.link - 1
    WHERE this.chain = $1 AND this.run_key IS NOT NULL";

impl EpochStore {
    /// How many runs of its chain an epoch follows; `None` if it has no place in a chain.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn runs_before(&self, epoch: u64) -> Result<Option<(String, u64)>, StoreError> {
        let find = "SELECT chain, link FROM rewarder_epochs WHERE epoch = $1 AND link IS NOT NULL";
        let found = self.0.query(find, &[Value::number(epoch)])?.pop();
        let read = |columns: Vec<Value>| match <[Value; 2]>::try_from(columns) {
            Ok([chain, link]) => Ok((text(chain)?, count(&link)?.saturating_sub(1))),
            Err(_) => missing(),
        };
        found.map(read).transpose()
    }

    /// Notes that the ledger is about to be told of the first `runs` runs of a chain, because that of an epoch follows them: from
    /// then on they are not computed anew. Notes nothing if the epoch has another place by now.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn note_told(&self, epoch: u64, chain: &str, runs: u64) -> Result<(), StoreError> {
        let change = "UPDATE rewarder_epochs SET emitted = 2
                      WHERE chain = $1 AND link <= $2 AND commitment IS NOT NULL AND emitted IS NULL
                      AND EXISTS (SELECT 1 FROM rewarder_epochs AS this
                          WHERE this.epoch = $3 AND this.chain = $1 AND this.link = $2 + 1)";
        let parameters = [Value::text(chain), Value::number(runs), Value::number(epoch)];
        // Not while one of them is about to be computed anew.
        self.0.execute_alone(change, &parameters).map(drop)
    }

    /// The runs of a chain from its link `first` on, counted from 1; at most `limit`.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn chain_runs(&self, chain: &str, first: u64, limit: u64) -> Result<Vec<ChainRun>, StoreError> {
        let find = format!("{CHAIN_RUN} AND this.link >= $2 ORDER BY this.link LIMIT $3");
        let parameters = [Value::text(chain), Value::number(first), Value::number(limit)];
        self.0.query(&find, &parameters)?.into_iter().map(chain_run).collect()
    }

    /// The last run of a chain that is settled and has paid somebody; `None` if there is none.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn last_paid_run(&self, chain: &str) -> Result<Option<ChainRun>, StoreError> {
        let find =
            format!("{CHAIN_RUN} AND this.state = $2 AND this.posted > 0 ORDER BY this.link DESC LIMIT 1");
        let parameters = [Value::text(chain), Value::text(State::Settled)];
        self.0.query(&find, &parameters)?.pop().map(chain_run).transpose()
    }
}

fn chain_run(columns: Vec<Value>) -> Result<ChainRun, StoreError> {
    let [epoch, run_key, previous]: [Value; 3] = match columns.try_into() {
        Ok(columns) => columns,
        Err(_) => return missing(),
    };
    let previous = if previous == Value::Null { None } else { Some(text(previous)?) };
    Ok(ChainRun { epoch: count(&epoch)?, run_key: text(run_key)?, previous })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::time::Duration;

    use super::{
        super::{Changed, Choice, Closing},
        *,
    };

    /// A store with an epoch computed for each commitment, one after the other, none of them paid.
    fn store(commitments: &[&str]) -> EpochStore {
        let store = EpochStore::in_memory(Duration::from_secs(60)).unwrap();
        for (epoch, commitment) in (1..).zip(commitments) {
            let closing = Closing {
                epoch,
                inputs: "inputs".to_owned(),
                input_document: "list".to_owned(),
                policy: "policy".to_owned(),
                policy_document: r#"{"policy":{"id":"default"}}"#.to_owned(),
            };
            store.close(&closing).unwrap();
            store.take_place(epoch, "default", &Choice::default()).unwrap().unwrap();
            store.computed(epoch, "key", commitment, 1).unwrap();
        }
        store
    }

    fn compute_anew(store: &EpochStore, epoch: u64) -> Changed {
        store.quarantine(epoch, "why").unwrap();
        store.compute_anew(epoch, "exclude").unwrap()
    }

    #[test]
    fn a_run_that_the_ledger_is_told_of_is_not_computed_anew() {
        let store = store(&["one", "two"]);
        store.note_told(2, "default", 1).unwrap();
        // The run that follows it may still be taken back, because the ledger does not know that one.
        assert_eq!(compute_anew(&store, 2), Changed::Now);
        assert_eq!(compute_anew(&store, 1), Changed::Before, "the ledger may have it by now");
        store.release(1, "release").unwrap();
        let record = store.record(1).unwrap().unwrap();
        assert_eq!(record.state, State::Computed, "paying it had not begun");
    }

    #[test]
    fn the_ledger_is_not_told_of_runs_before_one_that_was_taken_back() {
        let store = store(&["one", "two"]);
        assert_eq!(compute_anew(&store, 2), Changed::Now);
        store.note_told(2, "default", 1).unwrap();
        assert_eq!(store.runs_before(2).unwrap(), None);
        assert_eq!(compute_anew(&store, 1), Changed::Now, "nobody told the ledger of it");
    }
}
