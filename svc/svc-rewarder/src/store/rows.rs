//! The rows of snapshots: kept once, however many snapshots have the same, and as long as one of these may be computed.

use super::{EpochStore, Listed, StoreError, database::Value, first, record};

impl EpochStore {
    /// Lists a snapshot with its rows. Of one node and epoch the first one stays; says which document is listed.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn list_snapshot(&self, epoch: u64, snapshot: &Listed, rows: &[u8]) -> Result<String, StoreError> {
        // The same rows can be those of a later epoch as well: they are kept as long as that is.
        let put_rows = "INSERT INTO rewarder_rows (object, epoch, bytes) VALUES ($1, $2, $3)
                        ON CONFLICT (object) DO UPDATE SET epoch = excluded.epoch WHERE excluded.epoch > rewarder_rows.epoch";
        let object = Value::text(&snapshot.object);
        // Rows first: a snapshot that is listed has its rows here.
        self.0.execute(put_rows, &[object.clone(), Value::number(epoch), Value::Bytes(rows.to_owned())])?;
        let put = "INSERT INTO rewarder_snapshots (epoch, node, document, object) VALUES ($1, $2, $3, $4)
                   ON CONFLICT DO NOTHING";
        let (node, document) = (Value::text(&snapshot.node), Value::text(&snapshot.document));
        self.0.execute(put, &[Value::number(epoch), node.clone(), document, object.clone()])?;
        // What had the same rows may have been retired before this snapshot was listed.
        let find = "SELECT epoch FROM rewarder_rows WHERE object = $1";
        if self.0.query(find, std::slice::from_ref(&object))?.is_empty() {
            self.0.execute(put_rows, &[object, Value::number(epoch), Value::Bytes(rows.to_owned())])?;
        }
        let find = "SELECT document FROM rewarder_snapshots WHERE epoch = $1 AND node = $2";
        let found = self.0.query(find, &[Value::number(epoch), node])?;
        first(found).and_then(record::text)
    }

    /// The rows of a snapshot.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn rows(&self, object: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let find = "SELECT bytes FROM rewarder_rows WHERE object = $1";
        let found = self.0.query(find, &[Value::text(object)])?;
        Ok(found.into_iter().flatten().find_map(|value| match value {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }))
    }

    /// Forgets the rows of snapshots of retired epochs, unless a snapshot of another epoch has the same.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn prune(&self) -> Result<u64, StoreError> {
        // An older epoch may have the same rows, and be open, held or not paid yet.
        let forget = "DELETE FROM rewarder_rows
                      WHERE epoch IN (SELECT epoch FROM rewarder_epochs WHERE retired_at IS NOT NULL)
                      AND NOT EXISTS (SELECT 1 FROM rewarder_snapshots AS other WHERE other.object = rewarder_rows.object
                          AND other.epoch NOT IN (SELECT epoch FROM rewarder_epochs WHERE retired_at IS NOT NULL))";
        let forgotten = self.0.execute(forget, &[])?;
        // What was carried is needed as long as the run that took it over may be computed again.
        let carried =
            "DELETE FROM rewarder_carried WHERE epoch IN (SELECT this.epoch FROM rewarder_epochs AS this
                       JOIN rewarder_epochs AS next ON next.chain = this.chain AND next.link = this.link + 1
                       WHERE this.retired_at IS NOT NULL AND next.retired_at IS NOT NULL)";
        Ok(forgotten + self.0.execute(carried, &[])?)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::time::Duration;

    use super::{
        super::{Changed, Closing},
        *,
    };

    fn snapshot(epoch: u64) -> Listed {
        Listed { node: "n".to_owned(), document: format!("of epoch {epoch}"), object: "b3:7".to_owned() }
    }

    fn settle(store: &EpochStore, epoch: u64) {
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
        assert_eq!(store.settled(epoch, "commitment", 100, None).unwrap(), Changed::Now);
    }

    #[test]
    fn rows_that_an_unpaid_epoch_shares_with_a_retired_one_are_kept() {
        let store = EpochStore::in_memory(Duration::from_secs(60)).unwrap();
        for epoch in [5, 6] {
            store.list_snapshot(epoch, &snapshot(epoch), b"rows").unwrap();
        }
        [6, 90].into_iter().for_each(|epoch| settle(&store, epoch));
        assert_eq!(store.retire(1, 800, 1000).unwrap(), 1, "6 is; 5 is not even closed");
        store.prune().unwrap();
        assert_eq!(store.rows("b3:7").unwrap().as_deref(), Some(&b"rows"[..]));
        settle(&store, 5);
        assert_eq!(store.retire(1, 800, 1000).unwrap(), 1);
        store.prune().unwrap();
        assert_eq!(store.rows("b3:7").unwrap(), None, "nobody needs them any more");
    }

    #[test]
    fn rows_that_two_epochs_have_in_common_are_kept_as_long_as_the_later_one() {
        let store = EpochStore::in_memory(Duration::from_secs(60)).unwrap();
        for epoch in [7, 9, 8] {
            store.list_snapshot(epoch, &snapshot(epoch), b"rows").unwrap();
        }
        let kept = store.0.query("SELECT epoch FROM rewarder_rows", &[]).unwrap();
        assert_eq!(kept, [[Value::Int(9)]]);
    }
}
