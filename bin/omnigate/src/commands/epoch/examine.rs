//! One bundle by itself: computed again and compared to the byte, and everything else that is in it checked.

use std::collections::BTreeSet;

use rewards::{
    Claim, Digest, Dispute, Epoch, Excluded, ExclusionNotice, InputSet, LineCheck, Manifest, Mismatch, Order,
    ParkedPayout, ParkedPayouts, Policy, PublicKey, Quarantine, Run, Snapshot, Transfer, bundle,
    ed25519::Ed25519, verify_after, within,
};
use types::{ActorId, NodeId};

use super::{
    attested::{Attested, attested},
    brought::brought,
    bundle::{Judged, by_allocations, has_rows, policy, rows, seals, snapshots},
    files::Folder,
    orders::{disputes, orders},
    plain::plain,
    trust::{Check, Trust},
};
use crate::failure::Failure;

/// A bundle in which nothing contradicts anything.
#[derive(Debug)]
pub(super) struct Examined {
    pub(super) run: Run,
    pub(super) judged: Judged,
    pub(super) sealed_by: Vec<(ActorId, PublicKey)>,
    pub(super) attested: Attested,
    /// What the bundle says is left out, in the words of the node that computed it.
    pub(super) excluded: Vec<Excluded>,
    /// What the bundle says is parked. Only the ledger can prove it.
    pub(super) parked: Vec<ParkedPayout>,
    /// Orders about the epoch that were carried out.
    pub(super) orders: Vec<Order>,
    /// Objections to the run. They prove nothing.
    pub(super) disputes: Vec<Dispute>,
    /// How many snapshots are without rows.
    without_rows: usize,
}

/// Computes a bundle again and checks everything that is in it. What is wrong is an error, required or not.
pub(super) fn examine(folder: &Folder, trust: &Trust, threads: usize) -> Result<Examined, Failure> {
    let judged = policy(folder, &trust.policy_keys)?;
    let document = folder.read(bundle::RUN)?;
    let epoch = Manifest::read(&document).map_err(Mismatch::from).map_err(Failure::failed)?.epoch;
    let snapshots = snapshots(folder)?;
    counts(&snapshots, epoch, trust)?;
    let sealed_by = seals(folder, &snapshots)?;
    let (inputs, without_rows) = inputs(folder, &judged.policy, epoch, &snapshots, threads)?;
    let claim = Claim { manifest: &document, commitment: commitment(folder)? };
    let brought = brought(folder, &judged.policy, &trust.policy_keys)?;
    let run = verify_after(&judged.policy, &inputs, &brought, claim).map_err(Failure::failed)?;
    let mut lines = LineCheck::new(&run);
    folder.lines(bundle::ALLOCATIONS, |line| lines.line(line))?;
    lines.finish().map_err(Failure::failed)?;
    let attested = attested(folder, run.manifest().name(), trust)?;
    let (excluded, parked) = (excluded(folder, &run, trust)?, parked(folder, &run)?);
    let orders = orders(folder, &run, trust)?;
    let disputes = disputes(folder, &run, &judged.keys, trust)?;
    Ok(Examined { run, judged, sealed_by, attested, excluded, parked, orders, disputes, without_rows })
}

impl Examined {
    /// Whether what the bundle is made of is proved by it, and in which words: its policy, its seals, its rows.
    pub(super) fn made_of(&self, trust: &Trust) -> [(Check, (bool, String)); 3] {
        let snapshots = self.run.inputs().snapshots();
        [
            (Check::Policy, signed(&self.judged, trust)),
            (Check::Seals, sealed(snapshots, &self.sealed_by, trust)),
            (Check::Rows, counted(snapshots, self.without_rows)),
        ]
    }
}

/// The snapshots that the bundle says are left out: signed by a node that counts if it is known which do, of this
/// epoch, and none of those that count.
fn excluded(folder: &Folder, run: &Run, trust: &Trust) -> Result<Vec<Excluded>, Failure> {
    if !folder.has(bundle::EXCLUDED) {
        return Ok(Vec::new());
    }
    let wrong = |wrong: &dyn std::fmt::Display| Failure::failed(format!("{}: {wrong}", bundle::EXCLUDED));
    let notice = ExclusionNotice::read(&folder.read(bundle::EXCLUDED)?).map_err(|error| wrong(&error))?;
    if notice.epoch != run.epoch() || !notice.is_good(&Ed25519) {
        return Err(wrong(&"it is of another epoch, or its signature is not good"));
    }
    let node = NodeId::of_key(notice.key.as_bytes());
    if trust.nodes.is_some() && !trust.has_node(&node) {
        return Err(wrong(&format_args!("it is signed by {node}, which you do not trust")));
    }
    for Excluded { snapshot, .. } in &notice.excluded {
        if run.inputs().snapshots().iter().any(|counts| counts.node == snapshot.node) {
            return Err(wrong(&format_args!("{} counts, and is said to be left out", snapshot.node)));
        }
    }
    Ok(notice.excluded)
}

