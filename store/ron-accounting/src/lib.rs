//! Accounting: what was used and provided, by epoch, written down every second, and sealed so that others can check it.
//!
//! ```text
//! Meter (hot path) ─▶ Tally: the epoch's sums ─▶ Journal: SQLite, once a second ─▶ seal: Parquet in the CAS, signed rows
//! ```
//!
//! * [`Windows`] says which epoch a moment is in, when it ends and when its inputs close.
//! * [`Tally`] works out of meters, which only grow, what was used in which epoch.
//! * [`Journal`] keeps that, per process, so that a crash costs at most what was used since the last write, and nothing
//!   is counted twice.
//! * [`rows_of`] and [`seal_rows`] make a snapshot; [`check_seal`] and [`check_rows`] judge somebody else's,
//!   [`read_rows`] reads its file, which may be anybody's, and [`take_in`] adds it to what an epoch is paid by.
//! * [`Accounts`] puts these together: [`Accounts::flush`] and [`Accounts::seal`] are all that a service calls.
//!
//! **Everything here blocks**, but for [`Windows`] and [`Tally`]. Usage is what a node says of itself: a seal proves who
//! said it, not that it is so.

mod accounts;
mod files;
mod journal;
mod rowfile;
mod sign;
mod snapshot;
mod tally;
mod window;

pub use accounts::{Accounts, AccountsError, Announce, Flushed};
pub use files::{Rows, SnapshotFiles};
pub use journal::{BootId, Corrected, Journal, JournalError, Quarantined, Used};
pub use rewards::ed25519::Ed25519;
pub use rowfile::{FileFault, MAX_FILE_ROWS, read_rows, take_in};
pub use sign::{KeyError, SigningKey, node_actor, node_id};
pub use snapshot::{MAX_ROW_BYTES, Sealed, SnapshotError, check_rows, check_seal, rows_of, seal_rows};
pub use tally::{Correction, MAX_PAGES, Page, Reading, Tally};
pub use types::NodeId;
pub use window::Windows;
