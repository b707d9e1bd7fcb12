//! The names of the files that an epoch consists of.
//!
//! A bundle is a folder. Everything in it can be checked by whoever has it, without asking anybody.

use crate::{Digest, PublicKey};

/// The policy with its signatures.
pub const POLICY: &str = "policy.json";
/// The list of snapshots.
pub const INPUTS: &str = "inputs.json";
/// Name of the file with the run's manifest.
pub const RUN: &str = "run.json";
/// Name of the file with one line for each actor.
pub const ALLOCATIONS: &str = crate::Manifest::ALLOCATIONS;
/// The run's commitment, and a line feed.
pub const COMMITMENT: &str = "commitment";

/// Why nothing more of an epoch is paid.
pub const QUARANTINE: &str = "quarantine.json";

/// Snapshots that are left out.
pub const EXCLUDED: &str = "excluded.json";
/// Payouts whose receivers cannot be paid.
pub const PARKED: &str = "parked.json";

/// What a run of ruleset 3 takes over from before it.
pub const BROUGHT: &str = "brought.json";
/// What the run before carried over, one line for each actor.
pub const CARRIED: &str = "carried.jsonl";
/// The registry of payees with its signatures.
pub const PAYEES: &str = "payees.json";

/// Signed orders about an epoch, one a line.
pub const ORDERS: &str = "orders.jsonl";

/// Where somebody's objection is: `disputes/<digits of its hash>.json`.
#[must_use]
pub fn dispute_file(hash: Digest) -> String {
    format!("disputes/{}.json", hash.hex())
}

/// Where a correction is: `corrections/<digits of its hash>.json`.
#[must_use]
pub fn correction_file(hash: Digest) -> String {
    format!("corrections/{}.json", hash.hex())
}

/// Where a snapshot's rows are: `snapshots/<digits of its root>.jsonl`.
#[must_use]
pub fn rows_file(rows_root: Digest) -> String {
    format!("snapshots/{}.jsonl", rows_root.hex())
}

/// Where a snapshot's rows are instead, in the file that the node sealed: `snapshots/<digits of its root>.parquet`.
#[must_use]
pub fn sealed_rows_file(rows_root: Digest) -> String {
    format!("snapshots/{}.parquet", rows_root.hex())
}

/// Where a snapshot's seal is: `snapshots/<digits of its root>.<digits of the key>.seal.json`, because two nodes may
/// have counted the same.
#[must_use]
pub fn seal_file(rows_root: Digest, key: PublicKey) -> String {
    format!("snapshots/{}.{}.seal.json", rows_root.hex(), digits(key))
}

/// Where somebody's attestation is: `attestations/<digits of the key>.json`.
#[must_use]
pub fn attestation_file(key: PublicKey) -> String {
    format!("attestations/{}.json", digits(key))
}

fn digits(key: PublicKey) -> String {
    Digest::new(*key.as_bytes()).hex()
}
