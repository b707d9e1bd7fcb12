//! An epoch computed: who is paid what, the documents that say so, and the sums that close.

use types::{ActorId, ObjectId};

use crate::{
    Allocation, Amount, Brought, Carried, Digest, Due, Epoch, InputSet, Int, Intent, Json, Linked, Manifest,
    Points, Policy, Proof, Quarantine, Residual, Row, Rule,
    allocation::{AllocationLine, Entry},
    digest::Domain,
    due::{self, TakenOver},
    intents,
    manifest::AllocationsFile,
    merkle::Tree,
    ruleset::Terms,
};

/// A computed epoch. `Σ payouts + residual = pool`.
#[derive(Clone, Debug)]
pub struct Run {
    lines: Lines,
    tree: Tree,
    manifest: Manifest,
    document: Vec<u8>,
    commitment: Digest,
}

/// Everything that the lines of a run are written from.
#[derive(Clone, Debug)]
struct Lines {
    policy: Policy,
    inputs: InputSet,
    entries: Vec<Scored>,
    /// `None` in runs of rulesets that take nothing over.
    taken: Option<Box<TakenOver>>,
}

/// An actor who has a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scored {
    /// The actor's place in the order of all that are in the inputs; those who are not have places behind them.
    pub(crate) place: u32,
    pub(crate) score: u128,
    pub(crate) entry: Entry,
}

/// Computes an epoch that takes nothing over from before.
///
/// # Errors
/// [`Quarantine`], if the policy does not apply to the epoch, a sum overflows, or the sums do not close.
pub fn compute(policy: &Policy, inputs: &InputSet) -> Result<Run, Quarantine> {
    compute_after(policy, inputs, &Brought::default())
}

