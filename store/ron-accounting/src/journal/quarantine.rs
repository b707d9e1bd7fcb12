//! Usage that no epoch can take: it came after its epoch was sealed, or the clock that it was booked by was wrong. It is
//! kept, told, and booked in another epoch if somebody says so.

use rusqlite::{Connection, TransactionBehavior, params};
use types::ActorId;

use super::{BootId, Journal, JournalError, Used, document};
use crate::{Correction, Page};

/// Rows came after their epoch was sealed.
const LATE: &str = "late";
/// Rows were booked by a wrong clock, in more than one epoch by the right one.
const CLOCK: &str = "clock";

/// Usage that is quarantined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// The epoch that it was booked in.
    pub epoch: u64,
    /// The quarantined usage: actor, metric and units.
    pub used: Used,
    /// The reason: `late` or `clock`.
    pub reason: String,
}

/// What became of usage that was booked by a wrong clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corrected {
    /// So many rows are booked in the right epoch now.
    Moved(u64),
    /// So many rows are quarantined: their epoch cannot be known, or is sealed.
    Quarantined(u64),
    /// The epoch that they were booked in is sealed: the node has signed for them, and they stay.
    Sealed,
}

/// Quarantines what a page has beyond what was written down before its epoch was sealed.
pub(super) fn late(connection: &Connection, boot: BootId, page: &Page) -> Result<(), JournalError> {
    let mut put = connection.prepare_cached(
        "INSERT INTO quarantined (epoch, actor, metric, boot, units, reason)
         SELECT ?1, ?2, ?3, ?4, ?5 - coalesce((SELECT units FROM usage WHERE epoch = ?1 AND actor = ?2
                                               AND metric = ?3 AND boot = ?4), 0), ?6
         WHERE true ON CONFLICT DO UPDATE SET units = max(units, excluded.units)",
    )?;
    for (actor, metric, units) in &page.units {
        let units = i64::try_from(*units).unwrap_or(i64::MAX);
        put.execute(params![page.epoch, actor.as_str(), metric, boot.0, units, LATE])?;
    }
    Ok(())
}

impl Journal {
    /// Corrects the epoch of what a boot has written down; it goes on as `next`. Durable when this returns.
    ///
    /// # Errors
    /// [`JournalError`]; nothing is changed then.
    pub fn correct(
        &mut self,
        (boot, next): (BootId, BootId),
        correction: Correction,
    ) -> Result<Corrected, JournalError> {
        let Correction { from, to } = correction;
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if document(&transaction, from)?.is_some() {
            return Ok(Corrected::Sealed);
        }
        let to = match to {
            Some(to) if document(&transaction, to)?.is_none() => Some(to),
            _ => None,
        };
        let corrected = match to {
            Some(to) => {
                self.first_unsealed.set(self.first_unsealed.get().min(to));
                let sql = "UPDATE usage SET epoch = ?, boot = ? WHERE epoch = ? AND boot = ?";
                Corrected::Moved(transaction.execute(sql, params![to, next.0, from, boot.0])? as u64)
            }
            None => {
                let put = "INSERT INTO quarantined (epoch, actor, metric, boot, units, reason)
                           SELECT epoch, actor, metric, boot, units, ? FROM usage WHERE epoch = ? AND boot = ?";
                let rows = transaction.execute(put, params![CLOCK, from, boot.0])?;
                transaction
                    .execute("DELETE FROM usage WHERE epoch = ? AND boot = ?", params![from, boot.0])?;
                Corrected::Quarantined(rows as u64)
            }
        };
        transaction.commit()?;
        Ok(corrected)
    }