/// The payouts that the bundle says are parked: each has to be one of the run's, in the account that is its receiver's.
fn parked(folder: &Folder, run: &Run) -> Result<Vec<ParkedPayout>, Failure> {
    if !folder.has(bundle::PARKED) {
        return Ok(Vec::new());
    }
    let wrong = |wrong: &dyn std::fmt::Display| Failure::failed(format!("{}: {wrong}", bundle::PARKED));
    let parked = ParkedPayouts::read(&folder.read(bundle::PARKED)?).map_err(|error| wrong(&error))?;
    if parked.epoch != run.epoch() {
        return Err(wrong(&format_args!("it is of epoch {}", parked.epoch)));
    }
    // All of them in one walk over the run: a stranger's list may be as long as the run.
    let listed = parked.payouts.iter().map(|one| (one.actor.clone(), one.receiver.clone(), one.amount));
    let mut unpaid: BTreeSet<_> = listed.collect();
    for Transfer { actor, to, amount } in run.batches().flat_map(|intent| intent.transfers) {
        unpaid.remove(&(actor.filter(|_| parked.names_actors), to, amount));
    }
    if let Some((actor, receiver, amount)) = unpaid.first() {
        let of = actor.as_ref().map(|actor| format!(" for {actor}")).unwrap_or_default();
        return Err(wrong(&format_args!("the run does not pay {amount} to {receiver}{of}")));
    }
    if let Some(ParkedPayout { receiver, account, .. }) =
        parked.payouts.iter().find(|payout| !payout.is_in_place())
    {
        return Err(wrong(&format_args!("{} is not the account of {receiver}", plain(account))));
    }
    Ok(parked.payouts)
}

/// Sees to it that every snapshot is of the epoch, and of a node that counts if it is known which do.
fn counts(snapshots: &[Snapshot], epoch: Epoch, trust: &Trust) -> Result<(), Failure> {
    for Snapshot { node, epoch: of, .. } in snapshots {
        if *of != epoch {
            return Err(Failure::failed(Quarantine::WrongEpoch { node: node.clone(), epoch: *of }));
        }
        let listed = |nodes: &BTreeSet<NodeId>| node.as_str().parse().is_ok_and(|node| nodes.contains(&node));
        if !trust.nodes.as_ref().is_none_or(listed) {
            return Err(Failure::failed(Quarantine::UnknownNode(node.clone())));
        }
    }
    Ok(())
}

/// The units of an epoch, and how many of its snapshots are without rows. Rows that are there are added up; where some are
/// missing, units are taken from the allocations, which must not be less than what the others add up to.
fn inputs(
    folder: &Folder,
    policy: &Policy,
    epoch: Epoch,
    snapshots: &[Snapshot],
    threads: usize,
) -> Result<(InputSet, usize), Failure> {
    let there: Vec<_> = snapshots.iter().filter(|snapshot| has_rows(folder, snapshot)).cloned().collect();
    let counted = rows(folder, policy, epoch, &there, threads)?;
    let missing = snapshots.len() - there.len();
    if missing == 0 {
        return Ok((counted, 0));
    }
    let claimed = by_allocations(folder, epoch, snapshots.to_vec())?;
    within(policy, &counted, &claimed).map_err(Failure::failed)?;
    Ok((claimed, missing))
}

fn signed(judged: &Judged, trust: &Trust) -> (bool, String) {
    let terms = judged.policy.terms();
    let keys: Vec<_> = judged.keys.iter().map(ToString::to_string).collect();
    let (id, version, rules) = (&terms.id, terms.version.get(), terms.ruleset.number());
    let said = format!("{id} version {version}, ruleset {rules}, signed by {}", keys.join(" and "));
    if trust.policy_keys.is_empty() {
        (false, format!("{said}; no key is trusted: name those that are with --policy-key"))
    } else {
        (true, format!("{said}, which you trust"))
    }
}

fn sealed(snapshots: &[Snapshot], by: &[(ActorId, PublicKey)], trust: &Trust) -> (bool, String) {
    let sealed = |snapshot: &&Snapshot| by.iter().any(|(node, _)| *node == snapshot.node);
    let (all, there) = (snapshots.len(), snapshots.iter().filter(sealed).count());
    let said = format!("{there} of {all} snapshots are sealed by the nodes that they name");
    if there < all {
        (false, format!("{said}; the other seals are not in the bundle"))
    } else if trust.nodes.is_none() {
        (false, format!("{said}; nobody said which nodes count: name a file of their ids with --nodes"))
    } else {
        (true, format!("{said}, which you trust"))
    }
}

fn counted(snapshots: &[Snapshot], missing: usize) -> (bool, String) {
    let rows: u64 = snapshots.iter().map(|snapshot| snapshot.rows.get()).sum();
    let all = snapshots.len();
    if missing == 0 {
        (true, format!("{rows} rows in {all} snapshots, every row added up"))
    } else {
        let said = format!("the rows of {missing} of {all} snapshots are not in the bundle");
        (false, format!("{said}: units are taken from the allocations"))
    }
}

fn commitment(folder: &Folder) -> Result<Digest, Failure> {
    let text = String::from_utf8(folder.read(bundle::COMMITMENT)?).unwrap_or_default();
    let digest = text.strip_suffix('\n').and_then(|line| line.parse().ok());
    digest
        .ok_or_else(|| Failure::failed(format!("{}: expected a digest and a line feed", bundle::COMMITMENT)))
}
