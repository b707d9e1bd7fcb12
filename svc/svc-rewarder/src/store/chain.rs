//! The chain of epochs in the store: which run follows which, what is carried from one to the next, corrections, payees, and
//! orders about epochs that were set aside.
//!
//! **One after the other.** A run of ruleset 3 takes over what the run before it carried on. So an epoch gets its place in the
//! chain by one conditional update, once every run before it is known; the same update fixes which corrections and which
//! registry of payees it takes over. A place that came to no run is given up again when the epoch is set aside.

use super::{
    CONTRADICTED, Changed, EpochStore, State, StoreError,
    database::Value,
    missing,
    record::{self, count, text},
};

/// An epoch's place in its chain, and what it takes over there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainPlace {
    /// The run before: its epoch and commitment.
    pub previous: Option<(u64, String)>,
    /// Corrections with greater numbers than this have taken effect in no run before.
    pub corrections_after: u64,
    /// The last correction that takes effect in this run.
    pub corrections_to: u64,
    /// Corrections up to that one that take effect nowhere.
    pub left_out: Vec<u64>,
    /// The version of the registry of payees, if there is one.
    pub payees: Option<u64>,
}

/// What an epoch is to take over at the end of its chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// The last correction that a run before has taken over.
    pub corrections_after: u64,
    /// The last correction that is taken over.
    pub corrections_to: u64,
    /// Corrections between the two that are not.
    pub left_out: Vec<u64>,
    /// The version of the registry of payees.
    pub payees: Option<u64>,
}

/// What became of a document that is to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// The document was stored now.
    Now,
    /// The document was stored before.
    Before,
    /// Something else is kept in its place.
    Other,
}

/// Among which objections one is counted, so that those of strangers take no room from those of people concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisputeRoom {
    /// By a key that signs policies.
    Policy,
    /// By a node that counts.
    Node,
    /// By an actor that has a line in the run.
    Actor,
    /// By an actor that has none, and misses it. Anybody can make a key.
    Stranger,
}

impl DisputeRoom {
    /// How many objections to one epoch are kept, and how many of one author.
    pub(crate) const fn limits(self) -> (u64, u64) {
        match self {
            Self::Policy => (256, 64),
            Self::Node | Self::Actor => (256, 4),
            Self::Stranger => (32, 1),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Node => "node",
            Self::Actor => "actor",
            Self::Stranger => "stranger",
        }
    }
}

