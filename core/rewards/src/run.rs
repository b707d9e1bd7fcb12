//! An epoch computed: who is paid what, the documents that say so, and the sums that close.

use types::{ActorId, ObjectId};

use crate::{
    Allocation, Amount, Digest, Epoch, InputSet, Int, Intent, Json, Manifest, Points, Policy, Proof,
    Quarantine, Residual, Row, Rule,
    allocation::{AllocationLine, Entry},
    digest::Domain,
    intents,
    manifest::AllocationsFile,
    merkle::Tree,
    ruleset::Terms,
};

/// A computed epoch. `Σ payouts + residual = pool`.
#[derive(Clone, Debug)]
pub struct Run {
    policy: Policy,
    inputs: InputSet,
    entries: Vec<Scored>,
    tree: Tree,
    manifest: Manifest,
    document: Vec<u8>,
    commitment: Digest,
}

/// An actor who counts.
#[derive(Clone, Copy, Debug)]
struct Scored {
    /// The actor's place in the order of all.
    place: u32,
    score: u128,
    entry: Entry,
}

/// Computes an epoch.
///
/// # Errors
/// [`Quarantine`], if the policy does not apply to the epoch, a sum overflows, or the sums do not close.
pub fn compute(policy: &Policy, inputs: &InputSet) -> Result<Run, Quarantine> {
    policy.applies_to(inputs.epoch())?;
    let (places, scores) = scores(policy, inputs)?;
    let add = |sum: u128, score: &u128| sum.checked_add(*score);
    let total = scores.iter().try_fold(0, add).ok_or(Quarantine::Overflow("scores"))?;
    let outcome = policy.terms().ruleset.apply(minor(policy), &scores, total);
    let scored = places.into_iter().zip(scores).zip(outcome.entries);
    let scored = scored.map(|((place, score), entry)| Scored { place, score, entry });
    let entries: Vec<_> = scored.map(|scored| unless_nobody(scored, inputs)).collect();
    let (paid, residual) = sums(policy.terms().pool, &entries, outcome.unshared)?;
    Ok(Run::new(policy.clone(), inputs.clone(), entries, Sums { paid, residual, total }))
}

/// What the points of everybody add up to.
pub(crate) fn total_score(policy: &Policy, inputs: &InputSet) -> Result<u128, Quarantine> {
    let (_, scores) = scores(policy, inputs)?;
    let add = |sum: u128, score: &u128| sum.checked_add(*score);
    scores.iter().try_fold(0, add).ok_or(Quarantine::Overflow("scores"))
}

fn minor(policy: &Policy) -> Terms {
    let terms = policy.terms();
    Terms { pool: terms.pool.minor(), cap: policy.cap().minor(), minimum: terms.min_payout.minor() }
}

/// The actors whose score is positive, in the order of their bytes, with their scores.
fn scores(policy: &Policy, inputs: &InputSet) -> Result<(Vec<u32>, Vec<u128>), Quarantine> {
    let usage = inputs.usage();
    let (mut places, mut scores) = (Vec::new(), Vec::new());
    for at in 0..usage.actors() {
        let points =
            |sum: u128, (row, weight): (Row<'_>, u32)| sum.checked_add(row.units.checked_mul(weight.into())?);
        let score = weighted(policy, inputs, at).try_fold(0, points);
        let score = score.ok_or(Quarantine::Overflow("scores"))?;
        if score > 0 {
            places.push(u32::try_from(at).map_err(|_| Quarantine::TooMany("actors"))?);
            scores.push(score);
        }
    }
    Ok((places, scores))
}

/// What the actor at `at` has of the metrics that count, with their weights.
fn weighted<'a>(policy: &'a Policy, inputs: &'a InputSet, at: usize) -> impl Iterator<Item = (Row<'a>, u32)> {
    let weights = &policy.terms().weights_ppm;
    // Both are in the order of metrics, so one walk over each finds all pairs.
    let mut weights = weights.iter().peekable();
    inputs.usage().of(at).filter_map(move |row| {
        while weights.next_if(|(metric, _)| metric.as_str() < row.metric).is_some() {}
        let (_, weight) = weights.next_if(|(metric, _)| metric.as_str() == row.metric)?;
        (row.units > 0).then_some((row, *weight))
    })
}

