//! A stranger's check: compute the epoch again and compare every byte.

use crate::{Brought, Digest, InputSet, Manifest, Policy, Quarantine, Row, Run, compute_after};

/// What somebody says an epoch came to.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// The bytes of `run.json`.
    pub manifest: &'a [u8],
    /// The published commitment of the run.
    pub commitment: Digest,
}

/// Where a claim differs from what is computed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// There is nothing to compare: the epoch cannot be paid from these inputs.
    #[error("the epoch cannot be paid: {0}")]
    Quarantined(#[from] Quarantine),
    /// The manifest is not one.
    #[error("run.json: {0}")]
    Unreadable(#[from] crate::DocumentError),
    /// A field of the manifest differs.
    #[error("run.json says something else than what is computed: {0}")]
    Field(&'static str),
    /// The commitment is not that of the manifest.
    #[error("the commitment is not that of run.json")]
    Commitment,
    /// A line of the allocations differs. Counted from zero, and shown as editors count.
    #[error("line {} of allocations.jsonl is not what is computed", .0 + 1)]
    Line(usize),
    /// Rows that are there have more units of an actor and a metric than the allocations say.
    #[error("the rows have {rows} units of {metric} of {actor}, and allocations.jsonl has {line}")]
    Units {
        /// The name of the actor.
        actor: String,
        /// The name of the metric.
        metric: String,
        /// Units in the rows that are there.
        rows: u128,
        /// Units in the actor's line.
        line: u128,
    },
    /// There are lines missing or too many.
    #[error("allocations.jsonl has {found} lines instead of {expected}")]
    Lines {
        /// The number that was found.
        found: usize,
        /// How many there have to be.
        expected: usize,
    },
}

/// Recomputes the epoch and compares the manifest and the commitment. The lines are compared with [`LineCheck`].
///
/// # Errors
/// The first [`Mismatch`].
pub fn verify(policy: &Policy, inputs: &InputSet, claim: Claim<'_>) -> Result<Run, Mismatch> {
    verify_after(policy, inputs, &Brought::default(), claim)
}

/// The same of a run that takes something over.
///
/// # Errors
/// The first [`Mismatch`].
pub fn verify_after(
    policy: &Policy,
    inputs: &InputSet,
    brought: &Brought,
    claim: Claim<'_>,
) -> Result<Run, Mismatch> {
    let claimed = Manifest::read(claim.manifest)?;
    let run = compute_after(policy, inputs, brought)?;
    if let Some(field) = difference(&claimed, run.manifest()) {
        return Err(Mismatch::Field(field));
    }
    debug_assert_eq!(claim.manifest, run.document(), "equal in every field, and canonical");
    if claim.commitment == run.commitment() { Ok(run) } else { Err(Mismatch::Commitment) }
}

/// Sees to it that the units of some of an epoch's snapshots are within those that `claimed` says it has in all, for the
/// metrics that the policy pays for. For those who have not all rows, and take the rest from the allocations.
///
/// # Errors
/// [`Mismatch::Units`], with the first actor and metric for which they are not.
pub fn within(policy: &Policy, some: &InputSet, claimed: &InputSet) -> Result<(), Mismatch> {
    let paid_for =
        |row: &Row<'_>| policy.terms().weights_ppm.keys().any(|metric| metric.as_str() == row.metric);
    for row in some.usage().rows().filter(paid_for) {
        let line = claimed.usage().units(row.actor, row.metric);
        if row.units > line {
            let (actor, metric) = (row.actor.to_owned(), row.metric.to_owned());
            return Err(Mismatch::Units { actor, metric, rows: row.units, line });
        }
    }
    Ok(())
}

/// The first field that differs, beginning with what the others follow from.
fn difference(claimed: &Manifest, computed: &Manifest) -> Option<&'static str> {
    let fields = [
        ("epoch", claimed.epoch == computed.epoch),
        ("policy", policy_of(claimed) == policy_of(computed)),
        ("ruleset", claimed.ruleset == computed.ruleset),
        ("inputs", (claimed.inputs_root, claimed.snapshots) == (computed.inputs_root, computed.snapshots)),
        ("brought", brought_of(claimed) == brought_of(computed)),
        ("run_key", claimed.run_key == computed.run_key),
        ("pool", claimed.pool == computed.pool),
        ("score_total", claimed.score_total == computed.score_total),
        ("paid", claimed.paid == computed.paid),
        ("residual", claimed.residual == computed.residual),
        ("carried_out", claimed.linked == computed.linked),
        ("batches", claimed.batches == computed.batches),
        ("allocations", claimed.allocations == computed.allocations),
    ];
    fields.into_iter().find(|(_, same)| !same).map(|(name, _)| name)
}

fn brought_of(manifest: &Manifest) -> Option<&crate::BroughtNames> {
    manifest.linked.as_ref().map(|linked| &linked.brought)
}

fn policy_of(manifest: &Manifest) -> (&crate::PolicyId, crate::Int, Digest) {
    (&manifest.policy_id, manifest.policy_version, manifest.policy_hash)
}

/// Compares the lines of `allocations.jsonl` with those of a run, one after the other.
#[derive(Debug)]
pub struct LineCheck<'a> {
    run: &'a Run,
    at: usize,
    expected: Vec<u8>,
}

impl<'a> LineCheck<'a> {
    /// Starts a comparison with the run.
    #[must_use]
    pub const fn new(run: &'a Run) -> Self {
        Self { run, at: 0, expected: Vec::new() }
    }

    /// Compares the next line, given without its line feed.
    ///
    /// # Errors
    /// [`Mismatch`] if it differs, or if there is none in the run.
    pub fn line(&mut self, line: &[u8]) -> Result<(), Mismatch> {
        if self.at == self.run.lines() {
            return Err(Mismatch::Lines { found: self.at + 1, expected: self.at });
        }
        self.expected.clear();
        self.run.write_line(self.at, &mut self.expected);
        if self.expected.strip_suffix(b"\n") != Some(line) {
            return Err(Mismatch::Line(self.at));
        }
        self.at += 1;
        Ok(())
    }

    /// There were as many lines as there have to be.
    ///
    /// # Errors
    /// [`Mismatch::Lines`] if not.
    pub fn finish(self) -> Result<(), Mismatch> {
        let expected = self.run.lines();
        if self.at == expected { Ok(()) } else { Err(Mismatch::Lines { found: self.at, expected }) }
    }
}
