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