/// The crowd has a share, lest others gain by pushing somebody into it; but nobody who could be paid.
fn unless_nobody(mut scored: Scored, inputs: &InputSet) -> Scored {
    if inputs.usage().name(scored.place as usize) == ActorId::other().as_str() {
        scored.entry.paid = 0;
        scored.entry.rule = Rule::Nobody;
    }
    scored
}

/// What is paid and what is left, each added up by itself, so that comparing them with the pool says something.
fn sums(pool: Amount, entries: &[Scored], unshared: u128) -> Result<(Amount, Amount), Quarantine> {
    let mut paid = 0_u128;
    let mut left = unshared;
    for Scored { entry, .. } in entries {
        let held = entry.share.checked_sub(entry.paid);
        (paid, left) = held
            .and_then(|held| Some((paid.checked_add(entry.paid)?, left.checked_add(held)?)))
            .ok_or(Quarantine::Overflow("payouts"))?;
    }
    let (paid, residual) = Amount::new(paid).zip(Amount::new(left)).ok_or(Quarantine::Overflow("payouts"))?;
    let closes = paid.checked_add(residual) == Some(pool);
    debug_assert!(closes, "Σ payouts + residual = pool: {paid} + {residual} = {pool}");
    if closes { Ok((paid, residual)) } else { Err(Quarantine::Conservation { pool, paid, residual }) }
}

/// What was divided, and between how many points.
pub(crate) struct Base {
    pub(crate) pool: u128,
    pub(crate) total: u128,
}

struct Sums {
    paid: Amount,
    residual: Amount,
    total: u128,
}

impl Run {
    fn new(policy: Policy, inputs: InputSet, entries: Vec<Scored>, sums: Sums) -> Self {
        let (tree, file) = lines_hashed(&policy, &inputs, &entries);
        let terms = policy.terms();
        let transfers = entries.iter().filter(|scored| scored.entry.paid > 0).count()
            + usize::from(pays_residual(&policy, sums.residual).is_some());
        let manifest = Manifest {
            epoch: inputs.epoch(),
            run_key: run_key(&policy, &inputs),
            policy_id: terms.id.clone(),
            policy_version: terms.version,
            policy_hash: policy.hash(),
            ruleset: terms.ruleset,
            inputs_root: inputs.root(),
            snapshots: int(inputs.snapshots().len()),
            pool: terms.pool,
            paid: sums.paid,
            residual: sums.residual,
            score_total: sums.total,
            batches: int(transfers.div_ceil(terms.ruleset.batch_size())),
            allocations: file,
        };
        let document = manifest.to_bytes();
        let commitment = Domain::COMMITMENT.hash(&document);
        Self { policy, inputs, entries, tree, manifest, document, commitment }
    }

