//! The rows of snapshots: kept once, however many snapshots have the same, and as long as one of these may be computed.

use std::collections::BTreeSet;

use super::{EpochStore, Listed, StoreError, count_of, database::Value, first, missing, record};

impl EpochStore {
    /// Lists a snapshot with its rows, or without them if nobody will compute its epoch from them. Of one node and epoch the
    /// first one stays; says which document is listed.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn list_snapshot(
        &self,
        epoch: u64,
        snapshot: &Listed,
        rows: Option<&[u8]>,
    ) -> Result<String, StoreError> {
        // Rows first: a snapshot that is listed has its rows here.
        if let Some(rows) = rows {
            self.keep_rows(epoch, &snapshot.object, rows)?;
        }
        let put = "INSERT INTO rewarder_snapshots (epoch, node, document, object) VALUES ($1, $2, $3, $4)
                   ON CONFLICT DO NOTHING";
        let (node, document) = (Value::text(&snapshot.node), Value::text(&snapshot.document));
        let object = Value::text(&snapshot.object);
        self.0.execute(put, &[Value::number(epoch), node.clone(), document, object.clone()])?;
        // What had the same rows may have been retired before this snapshot was listed.
        let find = "SELECT epoch FROM rewarder_rows WHERE object = $1";
        if let Some(rows) = rows
            && self.0.query(find, &[object])?.is_empty()
        {
            self.keep_rows(epoch, &snapshot.object, rows)?;
        }
        let find = "SELECT document FROM rewarder_snapshots WHERE epoch = $1 AND node = $2";
        let found = self.0.query(find, &[Value::number(epoch), node])?;
        first(found).and_then(record::text)
    }

    fn keep_rows(&self, epoch: u64, object: &str, rows: &[u8]) -> Result<(), StoreError> {
        // The same rows can be those of a later epoch as well: they are kept as long as that is.
        let put = "INSERT INTO rewarder_rows (object, epoch, bytes) VALUES ($1, $2, $3)
                        ON CONFLICT (object) DO UPDATE SET epoch = excluded.epoch WHERE excluded.epoch > rewarder_rows.epoch";
        let parameters = [Value::text(object), Value::number(epoch), Value::Bytes(rows.to_owned())];
        self.0.execute(put, &parameters).map(drop)
    }

    /// The epochs from `first` on that a node has a snapshot in.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn listed_by(&self, node: &str, first: u64) -> Result<BTreeSet<u64>, StoreError> {
        let find = "SELECT epoch FROM rewarder_snapshots WHERE epoch >= $1 AND node = $2";
        let found = self.0.query(find, &[Value::number(first), Value::text(node)])?;
        found.iter().map(|columns| count_of(columns)).collect()
    }

    /// How many bytes the rows of a node's snapshots have in epochs that are not closed.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn open_bytes(&self, node: &str) -> Result<u64, StoreError> {
        let find = "SELECT coalesce(sum(length(bytes)), 0) FROM rewarder_rows WHERE object IN
                    (SELECT object FROM rewarder_snapshots WHERE node = $1
                     AND epoch NOT IN (SELECT epoch FROM rewarder_epochs))";
        let found = self.0.query(find, &[Value::text(node)])?;
        found.first().map_or_else(missing, |columns| count_of(columns))
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
            store.list_snapshot(epoch, &snapshot(epoch), Some(b"rows")).unwrap();
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
    fn rows_of_open_epochs_are_counted_by_node_and_each_once() {
        let store = EpochStore::in_memory(Duration::from_secs(60)).unwrap();
        let listed = |node: &str, epoch: u64, object: &str, rows| {
            let document = format!("{node} {epoch}");
            let snapshot = Listed { node: node.to_owned(), document, object: object.to_owned() };
            store.list_snapshot(epoch, &snapshot, rows).unwrap();
        };
        for epoch in [5, 6] {
            listed("n", epoch, "b3:7", Some(&b"rows"[..]));
        }
        listed("n", 7, "b3:8", Some(b"more rows"));
        listed("m", 7, "b3:9", Some(b"others"));
        listed("n", 8, "b3:10", None);
        let bytes = |node| store.open_bytes(node).unwrap();
        assert_eq!((bytes("n"), bytes("m"), bytes("o")), (13, 6, 0));
        assert_eq!(store.listed_by("n", 6).unwrap(), BTreeSet::from([6, 7, 8]));
        settle(&store, 7);
        assert_eq!((bytes("n"), bytes("m")), (4, 0));
    }

    #[test]
    fn rows_that_two_epochs_have_in_common_are_kept_as_long_as_the_later_one() {
        let store = EpochStore::in_memory(Duration::from_secs(60)).unwrap();
        for epoch in [7, 9, 8] {
            store.list_snapshot(epoch, &snapshot(epoch), Some(b"rows")).unwrap();
        }
        let kept = store.0.query("SELECT epoch FROM rewarder_rows", &[]).unwrap();
        assert_eq!(kept, [[Value::Int(9)]]);
    }
}
