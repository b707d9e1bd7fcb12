//! The rows of a file taken in as those of a snapshot.

use rewards::{InputSetBuilder, Quarantine, Snapshot};

use super::read_rows;
use crate::SnapshotError;

/// Rows between two words on how far it is.
const STEP: u64 = 4096;

/// Takes the rows of a file, which is untrusted, into `set` as those of `snapshot`, whose seal is for the caller to
/// check.
/// `progress` is told how many more were taken, now and then.
///
/// # Errors
/// [`Quarantine`], if a row cannot stand there or the rows are not those that the snapshot is named by.
pub fn take_in(
    set: &mut InputSetBuilder,
    snapshot: &Snapshot,
    file: &[u8],
    mut progress: impl FnMut(u64),
) -> Result<(), Quarantine> {
    let mut rows = set.snapshot(snapshot.clone())?;
    let mut since = 0;
    let read = read_rows(file, |row| {
        since += 1;
        if since == STEP {
            progress(STEP);
            since = 0;
        }
        rows.row(row).map_err(NotTaken::Rows)
    });
    progress(since);
    let node = || snapshot.node.clone();
    match read {
        Ok(()) => rows.finish(),
        Err(NotTaken::Rows(wrong)) => Err(wrong),
        Err(NotTaken::File(SnapshotError::Row { row, fault })) => {
            Err(Quarantine::Row { node: node(), row, fault })
        }
        // A file that has no rows to read has others than those that were sealed.
        Err(NotTaken::File(_)) => Err(Quarantine::RowsDiffer(node())),
    }
}

/// Why the rows of a file are not taken in.
enum NotTaken {
    File(SnapshotError),
    Rows(Quarantine),
}

impl From<SnapshotError> for NotTaken {
    fn from(error: SnapshotError) -> Self {
        Self::File(error)
    }
}
