//! Accounting: what was used and provided, by epoch, recorded every second, and sealed so that others can verify
//! it.
//!
//! ```text
//! Meter (hot path) ─▶ Tally: the epoch's sums ─▶ Journal: SQLite, once a second ─▶ seal: Parquet in the CAS, signed rows
//! ```
//!
//! * [`Windows`] computes the epoch of a moment, when it ends and when its inputs close.
//! * [`Tally`] computes from meters, which only grow, what was used in which epoch.
//! * [`Journal`] stores that, per process, so that a crash loses at most the usage since the last write, and
//!   nothing is counted twice.
//! * [`rows_of`] and [`seal_rows`] make a snapshot. [`check_seal`] and [`check_rows`] verify another node's
//!   snapshot, [`read_rows`] reads its file, which is untrusted, and [`take_in`] adds it to the inputs of an epoch.
//! * [`Accounts`] combines these: a service calls only [`Accounts::flush`] and [`Accounts::seal`].
//!
//! **Everything here blocks**, except [`Windows`] and [`Tally`]. Usage is self-reported: a seal proves which node
//! reported it, not that it is true.

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
