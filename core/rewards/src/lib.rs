//! The payouts of an epoch, computed in integers, so that anyone who has the inputs computes the same bytes.
//!
//! ```text
//! Σ payouts + residual = pool
//! ```
//!
//! This equation holds for every [`Run`]: [`compute`] asserts it before it returns one, and returns a
//! [`Quarantine`] instead of a run whose sums do not match. A run of ruleset 3 also takes over amounts that were
//! carried to it, and carries on amounts below the minimum; these are then part of the two sides. Money is an
//! [`Amount`] of minor units. The result contains no float, clock, node name or build, and does not depend on the
//! order in which usage arrives. The division without loss is the method of largest remainders (Hamilton's method).
//!
//! The life of an epoch:
//!
//! 1. Nodes seal what they counted: rows in a fixed order, named by their hash ([`RowsHasher`], [`Snapshot`]).
//! 2. The snapshots that count become an [`InputSet`], which adds them up while it checks every row.
//! 3. [`compute`] applies a [`Policy`] and returns a [`Run`]: `run.json` ([`Run::document`]), `allocations.jsonl`
//!    ([`Run::write_line`]), and the commitment over both.
//! 4. [`Run::batches`] returns the transfers, under idempotency keys that make a second payment a conflict.
//! 5. A payee gets a [`Proof`], a Merkle inclusion proof (RFC 6962); [`verify`] recomputes the whole run.
//!
//! Usage is self-reported. Nothing here makes a lying node honest: a run proves that the stated rows were paid by
//! the stated rules.

mod allocation;
mod amount;
mod apportion;
mod attest;
mod brought;
pub mod bundle;
mod carried;
pub mod claims;
mod correction;
mod decimal;
mod digest;
mod dispute;
mod due;
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
mod order;
mod parked;
mod payees;
mod policy;
mod proof;
mod quarantine;
mod rows;
mod ruleset;
mod run;
mod seal;
mod signatures;
mod usage;
mod verify;
mod wide;

pub use allocation::{Allocation, AllocationLine, Rule};
pub use amount::{Amount, AmountError};
pub use attest::Attestation;
pub use brought::{Brought, BroughtNames};
pub use carried::{Carried, CarriedFile};
pub use correction::{Correction, RunName, SignedCorrection};
pub use digest::{Digest, InvalidDigest};
pub use dispute::Dispute;
pub use due::Due;
pub use excluded::{Excluded, ExclusionNotice, MAX_SNAPSHOT_ACTORS, MAX_SNAPSHOT_POINTS, judge_snapshot};
pub use explain::{Explanation, Points};
pub use ids::{Epoch, InvalidName, Metric, PolicyId};
pub use inputs::{InputSet, InputSetBuilder, Limits, SnapshotRows};
pub use intents::{Intent, Transfer, chain_key};
pub use json::{DocumentError, Int, Json, JsonError};
pub use keys::{InvalidKey, PublicKey, Sign, Signature, Verify};
pub use lines::{LineError, LineSearch};
pub use manifest::{AllocationsFile, Linked, Manifest};
pub use merkle::{Tree, root_of_path};
pub use order::{Action, Order, SignedOrder};
pub use parked::{ParkedPayout, ParkedPayouts};
pub use payees::{Consent, Delegation, PayeeEntry, Payees, PayeesError, SignedPayees};
pub use policy::{Policy, PolicyError, PolicyTerms, Residual, SignedPolicy};
pub use proof::{Proof, ProofError};
pub use quarantine::{Quarantine, QuarantineNotice};
pub use rows::{Row, RowFault, RowsHasher, read_row, write_row};
pub use ruleset::Ruleset;
pub use run::{Run, compute, compute_after};
pub use seal::{Snapshot, SnapshotSeal};
pub use signatures::SignatureError;
pub use usage::{Usage, UsageFault, UsageTable};
pub use verify::{Claim, LineCheck, Mismatch, verify, verify_after, within};
