//! Who is paid what for an epoch, in integers, so that anybody who has the inputs comes to the same bytes.
//!
//! ```text
//! Σ payouts + residual = pool
//! ```
//!
//! That equation holds for every [`Run`] there is: [`compute`] asserts it before it returns one, and gives a
//! [`Quarantine`] instead of a run whose sums do not close. Money is an [`Amount`] of minor units; there is no float, no
//! clock, no node name and no build in what is computed, and the order in which usage arrives does not matter.
//!
//! The way of an epoch:
//!
//! 1. Nodes seal what they counted: rows in one order, named by their hash ([`RowsHasher`], [`Snapshot`]).
//! 2. The snapshots that count become an [`InputSet`], which adds them up while it checks every row.
//! 3. [`compute`] applies a [`Policy`] and gives a [`Run`]: `run.json` ([`Run::document`]), `allocations.jsonl`
//!    ([`Run::write_line`]), and the commitment over both.
//! 4. [`Run::batches`] says what is to be transferred, under keys that make paying twice a conflict.
//! 5. Who was paid gets a [`Proof`]; who doubts recomputes the whole with [`verify`].
//!
//! Usage is what nodes say of themselves. Nothing here makes a lying node honest: a run proves that the stated rows were
//! paid by the stated rules.

mod allocation;
mod amount;
mod apportion;
mod attest;
pub mod bundle;
pub mod claims;
mod decimal;
mod digest;
#[cfg(feature = "ed25519")]
pub mod ed25519;
mod excluded;
mod explain;
mod ids;
mod inputs;
mod intents;
mod json;
mod keys;
mod lines;
mod manifest;
mod merkle;
mod parked;
mod policy;
mod proof;
mod quarantine;
mod rows;
mod ruleset;
mod run;
mod seal;
mod usage;
mod verify;
mod wide;

pub use allocation::{Allocation, AllocationLine, Rule};
pub use amount::{Amount, AmountError};
pub use attest::Attestation;
pub use digest::{Digest, InvalidDigest};
pub use excluded::{Excluded, ExclusionNotice, MAX_SNAPSHOT_ACTORS, MAX_SNAPSHOT_POINTS, judge_snapshot};
pub use explain::{Explanation, Points};
pub use ids::{Epoch, InvalidName, Metric, PolicyId};
pub use inputs::{InputSet, InputSetBuilder, Limits, SnapshotRows};
pub use intents::{Intent, Transfer};
pub use json::{DocumentError, Int, Json, JsonError};
pub use keys::{InvalidKey, PublicKey, Sign, Signature, Verify};
pub use lines::{LineError, LineSearch};
pub use manifest::{AllocationsFile, Manifest};
pub use merkle::{Tree, root_of_path};
pub use parked::{ParkedPayout, ParkedPayouts};
pub use policy::{Policy, PolicyError, PolicyTerms, Residual, SignedPolicy};
pub use proof::{Proof, ProofError};
pub use quarantine::{Quarantine, QuarantineNotice};
pub use rows::{Row, RowFault, RowsHasher, read_row, write_row};
pub use ruleset::Ruleset;
pub use run::{Run, compute};
pub use seal::{Snapshot, SnapshotSeal};
pub use usage::{Usage, UsageFault, UsageTable};
pub use verify::{Claim, LineCheck, Mismatch, verify, within};
