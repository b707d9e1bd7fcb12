//! Accounting and rewards: usage is recorded by epoch, sealed, turned into payouts that anyone can verify, and paid
//! exactly once.
//!
//! ```text
//! meters ─▶ accountant ─▶ sealed snapshots ─┐
//! listener ─▶ work_req ─▶ compute scheduler ┴▶ work ─▶ workers ─▶ results ─▶ artifact writer ─▶ intents ─▶ emitter ─▶ ledger
//! ```
//!
//! The state of an epoch is in the [`store`], and every step is one conditional update there. So after a crash at
//! any point the next process continues, and a step that runs twice has the same result.

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
mod links;
mod metrics;
mod open;
mod payouts;
mod policies;
mod reconcile;
mod registry;
mod repair;
mod scheduler;
mod settings;
mod shared;
pub mod store;
mod taken_over;
mod topology;
mod worker;
mod writer;

pub use build::{LoadAuthority, Rewarder, RewarderSettings};
pub use config::{ConcurrencyConfig, LimitsConfig, RewarderConfig};
pub use crash::CRASH_POINTS;
pub use epoch_clock::WallClock;
pub use error::RewarderError;
pub use links::other_follower;
pub use open::{BuildError, StorePlace, node_key, seal_epoch};
pub use payouts::{FoundPayouts, find_payouts, payout_batch};
pub use settings::Authority;
pub use topology::TOPOLOGY;
