//! Accounting and rewards: usage is booked by epoch, sealed, turned into payouts that anybody can check, and paid once.
//!
//! ```text
//! meters ─▶ accountant ─▶ sealed snapshots ─┐
//! listener ─▶ work_req ─▶ compute scheduler ┴▶ work ─▶ workers ─▶ results ─▶ artifact writer ─▶ intents ─▶ emitter ─▶ ledger
//! ```
//!
//! What an epoch has come to stands in the [`store`], and every step is one conditional update there. So a process that
//! dies anywhere is taken up by the next one, and whatever is done twice comes to the same.

// Its models are of what it is built on alone; see `tests/loom.rs`.
#![cfg(not(loom))]

mod accountant;
mod artifacts;
mod build;
mod calculus;
mod config;
mod crash;
mod emitter;
mod epoch_clock;
mod error;
mod files;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod health;
mod http;
mod ledger;
mod metrics;
mod open;
mod payouts;
mod policies;
mod reconcile;
mod registry;
mod scheduler;
mod settings;
mod shared;
pub mod store;
mod topology;
mod worker;
mod writer;

pub use build::{LoadAuthority, Rewarder, RewarderSettings};
pub use config::{ConcurrencyConfig, LimitsConfig, RewarderConfig};
pub use crash::CRASH_POINTS;
pub use epoch_clock::WallClock;
pub use error::RewarderError;
pub use open::{BuildError, StorePlace, node_key, seal_epoch};
pub use payouts::{FoundPayouts, find_payouts, payout_batch};
pub use settings::Authority;
pub use topology::TOPOLOGY;