/// Computes an epoch. Only rulesets that are [chained](crate::Ruleset::is_chained) take something over.
///
/// # Errors
/// [`Quarantine`], if the policy does not apply to the epoch, what is brought does not fit, a sum overflows, or the sums do
/// not close.
pub fn compute_after(policy: &Policy, inputs: &InputSet, brought: &Brought) -> Result<Run, Quarantine> {
    policy.applies_to(inputs.epoch())?;
    let terms = policy.terms();
    if !terms.ruleset.is_chained() && !brought.is_empty() {
        return Err(Quarantine::Brought("the ruleset takes nothing over"));
    }
    brought.check(&terms.id)?;
    let (places, scores) = scores(policy, inputs)?;
    let add = |sum: u128, score: &u128| sum.checked_add(*score);
    let total = scores.iter().try_fold(0, add).ok_or(Quarantine::Overflow("scores"))?;
    let outcome = terms.ruleset.apply(minor(policy), &scores, total);
    let scored = places.into_iter().zip(scores).zip(outcome.entries);
    let scored = scored.map(|((place, score), entry)| Scored { place, score, entry });
    let (entries, taken) = if terms.ruleset.is_chained() {
        let minimum = terms.min_payout.minor();
        let (entries, taken) = due::take_over(inputs, scored.collect(), brought, minimum)?;
        (entries, Some(Box::new(taken)))
    } else {
        (scored.map(|scored| unless_nobody(scored, inputs)).collect(), None)
    };
    let (paid, residual) = sums(terms.pool, &entries, taken.as_deref(), outcome.unshared)?;
    let lines = Lines { policy: policy.clone(), inputs: inputs.clone(), entries, taken };
    Ok(Run::new(lines, Sums { paid, residual, total }))
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
    // Whoever is not among the inputs has a place behind them, and no units.
    let rows = (at < inputs.usage().actors()).then(|| inputs.usage().of(at)).into_iter().flatten();
    // Both are in the order of metrics, so one walk over each finds all pairs.
    let mut weights = weights.iter().peekable();
    rows.filter_map(move |row| {
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

/// What is paid and what is left, each added up by itself, so that comparing them with what went in says something.
fn sums(
    pool: Amount,
    entries: &[Scored],
    taken: Option<&TakenOver>,
    unshared: u128,
) -> Result<(Amount, Amount), Quarantine> {
    let overflow = || Quarantine::Overflow("payouts");
    let mut paid = 0_u128;
    let mut left = unshared;
    for (at, Scored { entry, .. }) in entries.iter().enumerate() {
        let held = match taken {
            None => entry.share.checked_sub(entry.paid),
            // Nobody's share is left over, and so is what corrections take off.
            Some(_) if entry.rule == Rule::Nobody => Some(entry.share),
            Some(taken) => Some(taken.dues[at].debit.minor()),
        };
        (paid, left) = held
            .and_then(|held| Some((paid.checked_add(entry.paid)?, left.checked_add(held)?)))
            .ok_or_else(overflow)?;
    }
    let (paid, residual) = Amount::new(paid).zip(Amount::new(left)).ok_or_else(overflow)?;
    let carried = |of: fn(&TakenOver) -> Amount| taken.map_or(Amount::ZERO, of);
    let into = pool
        .checked_add(carried(|taken| taken.brought.carried.file().amount))
        .and_then(|sum| sum.checked_add(carried(|taken| taken.credited)))
        .ok_or_else(overflow)?;
    let out = paid.checked_add(carried(|taken| taken.carried_out.file().amount)).ok_or_else(overflow)?;
    let closes = out.checked_add(residual) == Some(into);
    if closes {
        Ok((paid, residual))
    } else {
        Err(Quarantine::Conservation { pool: into, paid: out, residual })
    }
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
    fn new(lines: Lines, sums: Sums) -> Self {
        let (tree, file) = lines.hashed();
        let Lines { policy, inputs, entries, taken } = &lines;
        let terms = policy.terms();
        let transfers = entries.iter().filter(|scored| scored.entry.paid > 0).count()
            + usize::from(pays_residual(policy, sums.residual).is_some());
        let linked = taken.as_deref().map(TakenOver::linked);
        let manifest = Manifest {
            epoch: inputs.epoch(),
            run_key: run_key(policy, inputs, linked.as_ref()),
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
            linked,
        };
        let document = manifest.to_bytes();
        let commitment = Domain::COMMITMENT.hash(&document);
        Self { lines, tree, manifest, document, commitment }
    }

    /// Returns the epoch of the run.
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

    /// Returns the content of `run.json`.
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
        &self.lines.policy
    }

    /// Returns the inputs that the run was computed from.
    #[must_use]
    pub const fn inputs(&self) -> &InputSet {
        &self.lines.inputs
    }

    /// The lines of `allocations.jsonl`.
    #[must_use]
    pub fn lines(&self) -> usize {
        self.lines.entries.len()
    }

    /// Everybody who counts, in the order of their bytes.
    pub fn allocations(&self) -> impl ExactSizeIterator<Item = Allocation<'_>> {
        (0..self.lines.entries.len()).map(|line| self.lines.allocation(line))
    }

    /// Appends a line of `allocations.jsonl`, line feed included. Lines are counted from zero.
    ///
    /// # Panics
    /// If there are not so many [`Run::lines`].
    pub fn write_line(&self, line: usize, out: &mut Vec<u8>) {
        self.lines.write(line, out);
        out.push(b'\n');
    }

    /// The line of an actor.
    #[must_use]
    pub fn line_of(&self, actor: &str) -> Option<usize> {
        self.lines.entries.binary_search_by(|scored| self.lines.name(scored.place).cmp(actor)).ok()
    }

    /// What each metric earned the actor of a line.
    pub(crate) fn points(&self, line: usize) -> impl Iterator<Item = Points<'_>> {
        let place = self.lines.entries[line].place as usize;
        weighted(&self.lines.policy, &self.lines.inputs, place).map(
            |(Row { metric, units, .. }, weight_ppm)| {
                let points = units * u128::from(weight_ppm); // Checked when the score was added up.
                Points { metric, units, weight_ppm, points }
            },
        )
    }

    pub(crate) fn base(&self) -> Base {
        let scores = self.lines.entries.iter().map(|scored| scored.score).filter(|score| *score > 0);
        let scores: Vec<_> = scores.collect();
        let policy = &self.lines.policy;
        policy.terms().ruleset.base(minor(policy), &scores, self.manifest.score_total)
    }

    /// The proof that an actor's line is part of this run, if there is one.
    #[must_use]
    pub fn prove(&self, actor: &str) -> Option<Proof> {
        let at = self.line_of(actor)?;
        let mut line = Vec::new();
        self.lines.write(at, &mut line);
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
        let paid = paid.map(|allocation| {
            let payee = self.payee_of(allocation.actor).to_owned();
            (Some(allocation.actor.to_owned()), payee, allocation.payout)
        });
        let residual = pays_residual(&self.lines.policy, self.manifest.residual);
        let residual = residual.map(|to| (None, to.as_str().to_owned(), self.manifest.residual));
        intents::batches(&self.manifest, paid.chain(residual))
    }

    /// Whose account the payout of an actor goes to.
    #[must_use]
    pub fn payee_of<'a>(&'a self, actor: &'a str) -> &'a str {
        let payees = self.lines.taken.as_ref().and_then(|taken| taken.brought.payees.as_deref());
        payees.map_or(actor, |payees| payees.payee_of(actor, self.epoch()))
    }

    /// What the run takes over; `None` if its ruleset takes nothing over.
    #[must_use]
    pub fn brought(&self) -> Option<&Brought> {
        self.lines.taken.as_ref().map(|taken| &taken.brought)
    }

    /// What is carried over to the next run; `None` if its ruleset carries nothing.
    #[must_use]
    pub fn carried_out(&self) -> Option<&Carried> {
        self.lines.taken.as_ref().map(|taken| &taken.carried_out)
    }
}