impl EpochStore {
    /// Whether it is an epoch's turn to get a place at the end of a chain.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn is_turn(&self, epoch: u64, chain: &str) -> Result<bool, StoreError> {
        let turn = turn(["$1", "$2", "$3", "$4", "$5", "$6"]);
        let find = format!("SELECT epoch FROM rewarder_epochs WHERE {turn}");
        Ok(!self.0.query(&find, &turn_values(epoch, chain))?.is_empty())
    }

    /// Gives an epoch the place at the end of a chain, with what it takes over there. Says which place it has; `None` if it
    /// has to wait, or if another took the place since the choice was made.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn take_place(
        &self,
        epoch: u64,
        chain: &str,
        choice: &Choice,
    ) -> Result<Option<ChainPlace>, StoreError> {
        let left_out: Vec<String> = choice.left_out.iter().map(u64::to_string).collect();
        let change = format!(
            "UPDATE rewarder_epochs SET corrections = $1, left_out = $2, payees = $3, chain = $4,
                 link = (SELECT coalesce(max(link), 0) + 1 FROM rewarder_epochs WHERE chain = $4)
             WHERE {} AND (SELECT coalesce(max(corrections), 0) FROM rewarder_epochs WHERE chain = $4) = $10",
            turn(["$4", "$5", "$6", "$7", "$8", "$9"])
        );
        let mut parameters = vec![
            Value::number(choice.corrections_to),
            Value::text(left_out.join(" ")),
            choice.payees.map_or(Value::Null, Value::number),
        ];
        parameters.extend(turn_values(epoch, chain));
        parameters.push(Value::number(choice.corrections_after));
        self.0.execute_alone(&change, &parameters)?;
        self.place(epoch)
    }

    /// The place that an epoch has; `None` if it has none.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn place(&self, epoch: u64) -> Result<Option<ChainPlace>, StoreError> {
        let find = "SELECT this.corrections, coalesce(this.left_out, ''), this.payees,
                        before.epoch, before.commitment, before.corrections
                    FROM rewarder_epochs AS this LEFT JOIN rewarder_epochs AS before
                    ON before.chain = this.chain AND before.link = this.link - 1
                    WHERE this.epoch = $1 AND this.link IS NOT NULL";
        let Some(columns) = self.0.query(find, &[Value::number(epoch)])?.pop() else { return Ok(None) };
        let [to, left_out, payees, before, commitment, after]: [Value; 6] = match columns.try_into() {
            Ok(columns) => columns,
            Err(_) => return missing(),
        };
        let number = |value: &Value| if *value == Value::Null { Ok(0) } else { count(value) };
        Ok(Some(ChainPlace {
            previous: if before == Value::Null { None } else { Some((count(&before)?, text(commitment)?)) },
            corrections_after: number(&after)?,
            corrections_to: number(&to)?,
            left_out: text(left_out)?.split(' ').filter_map(|number| number.parse().ok()).collect(),
            payees: if payees == Value::Null { None } else { Some(count(&payees)?) },
        }))
    }

    /// The corrections that no run of a chain has taken over, at most 64, each with its number; and the number of the last
    /// that one has.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn waiting_corrections(&self, chain: &str) -> Result<(u64, Vec<(u64, String)>), StoreError> {
        let find = "SELECT coalesce(max(corrections), 0) FROM rewarder_epochs WHERE chain = $1";
        let found = self.0.query(find, &[Value::text(chain)])?;
        let after = found.first().map_or_else(missing, |columns| super::count_of(columns))?;
        Ok((after, self.corrections(chain, after, after.saturating_add(64))?))
    }

    /// Keeps what a run carries over to the next. The same run carries the same.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn keep_carried(&self, epoch: u64, commitment: &str, lines: &[u8]) -> Result<(), StoreError> {
        let put = "INSERT INTO rewarder_carried (epoch, commitment, bytes) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
        let parameters = [Value::number(epoch), Value::text(commitment), Value::Bytes(lines.to_owned())];
        self.0.execute(put, &parameters).map(drop)
    }

    /// What a run carried over to the next.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn carried(&self, epoch: u64, commitment: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let find = "SELECT bytes FROM rewarder_carried WHERE epoch = $1 AND commitment = $2";
        let found = self.0.query(find, &[Value::number(epoch), Value::text(commitment)])?;
        Ok(found.into_iter().flatten().find_map(|value| match value {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }))
    }

    /// Keeps a correction, to take effect in the next run of the chain.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn keep_correction(&self, chain: &str, hash: &str, document: &str) -> Result<Kept, StoreError> {
        let put = "INSERT INTO rewarder_corrections (chain, number, hash, document)
                   SELECT $1, (SELECT coalesce(max(number), 0) + 1 FROM rewarder_corrections WHERE chain = $1), $2, $3
                   WHERE NOT EXISTS (SELECT 1 FROM rewarder_corrections WHERE hash = $2)";
        let kept = self.0.execute(put, &[Value::text(chain), Value::text(hash), Value::text(document)])?;
        Ok(if kept > 0 { Kept::Now } else { Kept::Before })
    }

    /// The signed corrections of a chain with numbers after one and up to another, in their order, with their numbers.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn corrections(&self, chain: &str, after: u64, to: u64) -> Result<Vec<(u64, String)>, StoreError> {
        let find =
            "SELECT number, document FROM rewarder_corrections WHERE chain = $1 AND number > $2 AND number <= $3
                    ORDER BY number";
        let found = self.0.query(find, &[Value::text(chain), Value::number(after), Value::number(to)])?;
        let read = |columns: Vec<Value>| match <[Value; 2]>::try_from(columns) {
            Ok([number, document]) => Ok((count(&number)?, text(document)?)),
            Err(_) => missing(),
        };
        found.into_iter().map(read).collect()
    }

    /// The latest signed corrections of a chain, at most `limit`, in their order.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn latest_corrections(&self, chain: &str, limit: u64) -> Result<Vec<String>, StoreError> {
        let find = "SELECT document FROM rewarder_corrections WHERE chain = $1 ORDER BY number DESC LIMIT $2";
        let found = self.0.query(find, &[Value::text(chain), Value::number(limit)])?;
        found.into_iter().rev().flatten().map(text).collect()
    }

    /// Keeps a version of the registry of payees. A version that is kept stays as it is. Which one applies is not judged here.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn keep_payees(&self, chain: &str, version: u64, document: &str) -> Result<Kept, StoreError> {
        let put = "INSERT INTO rewarder_payees (chain, version, document) VALUES ($1, $2, $3)
                   ON CONFLICT DO NOTHING";
        let parameters = [Value::text(chain), Value::number(version), Value::text(document)];
        if self.0.execute(put, &parameters)? > 0 {
            return Ok(Kept::Now);
        }
        let same = self.payees(chain, Some(version))?.is_some_and(|kept| kept == document);
        Ok(if same { Kept::Before } else { Kept::Other })
    }

    /// A version of the signed registry of payees, or the newest.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn payees(&self, chain: &str, version: Option<u64>) -> Result<Option<String>, StoreError> {
        let find = "SELECT document FROM rewarder_payees WHERE chain = $1 AND version <= $2
                    ORDER BY version DESC LIMIT 1";
        let newest = version.unwrap_or((1 << 53) - 1);
        let found = self.0.query(find, &[Value::text(chain), Value::number(newest)])?;
        found.into_iter().flatten().next().map(text).transpose()
    }

    /// The signed orders about an epoch, one a line; empty if there are none.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn orders(&self, epoch: u64) -> Result<String, StoreError> {
        let find = "SELECT coalesce(orders, '') FROM rewarder_epochs WHERE epoch = $1";
        let found = self.0.query(find, &[Value::number(epoch)])?;
        found.into_iter().flatten().next().map_or(Ok(String::new()), text)
    }

    /// Takes up an epoch again that was set aside, where it was. The order is noted with it.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn release(&self, epoch: u64, order: &str) -> Result<Changed, StoreError> {
        let change = "UPDATE rewarder_epochs SET orders = coalesce(orders, '') || $1, reason = NULL,
                 state = CASE WHEN commitment IS NULL THEN $2 WHEN posted = 0 AND coalesce(emitted, 2) = 2 THEN $3 ELSE $4 END
             WHERE epoch = $5 AND state = $6 AND retired_at IS NULL";
        let [sealed, computed, emitting, quarantined] =
            [State::Sealed, State::Computed, State::Emitting, State::Quarantined].map(Value::text);
        let order = Value::text(format_args!("{order}\n"));
        self.change(change, &[order, sealed, computed, emitting, Value::number(epoch), quarantined])
    }

    /// Has an epoch recomputed that was set aside, if paying it had not begun and no run follows its run: a batch that is on its
    /// way cannot be called back. The order says what is different.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn compute_anew(&self, epoch: u64, order: &str) -> Result<Changed, StoreError> {
        let change = "UPDATE rewarder_epochs SET orders = coalesce(orders, '') || $1, reason = NULL, state = $2,
                 commitment = NULL, run_key = NULL, batches = 0, chain = NULL, link = NULL, corrections = NULL,
                 payees = NULL
             WHERE epoch = $3 AND state = $4 AND posted = 0 AND emitted IS NULL AND retired_at IS NULL
             AND NOT EXISTS (SELECT 1 FROM rewarder_epochs AS next
                 WHERE next.chain = rewarder_epochs.chain AND next.link = rewarder_epochs.link + 1)";
        let [sealed, quarantined] = [State::Sealed, State::Quarantined].map(Value::text);
        let order = Value::text(format_args!("{order}\n"));
        // Not while another epoch takes its place behind this one.
        let changed = self.0.execute_alone(change, &[order, sealed, Value::number(epoch), quarantined])?;
        Ok(if changed > 0 { Changed::Now } else { Changed::Before })
    }

    /// Sets an epoch aside that is neither settled nor set aside, as an order says, which is noted with it. Without a run it
    /// gives up its place in the chain.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn hold(&self, epoch: u64, reason: &str, order: &str) -> Result<Changed, StoreError> {
        let change =
            "UPDATE rewarder_epochs SET state = $1, reason = $2, orders = coalesce(orders, '') || $3,
                 chain = CASE WHEN commitment IS NULL THEN NULL ELSE chain END,
                 link = CASE WHEN commitment IS NULL THEN NULL ELSE link END,
                 corrections = CASE WHEN commitment IS NULL THEN NULL ELSE corrections END,
                 payees = CASE WHEN commitment IS NULL THEN NULL ELSE payees END
             WHERE epoch = $4 AND state <> $5 AND state <> $1";
        let [quarantined, settled] = [State::Quarantined, State::Settled].map(Value::text);
        let order = Value::text(format_args!("{order}\n"));
        self.change(change, &[quarantined, Value::text(reason), order, Value::number(epoch), settled])
    }

    /// Keeps an objection to an epoch, unless its room or the share of its author is full.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn keep_dispute(
        &self,
        epoch: u64,
        hash: &str,
        document: &str,
        (room, author): (DisputeRoom, &str),
    ) -> Result<Kept, StoreError> {
        let put = "INSERT INTO rewarder_disputes (epoch, hash, document, room, author) SELECT $1, $2, $3, $4, $5
                   WHERE (SELECT count(*) FROM rewarder_disputes WHERE epoch = $1 AND room = $4) < $6
                   AND (SELECT count(*) FROM rewarder_disputes WHERE epoch = $1 AND room = $4 AND author = $5) < $7
                   ON CONFLICT DO NOTHING";
        let (most, each) = room.limits();
        let parameters = [
            Value::number(epoch),
            Value::text(hash),
            Value::text(document),
            Value::text(room.name()),
            Value::text(author),
            Value::number(most),
            Value::number(each),
        ];
        if self.0.execute(put, &parameters)? > 0 {
            return Ok(Kept::Now);
        }
        let is_there = self.disputes(epoch)?.iter().any(|kept| kept == document);
        Ok(if is_there { Kept::Before } else { Kept::Other })
    }

    /// The objections to an epoch, in the order of their hashes.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn disputes(&self, epoch: u64) -> Result<Vec<String>, StoreError> {
        let find = "SELECT document FROM rewarder_disputes WHERE epoch = $1 ORDER BY hash";
        self.0.query(find, &[Value::number(epoch)])?.into_iter().flatten().map(record::text).collect()
    }
}