    /// The epoch.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.manifest.epoch
    }

    /// What the run was made of: the epoch, the inputs, the policy and its rules. Two runs with one key are one run.
    #[must_use]
    pub fn key(&self) -> Digest {
        self.manifest.run_key
    }

    /// `run.json`: the same bytes wherever the same inputs are computed.
    #[must_use]
    pub fn document(&self) -> &[u8] {
        &self.document
    }

    /// What `run.json` says.
    #[must_use]
    pub const fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The hash of `run.json`, and by what it names, of everything else.
    #[must_use]
    pub const fn commitment(&self) -> Digest {
        self.commitment
    }

    /// The policy it was computed by.
    #[must_use]
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// What it was computed from.
    #[must_use]
    pub const fn inputs(&self) -> &InputSet {
        &self.inputs
    }

    /// The lines of `allocations.jsonl`.
    #[must_use]
    pub fn lines(&self) -> usize {
        self.entries.len()
    }

    /// Everybody who counts, in the order of their bytes.
    pub fn allocations(&self) -> impl ExactSizeIterator<Item = Allocation<'_>> {
        self.entries.iter().map(|scored| allocation(&self.inputs, scored))
    }

    /// Appends a line of `allocations.jsonl`, line feed included. Lines are counted from zero.
    ///
    /// # Panics
    /// If there are not so many [`Run::lines`].
    pub fn write_line(&self, line: usize, out: &mut Vec<u8>) {
        write_line(&self.policy, &self.inputs, &self.entries[line], out);
        out.push(b'\n');
    }

    /// The line of an actor.
    #[must_use]
    pub fn line_of(&self, actor: &str) -> Option<usize> {
        let place = u32::try_from(self.inputs.usage().find(actor)?).ok()?;
        self.entries.binary_search_by_key(&place, |scored| scored.place).ok()
    }

    /// What each metric earned the actor of a line.
    pub(crate) fn points(&self, line: usize) -> impl Iterator<Item = Points<'_>> {
        let place = self.entries[line].place as usize;
        weighted(&self.policy, &self.inputs, place).map(|(Row { metric, units, .. }, weight_ppm)| {
            let points = units * u128::from(weight_ppm); // Checked when the score was added up.
            Points { metric, units, weight_ppm, points }
        })
    }

    pub(crate) fn base(&self) -> Base {
        let scores: Vec<_> = self.entries.iter().map(|scored| scored.score).collect();
        self.policy.terms().ruleset.base(minor(&self.policy), &scores, self.manifest.score_total)
    }

    /// The proof that an actor's line is part of this run, if there is one.
    #[must_use]
    pub fn prove(&self, actor: &str) -> Option<Proof> {
        let at = self.line_of(actor)?;
        let mut line = Vec::new();
        write_line(&self.policy, &self.inputs, &self.entries[at], &mut line);
        Some(Proof {
            epoch: self.epoch(),
            commitment: self.commitment,
            allocation: AllocationLine::read(&line).expect("our own line"),
            index: int(at),
            lines: self.manifest.allocations.lines,
            root: self.manifest.allocations.root,
            path: self.tree.path(at),
        })
    }

    /// What is to be transferred, in batches. The same run gives the same batches under the same keys, always.
    pub fn batches(&self) -> impl Iterator<Item = Intent> {
        let paid = self.allocations().filter(|allocation| allocation.payout > Amount::ZERO);
        let paid = paid.map(|allocation| (allocation.actor.to_owned(), allocation.payout));
        let residual = pays_residual(&self.policy, self.manifest.residual);
        let residual = residual.map(|to| (to.as_str().to_owned(), self.manifest.residual));
        intents::batches(&self.manifest, paid.chain(residual))
    }
}

/// To whom the residual goes, if there is one and it goes anywhere.
fn pays_residual(policy: &Policy, residual: Amount) -> Option<&ActorId> {
    match &policy.terms().residual {
        Residual::Pay(to) if residual > Amount::ZERO => Some(to),
        _ => None,
    }
}

fn run_key(policy: &Policy, inputs: &InputSet) -> Digest {
    let made_of = Json::map([
        ("epoch", Json::Int(inputs.epoch().int())),
        ("inputs_root", Json::text(inputs.root())),
        ("policy_hash", Json::text(policy.hash())),
        ("ruleset", Json::Int(policy.terms().ruleset.number().into())),
    ]);
    Domain::RUN_KEY.hash(&made_of.to_canonical())
}

fn allocation<'a>(inputs: &'a InputSet, scored: &Scored) -> Allocation<'a> {
    let Entry { share, extra, paid, rule } = scored.entry;
    let amount = |minor| Amount::new(minor).expect("a part of the pool");
    let actor = inputs.usage().name(scored.place as usize);
    Allocation { actor, score: scored.score, share: amount(share), extra, payout: amount(paid), rule }
}

fn write_line(policy: &Policy, inputs: &InputSet, scored: &Scored, out: &mut Vec<u8>) {
    let units = weighted(policy, inputs, scored.place as usize).map(|(row, _)| row);
    allocation(inputs, scored).write(out, units);
}

/// Hashes all lines: each for the tree, and all together for whoever compares the file.
fn lines_hashed(policy: &Policy, inputs: &InputSet, entries: &[Scored]) -> (Tree, AllocationsFile) {
    let mut whole = blake3::Hasher::new();
    let mut leaves = Vec::with_capacity(entries.len());
    let mut pending = Vec::new();
    for scored in entries {
        let start = pending.len();
        write_line(policy, inputs, scored, &mut pending);
        leaves.push(Domain::LEAF.hash(&pending[start..]));
        pending.push(b'\n');
        if pending.len() >= 64 * 1024 {
            whole.update(&pending);
            pending.clear();
        }
    }
    whole.update(&pending);
    let tree = Tree::new(leaves);
    let file = AllocationsFile {
        lines: int(entries.len()),
        root: tree.root(),
        hash: ObjectId::new(*whole.finalize().as_bytes()),
    };
    (tree, file)
}

fn int(count: usize) -> Int {
    u64::try_from(count).ok().and_then(Int::new).expect("bounded far below 2^53")
}
