//! The names of the files that an epoch consists of.
//!
//! A bundle is a folder. Everything in it can be checked by whoever has it, without asking anybody.

use crate::{Digest, PublicKey};

/// The policy with its signatures.
pub const POLICY: &str = "policy.json";
/// The list of snapshots.
pub const INPUTS: &str = "inputs.json";
/// The run.
pub const RUN: &str = "run.json";
/// Everybody's line.
pub const ALLOCATIONS: &str = crate::Manifest::ALLOCATIONS;
/// The run's commitment, and a line feed.
pub const COMMITMENT: &str = "commitment";

/// Why nothing more of an epoch is paid.
pub const QUARANTINE: &str = "quarantine.json";

/// Snapshots that are left out.
pub const EXCLUDED: &str = "excluded.json";
/// Payouts whose receivers cannot be paid.
pub const PARKED: &str = "parked.json";

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