    /// How many rows are quarantined.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn quarantined_rows(&self) -> Result<u64, JournalError> {
        let mut count =
            self.connection.prepare_cached("SELECT count(*) FROM quarantined WHERE units > booked")?;
        Ok(count.query_row((), |row| row.get(0))?)
    }

    /// What is quarantined, by epoch, actor and metric; at most `limit` rows.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn quarantined(&self, limit: u32) -> Result<Vec<Quarantined>, JournalError> {
        let mut find = self.connection.prepare_cached(
            "SELECT epoch, actor, metric, sum(units - booked), min(reason) FROM quarantined WHERE units > booked
             GROUP BY epoch, actor, metric ORDER BY epoch, actor, metric LIMIT ?",
        )?;
        let mut rows = find.query([limit])?;
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            let name: String = row.get(1)?;
            let actor = ActorId::new(&name).map_err(|error| JournalError::Damaged(error.to_string()))?;
            let used = Used { actor, metric: row.get(2)?, units: u128::from(row.get::<_, u64>(3)?) };
            all.push(Quarantined { epoch: row.get(0)?, used, reason: row.get(4)? });
        }
        Ok(all)
    }

    /// Books everything that is quarantined in an epoch, under the name `boot`, which nobody else has. Says how many rows
    /// that were; `None` if the epoch is sealed, and nothing is changed.
    ///
    /// # Errors
    /// [`JournalError`]; nothing is changed then.
    pub fn book_quarantined(&mut self, epoch: u64, boot: BootId) -> Result<Option<u64>, JournalError> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if document(&transaction, epoch)?.is_some() {
            return Ok(None);
        }
        self.first_unsealed.set(self.first_unsealed.get().min(epoch));
        let put = "INSERT INTO usage (epoch, actor, metric, boot, units)
                   SELECT ?, actor, metric, ?, sum(units - booked) FROM quarantined WHERE units > booked
                   GROUP BY actor, metric";
        transaction.execute(put, params![epoch, boot.0])?;
        // Not deleted: a process that still counts in the same epoch writes its sums again, with what is booked in them.
        let rows = transaction.execute("UPDATE quarantined SET booked = units WHERE units > booked", ())?;
        transaction.commit()?;
        Ok(Some(rows as u64))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Sealed, SigningKey, rows_of, seal_rows};

    const BOOT: BootId = BootId([1; 16]);
    const NEXT: BootId = BootId([2; 16]);

    fn journal() -> Journal {
        Journal::in_memory(Duration::from_secs(60)).unwrap()
    }

    fn page(epoch: u64, units: u64) -> Page {
        Page { epoch, units: vec![(ActorId::new("a").unwrap(), "m", units)] }
    }

    fn seal(journal: &mut Journal, epoch: u64) {
        let used = journal.used(epoch).unwrap();
        let (file, root) = rows_of(&used).unwrap();
        let seal = seal_rows(&SigningKey::generate().unwrap(), epoch, used.len(), root).unwrap();
        let object = crate::SnapshotFiles::in_memory().keep(&file).unwrap();
        journal.seal(&Sealed { seal, object }).unwrap();
    }

    fn units(journal: &Journal, epoch: u64) -> u128 {
        journal.used(epoch).unwrap().iter().map(|used| used.units).sum()
    }

    fn quarantined(journal: &Journal) -> Vec<(u64, u128, String)> {
        let rows = journal.quarantined(9).unwrap();
        rows.into_iter().map(|row| (row.epoch, row.used.units, row.reason)).collect()
    }

    #[test]
    fn what_comes_after_the_seal_is_kept_without_what_was_sealed() {
        let mut journal = journal();
        assert_eq!(journal.book(BOOT, &[page(7, 5)]).unwrap(), 0);
        seal(&mut journal, 7);
        assert_eq!(journal.book(BOOT, &[page(7, 8)]).unwrap(), 1);
        assert_eq!(journal.book(BOOT, &[page(7, 9)]).unwrap(), 1);
        assert_eq!((units(&journal, 7), quarantined(&journal)), (5, vec![(7, 4, "late".to_owned())]));
        assert_eq!(journal.book_quarantined(7, NEXT).unwrap(), None, "a sealed epoch takes nothing");
        assert_eq!(journal.book_quarantined(8, NEXT).unwrap(), Some(1));
        assert_eq!((units(&journal, 8), journal.quarantined_rows().unwrap()), (4, 0));
        assert_eq!(journal.book(BOOT, &[page(7, 12)]).unwrap(), 1);
        assert_eq!(quarantined(&journal), [(7, 3, "late".to_owned())], "without what is booked in 8");
        assert_eq!(journal.book_quarantined(9, BootId([3; 16])).unwrap(), Some(1));
        assert_eq!((units(&journal, 8), units(&journal, 9)), (4, 3));
    }

    #[test]
    fn every_epoch_with_usage_is_found_until_it_is_sealed_whenever_it_is_written() {
        let mut journal = journal();
        let pages: Vec<_> = (1..=70).map(|epoch| page(epoch, 1)).collect();
        journal.book(BOOT, &pages).unwrap();
        assert_eq!(journal.unsealed(100).unwrap(), (1..=64).collect::<Vec<_>>());
        (1..=64).filter(|epoch| *epoch != 40).for_each(|epoch| seal(&mut journal, epoch));
        assert_eq!(journal.unsealed(100).unwrap(), [40, 65, 66, 67, 68, 69, 70]);
        [40, 65, 66, 67, 68, 69, 70].into_iter().for_each(|epoch| seal(&mut journal, epoch));
        assert_eq!(journal.unsealed(100).unwrap(), [0_u64; 0]);
        journal.book(BOOT, &[page(80, 1), page(100, 1)]).unwrap();
        assert_eq!(
            journal.unsealed(100).unwrap(),
            [80],
            "a page of before is written late, and 100 is not over"
        );
        seal(&mut journal, 80);
        assert_eq!(journal.unsealed(100).unwrap(), [0_u64; 0]);
        journal.correct((BOOT, NEXT), Correction { from: 100, to: Some(90) }).unwrap();
        assert_eq!(journal.unsealed(100).unwrap(), [90], "the clock was ahead");
        seal(&mut journal, 90);
        journal.book(BOOT, &[page(90, 9)]).unwrap();
        assert_eq!(journal.book_quarantined(85, BOOT).unwrap(), Some(1));
        assert_eq!(journal.unsealed(100).unwrap(), [85]);
        // What another process writes now is of the present, or of an epoch that has just ended.
        assert_eq!(journal.unsealed(102).unwrap(), [85]);
    }

    #[test]
    fn a_correction_moves_what_this_process_has_written_and_nothing_else() {
        let mut journal = journal();
        journal.book(BOOT, &[page(7, 5)]).unwrap();
        journal.book(BootId([9; 16]), &[page(7, 2)]).unwrap();
        let moved = journal.correct((BOOT, NEXT), Correction { from: 7, to: Some(3) }).unwrap();
        assert_eq!((moved, units(&journal, 7), units(&journal, 3)), (Corrected::Moved(1), 2, 5));
        journal.book(NEXT, &[page(3, 6)]).unwrap();
        assert_eq!(units(&journal, 3), 6, "it goes on where it was");
    }

    #[test]
    fn what_belongs_to_no_single_epoch_or_to_a_sealed_one_is_quarantined() {
        let mut journal = journal();
        journal.book(BOOT, &[page(3, 1), page(7, 5)]).unwrap();
        let unknown = journal.correct((BOOT, NEXT), Correction { from: 7, to: None }).unwrap();
        assert_eq!((unknown, units(&journal, 7)), (Corrected::Quarantined(1), 0));
        seal(&mut journal, 3);
        journal.book(NEXT, &[page(8, 2)]).unwrap();
        let sealed = journal.correct((NEXT, BOOT), Correction { from: 8, to: Some(3) }).unwrap();
        assert_eq!((sealed, units(&journal, 8)), (Corrected::Quarantined(1), 0));
        let clock = || "clock".to_owned();
        assert_eq!(quarantined(&journal), [(7, 5, clock()), (8, 2, clock())]);
        let signed = journal.correct((BOOT, NEXT), Correction { from: 3, to: Some(9) }).unwrap();
        assert_eq!((signed, units(&journal, 3)), (Corrected::Sealed, 1), "what is signed for stays");
    }
}
