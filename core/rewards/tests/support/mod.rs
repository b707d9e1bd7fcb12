//! Small epochs for tests: policies, snapshots and input sets in a line each.
#![allow(dead_code, reason = "each test program uses a part of this")]

use std::collections::{BTreeMap, BTreeSet};

use rewards::{
    Amount, Epoch, InputSet, Int, Limits, Metric, Policy, PolicyId, PolicyTerms, PublicKey, Quarantine,
    Residual, Row, RowsHasher, Ruleset, Sign, Signature, Snapshot, Verify,
};
use types::ActorId;

/// A node's rows: actor, metric, units.
pub(crate) type Rows = BTreeMap<(String, String), u128>;

pub(crate) fn epoch(number: u64) -> Epoch {
    Epoch::new(number).unwrap()
}

pub(crate) fn actor(name: &str) -> ActorId {
    ActorId::new(name).unwrap()
}

/// Terms that pay a pool for `served.bytes` and, at half the weight, for `stored.bytes`; no cap, no minimum.
pub(crate) fn terms(ruleset: Ruleset, pool: u128) -> PolicyTerms {
    let metric = |name| Metric::new(name).unwrap();
    PolicyTerms {
        id: PolicyId::new("default").unwrap(),
        version: Int::from(1),
        ruleset,
        pool: Amount::new(pool).unwrap(),
        weights_ppm: [(metric("served.bytes"), 1_000_000), (metric("stored.bytes"), 500_000)].into(),
        cap_ppm: 1_000_000,
        min_payout: Amount::ZERO,
        residual: Residual::Keep,
        first_epoch: epoch(0),
        last_epoch: None,
    }
}

pub(crate) fn policy(ruleset: Ruleset, pool: u128) -> Policy {
    Policy::new(terms(ruleset, pool)).unwrap()
}

pub(crate) fn rows(list: &[(&str, &str, u128)]) -> Rows {
    list.iter().map(|(actor, metric, units)| (((*actor).to_owned(), (*metric).to_owned()), *units)).collect()
}

/// Rows of `served.bytes` alone.
pub(crate) fn served(list: &[(&str, u128)]) -> Rows {
    list.iter().map(|(actor, units)| (((*actor).to_owned(), "served.bytes".to_owned()), *units)).collect()
}

pub(crate) fn each(rows: &Rows) -> impl Iterator<Item = Row<'_>> {
    rows.iter().map(|((actor, metric), units)| Row { actor, metric, units: *units })
}

/// The snapshot of a node with these rows, of epoch 7.
pub(crate) fn snapshot(node: &str, rows: &Rows) -> Snapshot {
    let mut hasher = RowsHasher::new();
    each(rows).for_each(|row| hasher.push(row).unwrap());
    let count = Int::new(hasher.rows()).unwrap();
    Snapshot { node: actor(node), epoch: epoch(7), rows: count, rows_root: hasher.finish() }
}

pub(crate) fn node(at: usize) -> String {
    format!("node-{at}")
}

/// Epoch 7 of `node-0`, `node-1` and so on.
pub(crate) fn inputs(nodes: &[Rows]) -> Result<InputSet, Quarantine> {
    inputs_in_order(nodes, 0..nodes.len())
}

/// The same, with the snapshots taken in another order.
pub(crate) fn inputs_in_order(
    nodes: &[Rows],
    order: impl IntoIterator<Item = usize>,
) -> Result<InputSet, Quarantine> {
    let known: BTreeSet<_> = (0..nodes.len()).map(|at| actor(&node(at))).collect();
    let mut set = InputSet::builder(epoch(7), known, Limits::default());
    for at in order {
        let mut taken = set.snapshot(snapshot(&node(at), &nodes[at]))?;
        for row in each(&nodes[at]) {
            taken.row(row)?;
        }
        taken.finish()?;
    }
    set.close()
}

/// A stand-in for Ed25519: who has the name can sign. Good enough to see which bytes are signed and checked.
pub(crate) struct Seal(pub(crate) u8);

impl Seal {
    fn over(key: PublicKey, message: &[u8]) -> Signature {
        let mut bytes = [0; 64];
        blake3::Hasher::new_keyed(key.as_bytes()).update(message).finalize_xof().fill(&mut bytes);
        Signature::new(bytes)
    }
}

impl Sign for Seal {
    fn public_key(&self) -> PublicKey {
        PublicKey::new([self.0; 32])
    }

    fn sign(&self, message: &[u8]) -> Signature {
        Self::over(self.public_key(), message)
    }
}

impl Verify for Seal {
    fn is_signed(&self, key: &PublicKey, message: &[u8], signature: &Signature) -> bool {
        Self::over(*key, message) == *signature
    }
}