impl TakenOver {
    fn linked(&self) -> Linked {
        Linked {
            brought: self.brought.names(),
            carried_out: self.carried_out.file().clone(),
            credited: self.credited,
            deducted: self.deducted,
        }
    }
}

/// To whom the residual goes, if there is one and it goes anywhere.
fn pays_residual(policy: &Policy, residual: Amount) -> Option<&ActorId> {
    match &policy.terms().residual {
        Residual::Pay(to) if residual > Amount::ZERO => Some(to),
        _ => None,
    }
}

fn run_key(policy: &Policy, inputs: &InputSet, linked: Option<&Linked>) -> Digest {
    let mut made_of = Json::map([
        ("epoch", Json::Int(inputs.epoch().int())),
        ("inputs_root", Json::text(inputs.root())),
        ("policy_hash", Json::text(policy.hash())),
        ("ruleset", Json::Int(policy.terms().ruleset.number().into())),
    ]);
    if let (Some(linked), Json::Map(fields)) = (linked, &mut made_of) {
        fields.insert("brought_root".into(), Json::text(linked.brought.root()));
    }
    Domain::RUN_KEY.hash(&made_of.to_canonical())
}

impl Lines {
    fn name(&self, place: u32) -> &str {
        let absent = self.taken.as_ref().map_or(&[][..], |taken| &taken.absent);
        due::name_of(&self.inputs, absent, place)
    }

    fn allocation(&self, line: usize) -> Allocation<'_> {
        let Scored { place, score, entry: Entry { share, extra, paid, rule } } = self.entries[line];
        let amount = |minor| Amount::new(minor).expect("a part of what went in");
        let due: Option<Due> = self.taken.as_ref().map(|taken| taken.dues[line]);
        let (actor, share, payout) = (self.name(place), amount(share), amount(paid));
        Allocation { actor, score, share, extra, payout, rule, due }
    }

    /// Appends a line without its line feed.
    fn write(&self, line: usize, out: &mut Vec<u8>) {
        let place = self.entries[line].place as usize;
        let units = weighted(&self.policy, &self.inputs, place).map(|(row, _)| row);
        self.allocation(line).write(out, units);
    }

    /// Hashes all lines: each for the Merkle tree, and all together for a comparison of the file.
    fn hashed(&self) -> (Tree, AllocationsFile) {
        let mut whole = blake3::Hasher::new();
        let mut leaves = Vec::with_capacity(self.entries.len());
        let mut pending = Vec::new();
        for line in 0..self.entries.len() {
            let start = pending.len();
            self.write(line, &mut pending);
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
            lines: int(self.entries.len()),
            root: tree.root(),
            hash: ObjectId::new(*whole.finalize().as_bytes()),
        };
        (tree, file)
    }
}

fn int(count: usize) -> Int {
    u64::try_from(count).ok().and_then(Int::new).expect("bounded far below 2^53")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scored(share: u128, paid: u128) -> Scored {
        Scored { place: 0, score: 1, entry: Entry { share, extra: false, paid, rule: Rule::Nobody } }
    }

    #[test]
    fn sums_that_are_not_the_pool_are_refused_by_one_unit_either_way() {
        let entries = [scored(6, 6), scored(3, 1)];
        let sums = |pool: u64, unshared| sums(Amount::from(pool), &entries, None, unshared);
        assert_eq!(sums(10, 1), Ok((Amount::from(7), Amount::from(3))));
        for (unshared, residual) in [(0, 2), (2, 4)] {
            let (pool, paid) = (Amount::from(10), Amount::from(7));
            let residual = Amount::from(residual);
            assert_eq!(sums(10, unshared), Err(Quarantine::Conservation { pool, paid, residual }));
        }
        assert_eq!(
            super::sums(Amount::from(1), &[scored(1, 2)], None, 0),
            Err(Quarantine::Overflow("payouts")),
            "more is paid than there is a share for"
        );
    }
}