/// When an epoch gets its place: every run of its policy before it is known, and it follows none that the ledger contradicts.
/// Epochs of other policies do not wait for each other: one of them may be stopped for good. Its parameters are those of
/// [`turn_values`], under these names.
fn turn([chain, epoch, sealed, computing, quarantined, contradicted]: [&str; 6]) -> String {
    format!(
        "rewarder_epochs.link IS NULL
         AND NOT EXISTS (SELECT 1 FROM rewarder_epochs AS other WHERE other.chain = {chain} AND other.commitment IS NULL)
         AND rewarder_epochs.epoch = {epoch} AND rewarder_epochs.state IN ({sealed}, {computing})
         AND NOT EXISTS (SELECT 1 FROM rewarder_epochs AS other
             WHERE other.epoch < {epoch} AND other.state IN ({sealed}, {computing})
             AND other.policy_document LIKE '%\"id\":\"' || replace({chain}, '_', '!_') || '\"%' ESCAPE '!')
         AND NOT EXISTS (SELECT 1 FROM rewarder_epochs AS other
             WHERE other.chain = {chain} AND other.state = {quarantined} AND other.reason LIKE {contradicted})"
    )
}

fn turn_values(epoch: u64, chain: &str) -> [Value; 6] {
    let [sealed, computing, quarantined] =
        [State::Sealed, State::Computing, State::Quarantined].map(Value::text);
    [Value::text(chain), Value::number(epoch), sealed, computing, quarantined, Value::text(CONTRADICTED)]
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::time::Duration;

    use super::{super::Closing, *};

    impl EpochStore {
        /// The place of an epoch, with everything that waits.
        fn chain_place(&self, epoch: u64, chain: &str) -> Result<Option<ChainPlace>, StoreError> {
            if let Some(place) = self.place(epoch)? {
                return Ok(Some(place));
            }
            let (after, waiting) = self.waiting_corrections(chain)?;
            let payees = self.0.query("SELECT max(version) FROM rewarder_payees", &[])?;
            let choice = Choice {
                corrections_after: after,
                corrections_to: waiting.last().map_or(after, |(number, _)| *number),
                left_out: Vec::new(),
                payees: payees[0].first().and_then(|version| count(version).ok()),
            };
            self.take_place(epoch, chain, &choice)
        }
    }

    fn store() -> EpochStore {
        EpochStore::in_memory(Duration::from_secs(60)).unwrap()
    }

    fn close(store: &EpochStore, epoch: u64) {
        let text = |what: &str| format!("{what} {epoch}");
        let closing = Closing {
            epoch,
            inputs: text("inputs"),
            input_document: text("list"),
            policy: text("policy"),
            policy_document: r#"{"policy":{"id":"default"}}"#.to_owned(),
        };
        store.close(&closing).unwrap();
    }

    fn previous(store: &EpochStore, epoch: u64) -> Option<Option<(u64, String)>> {
        store.chain_place(epoch, "default").unwrap().map(|place| place.previous)
    }

    #[test]
    fn epochs_take_their_places_one_after_the_other() {
        let store = store();
        [5, 7, 9].into_iter().for_each(|epoch| close(&store, epoch));
        assert_eq!(previous(&store, 7), None, "5 is older and not computed");
        assert_eq!(previous(&store, 5), Some(None), "the first");
        assert_eq!(previous(&store, 7), None, "5 is not computed yet");
        store.computed(5, "key", "five", 0).unwrap();
        assert_eq!(previous(&store, 7), Some(Some((5, "five".to_owned()))));
        // 7 is set aside before it came to a run: it gives its place up, and is the last when it is taken up again.
        store.quarantine(7, "why").unwrap();
        assert_eq!(previous(&store, 9), Some(Some((5, "five".to_owned()))));
        store.computed(9, "key", "nine", 0).unwrap();
        assert_eq!(store.release(7, "order").unwrap(), Changed::Now);
        assert_eq!(store.record(7).unwrap().unwrap().state, State::Sealed);
        assert_eq!(previous(&store, 7), Some(Some((9, "nine".to_owned()))), "nothing is carried twice");
        assert_eq!(store.orders(7).unwrap(), "order\n");
        assert_eq!(store.release(7, "order").unwrap(), Changed::Before);
    }

    #[test]
    fn epochs_of_other_policies_do_not_wait_for_each_other() {
        let store = store();
        [5, 7].into_iter().for_each(|epoch| close(&store, epoch));
        let turn = |chain| store.is_turn(7, chain).unwrap();
        assert_eq!((turn("default"), turn("defaults"), turn("def_ult")), (false, true, true));
    }

    #[test]
    fn a_run_that_another_follows_is_not_computed_anew() {
        let store = store();
        close(&store, 1);
        close(&store, 2);
        store.chain_place(1, "default").unwrap().unwrap();
        store.computed(1, "key", "one", 2).unwrap();
        store.quarantine(1, "why").unwrap();
        store.chain_place(2, "default").unwrap().unwrap();
        assert_eq!(store.compute_anew(1, "order").unwrap(), Changed::Before, "2 follows it");
        assert_eq!(store.release(1, "order").unwrap(), Changed::Now);
        assert_eq!(store.record(1).unwrap().unwrap().state, State::Computed);
        store.computed(2, "key", "two", 3).unwrap();
        store.quarantine(2, "why").unwrap();
        assert_eq!(store.compute_anew(2, "order").unwrap(), Changed::Now);
        let record = store.record(2).unwrap().unwrap();
        assert_eq!((record.state, record.commitment, record.batches), (State::Sealed, None, 0));
        store.chain_place(2, "default").unwrap().unwrap();
        store.computed(2, "key", "other", 3).unwrap();
        assert_eq!(store.emitting(2, "two").unwrap(), Changed::Before, "that run was taken back");
        store.emitting(2, "other").unwrap();
        assert_eq!(store.posted(2, "two", 1).unwrap(), Changed::Before);
        assert_eq!(store.posted(2, "other", 4).unwrap(), Changed::Before, "there are three");
        store.posted(2, "other", 1).unwrap();
        store.quarantine(2, "why").unwrap();
        assert_eq!(store.compute_anew(2, "again").unwrap(), Changed::Before, "a part of it was paid");
        assert_eq!(store.release(2, "go on").unwrap(), Changed::Now);
        assert_eq!(store.record(2).unwrap().unwrap().state, State::Emitting);
    }

    #[test]
    fn no_run_follows_one_that_the_ledger_contradicts() {
        let store = store();
        [1, 2, 3].into_iter().for_each(|epoch| close(&store, epoch));
        store.chain_place(1, "default").unwrap().unwrap();
        store.computed(1, "key", "one", 1).unwrap();
        store.chain_place(2, "default").unwrap().unwrap();
        store.computed(2, "key", "two", 1).unwrap();
        store.quarantine(1, "conflict: the ledger has another run").unwrap();
        assert_eq!(store.chain_place(3, "default").unwrap(), None);
        assert_eq!(store.emitting(2, "two").unwrap(), Changed::Before, "it follows 1");
        store.release(1, "order").unwrap();
        assert_eq!(store.emitting(2, "two").unwrap(), Changed::Now);
        store.chain_place(3, "default").unwrap().unwrap();
        store.quarantine(3, "conflict: the ledger has another run").unwrap();
        close(&store, 4);
        assert_eq!(store.chain_place(4, "default").unwrap(), None, "3 keeps its place without a run");
    }

    #[test]
    fn a_correction_takes_effect_in_one_run_and_a_registry_from_a_run_on() {
        let store = store();
        [1, 2, 3].into_iter().for_each(|epoch| close(&store, epoch));
        let place = |epoch| store.chain_place(epoch, "default").unwrap().unwrap();
        assert_eq!(place(1).corrections_to, 0);
        assert_eq!(store.keep_correction("default", "h1", "c1").unwrap(), Kept::Now);
        assert_eq!(store.keep_correction("default", "h1", "c1").unwrap(), Kept::Before);
        assert_eq!(store.keep_correction("default", "h2", "c2").unwrap(), Kept::Now);
        assert_eq!(store.keep_payees("default", 4, "p4").unwrap(), Kept::Now);
        assert_eq!(place(1).corrections_to, 0, "its place is fixed");
        store.computed(1, "key", "one", 0).unwrap();
        let second = place(2);
        assert_eq!((second.corrections_after, second.corrections_to, second.payees), (0, 2, Some(4)));
        let both = [(1, "c1".to_owned()), (2, "c2".to_owned())];
        assert_eq!(store.corrections("default", 0, 2).unwrap(), both);
        assert_eq!(store.latest_corrections("default", 2).unwrap(), ["c1", "c2"]);
        assert_eq!(store.latest_corrections("default", 1).unwrap(), ["c2"]);
        store.computed(2, "key", "two", 0).unwrap();
        assert_eq!((place(3).corrections_after, place(3).corrections_to), (2, 2));
        assert_eq!(store.keep_payees("default", 4, "other").unwrap(), Kept::Other);
        assert_eq!(store.keep_payees("default", 4, "p4").unwrap(), Kept::Before);
        assert_eq!(store.payees("default", Some(4)).unwrap().as_deref(), Some("p4"));
        assert_eq!(store.payees("other", None).unwrap(), None);
    }

    #[test]
    fn an_order_to_hold_is_noted_only_if_it_is_carried_out() {
        let store = store();
        close(&store, 1);
        assert_eq!(store.hold(1, "held: why", "first").unwrap(), Changed::Now);
        assert_eq!(store.hold(1, "held: why", "second").unwrap(), Changed::Before);
        assert_eq!(store.orders(1).unwrap(), "first\n");
        let record = store.record(1).unwrap().unwrap();
        assert_eq!((record.state, record.reason.as_deref()), (State::Quarantined, Some("held: why")));
    }

    #[test]
    fn a_choice_that_another_place_has_overtaken_is_made_again() {
        let store = store();
        [1, 2].into_iter().for_each(|epoch| close(&store, epoch));
        store.keep_correction("default", "h1", "c1").unwrap();
        let choice = Choice { corrections_to: 1, left_out: vec![1], ..Choice::default() };
        assert!(!store.is_turn(2, "default").unwrap(), "1 is older");
        let place = store.take_place(1, "default", &choice).unwrap().unwrap();
        assert_eq!((place.corrections_to, place.left_out), (1, vec![1]));
        store.computed(1, "key", "one", 0).unwrap();
        assert!(store.is_turn(2, "default").unwrap());
        assert_eq!(
            store.take_place(2, "default", &choice).unwrap(),
            None,
            "1 has taken that correction over"
        );
    }

    #[test]
    fn disputes_are_kept_once_and_no_more_than_their_room_has_place_for() {
        let store = store();
        let keep = |number: u32, room: DisputeRoom, author: &str| {
            store.keep_dispute(1, &format!("h{number:03}"), &format!("d{number:03}"), (room, author)).unwrap()
        };
        for number in 0..32 {
            assert_eq!(keep(number, DisputeRoom::Stranger, &format!("key {number}")), Kept::Now);
            assert_eq!(keep(number, DisputeRoom::Stranger, &format!("key {number}")), Kept::Before);
        }
        assert_eq!(keep(100, DisputeRoom::Stranger, "key 100"), Kept::Other, "there is no room");
        for number in 101..105 {
            assert_eq!(keep(number, DisputeRoom::Actor, "alice"), Kept::Now, "the room of others");
        }
        assert_eq!(keep(105, DisputeRoom::Actor, "alice"), Kept::Other, "she has had her share");
        assert_eq!(keep(105, DisputeRoom::Actor, "bob"), Kept::Now);
        assert_eq!(keep(106, DisputeRoom::Node, "alice"), Kept::Now);
        assert_eq!(keep(107, DisputeRoom::Policy, "alice"), Kept::Now);
        assert_eq!(store.disputes(1).unwrap().len(), 39);
    }
}
