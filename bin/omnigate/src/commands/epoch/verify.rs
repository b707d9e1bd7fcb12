//! `omnigate epoch verify`: compute again, compare every byte, and say what is proved and what is not.

use std::path::Path;

use rewards::{
    Claim, Digest, Dispute, Epoch, Excluded, ExclusionNotice, InputSet, Intent, LineCheck, Manifest,
    Mismatch, Order, ParkedPayout, ParkedPayouts, Policy, Proof, PublicKey, Quarantine, QuarantineNotice,
    Run, Snapshot, bundle, ed25519::Ed25519, verify_after, within,
};
use ron_kernel::ExitCode;
use types::ActorId;

use super::{
    VerifyArgs,
    attested::{Attested, attested},
    brought::brought,
    bundle::{Judged, by_allocations, has_rows, policy, rows, seals, snapshots},
    chain,
    files::{self, Folder},
    orders::{disputes, orders},
    settled::{Settled, settled},
    show,
    trust::{Check, Required, Trust},
};
use crate::{
    commands::{pretty, print},
    failure::Failure,
};

/// What was found of one check.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) check: Check,
    pub(super) proved: bool,
    pub(super) required: bool,
    /// What was compared with what, or what is missing and how to provide it.
    pub(super) detail: String,
}

/// A bundle in which nothing contradicts anything, and what is proved by that.
#[derive(Debug)]
pub(super) struct Verified {
    pub(super) run: Run,
    /// Keys whose signatures on the policy are good.
    pub(super) signed_by: Vec<PublicKey>,
    pub(super) sealed_by: Vec<(ActorId, PublicKey)>,
    pub(super) attested_by: Vec<PublicKey>,
    /// What the bundle says is left out, in the words of the node that computed it.
    pub(super) excluded: Vec<Excluded>,
    /// What the bundle says is parked. Only the ledger can prove it.
    pub(super) parked: Vec<ParkedPayout>,
    /// Orders about the epoch that were carried out.
    pub(super) orders: Vec<Order>,
    /// Objections to the run. They prove nothing.
    pub(super) disputes: Vec<Dispute>,
    /// One for each check, in their order.
    pub(super) findings: Vec<Finding>,
}

impl Verified {
    /// What is required and not proved.
    pub(super) fn missing(&self) -> impl Iterator<Item = Check> {
        self.findings.iter().filter(|found| found.required && !found.proved).map(|found| found.check)
    }

    pub(super) fn is_proved(&self, check: Check) -> bool {
        self.findings.iter().any(|found| found.check == check && found.proved)
    }
}

/// Checks a bundle or a proof, and says what came of it.
pub(super) fn run(args: &VerifyArgs) -> Result<ExitCode, Failure> {
    if !args.bundle.is_dir() {
        return proof(args).map(|()| ExitCode::Clean);
    }
    let verified = bundle(args)?;
    let explained = args.actor.iter().map(|actor| (actor.as_str(), verified.run.explain(actor)));
    let explained: Vec<_> = explained.collect();
    if args.json {
        print(&pretty(&show::json(&verified, &explained)))?;
    } else {
        print(&show::text(&verified, &explained))?;
    }
    let all_found = explained.iter().all(|(_, explanation)| explanation.is_some());
    let all_proved = verified.missing().next().is_none();
    Ok(if all_found && all_proved { ExitCode::Clean } else { ExitCode::Failed })
}

fn bundle(args: &VerifyArgs) -> Result<Verified, Failure> {
    let trust = Trust::read(&args.trust)?;
    let folder = Folder::of_epoch(&args.bundle)?;
    not_quarantined(&folder)?;
    let judged = policy(&folder, &trust.policy_keys)?;
    let document = folder.read(bundle::RUN)?;
    let epoch = Manifest::read(&document).map_err(Mismatch::from).map_err(Failure::failed)?.epoch;
    let snapshots = snapshots(&folder)?;
    counts(&snapshots, epoch, &trust)?;
    let sealed_by = seals(&folder, &snapshots)?;
    let (inputs, without_rows) = inputs(&folder, &judged.policy, epoch, &snapshots, args.threads.number())?;
    let claim = Claim { manifest: &document, commitment: commitment(&folder)? };
    let brought = brought(&folder, &judged.policy, &trust.policy_keys)?;
    let run = verify_after(&judged.policy, &inputs, &brought, claim).map_err(Failure::failed)?;
    let mut lines = LineCheck::new(&run);
    folder.lines(bundle::ALLOCATIONS, |line| lines.line(line))?;
    lines.finish().map_err(Failure::failed)?;
    let attested = attested(&folder, &run, &trust)?;
    let epochs = args.epochs.clone().unwrap_or_else(|| chain::beside(&folder));
    let is_required = args.require.as_ref().is_some_and(|required| required.includes(Check::Chain));
    let is_followed = args.chain || is_required;
    let followed = chain::follow(&epochs, &run, is_followed)?;
    let found = [
        (Check::Policy, signed(&judged, &trust)),
        (Check::Seals, sealed(&snapshots, &sealed_by, &trust)),
        (Check::Rows, counted(&snapshots, without_rows)),
        (Check::Commitment, published(&run, &attested, &trust)?),
        (Check::Chain, chain::finding(&followed)),
        (Check::Settled, paid(settled(&args.trust, &run)?)),
    ];
    let usual = || Required::usual(args.trust.ledger.is_some(), args.chain);
    let required = args.require.clone().unwrap_or_else(usual);
    let finding =
        |(check, (proved, detail))| Finding { check, proved, required: required.includes(check), detail };
    let findings = found.into_iter().map(finding).collect();
    let (excluded, parked) = (excluded(&folder, &run)?, parked(&folder, &run)?);
    let (orders, disputes) = (orders(&folder, &run, &trust)?, disputes(&folder, &run)?);
    let (signed_by, attested_by) = (judged.keys, attested.by);
    Ok(Verified { run, signed_by, sealed_by, attested_by, excluded, parked, orders, disputes, findings })
}

/// An epoch that is set aside is not verified, whatever was computed before.
fn not_quarantined(folder: &Folder) -> Result<(), Failure> {
    if !folder.has(bundle::QUARANTINE) {
        return Ok(());
    }
    let notice = QuarantineNotice::read(&folder.read(bundle::QUARANTINE)?)
        .map_err(|error| Failure::failed(format!("{}: {error}", bundle::QUARANTINE)))?;
    let QuarantineNotice { epoch, intents, reason, detail } = notice;
    let paid = match intents.get() {
        0 => "nothing of it was paid".to_owned(),
        some => format!("{some} of its batches were paid"),
    };
    Err(Failure::failed(format!("epoch {epoch} is quarantined, {paid}: {reason}: {detail}")))
}

/// The snapshots that the bundle says are left out: signed by somebody, of this epoch, and none of those that count.
fn excluded(folder: &Folder, run: &Run) -> Result<Vec<Excluded>, Failure> {
    if !folder.has(bundle::EXCLUDED) {
        return Ok(Vec::new());
    }
    let wrong = |wrong: &dyn std::fmt::Display| Failure::failed(format!("{}: {wrong}", bundle::EXCLUDED));
    let notice = ExclusionNotice::read(&folder.read(bundle::EXCLUDED)?).map_err(|error| wrong(&error))?;
    if notice.epoch != run.epoch() || !notice.is_good(&Ed25519) {
        return Err(wrong(&"it is of another epoch, or its signature is not good"));
    }
    for Excluded { snapshot, .. } in &notice.excluded {
        if run.inputs().snapshots().iter().any(|counts| counts.node == snapshot.node) {
            return Err(wrong(&format_args!("{} counts, and is said to be left out", snapshot.node)));
        }
    }
    Ok(notice.excluded)
}

/// The payouts that the bundle says are parked: each has to be one of the run's.
fn parked(folder: &Folder, run: &Run) -> Result<Vec<ParkedPayout>, Failure> {
    if !folder.has(bundle::PARKED) {
        return Ok(Vec::new());
    }
    let wrong = |wrong: &dyn std::fmt::Display| Failure::failed(format!("{}: {wrong}", bundle::PARKED));
    let parked = ParkedPayouts::read(&folder.read(bundle::PARKED)?).map_err(|error| wrong(&error))?;
    if parked.epoch != run.epoch() {
        return Err(wrong(&format_args!("it is of epoch {}", parked.epoch)));
    }
    for payout in &parked.payouts {
        let is_it = |intent: &Intent| {
            intent.transfers.iter().any(|known| (&known.to, known.amount) == (&payout.actor, payout.amount))
        };
        if !run.batches().any(|intent| is_it(&intent)) {
            return Err(wrong(&format_args!("the run does not pay {} to {}", payout.amount, payout.actor)));
        }
    }
    Ok(parked.payouts)
}

/// Sees to it that every snapshot is of the epoch, and of a node that counts if it is known which do.
fn counts(snapshots: &[Snapshot], epoch: Epoch, trust: &Trust) -> Result<(), Failure> {
    for Snapshot { node, epoch: of, .. } in snapshots {
        if *of != epoch {
            return Err(Failure::failed(Quarantine::WrongEpoch { node: node.clone(), epoch: *of }));
        }
        let listed = |nodes: &std::collections::BTreeSet<types::NodeId>| {
            node.as_str().parse().is_ok_and(|node| nodes.contains(&node))
        };
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

fn published(run: &Run, attested: &Attested, trust: &Trust) -> Result<(bool, String), Failure> {
    let commitment = run.commitment();
    if let Some(named) = trust.commitment
        && named != commitment
    {
        return Err(Failure::failed(format!("the commitment is {commitment}, not {named}")));
    }
    let nodes: Vec<_> = attested.trusted.iter().map(ToString::to_string).collect();
    Ok(if trust.commitment.is_some() {
        (true, format!("{commitment}, which you named"))
    } else if !nodes.is_empty() {
        (true, format!("{commitment}, attested to by {}, which you trust", nodes.join(" and ")))
    } else {
        let help =
            "name the one that was published with --commitment, or the nodes that may attest with --nodes";
        (false, format!("{commitment}: no node that you trust attests to it: {help}"))
    })
}

fn paid(settled: Settled) -> (bool, String) {
    match settled {
        Settled::NotAsked => (false, "no ledger was looked into: name one with --ledger".to_owned()),
        Settled::All { batches, parked } => {
            let kept = if parked.is_empty() {
                String::new()
            } else {
                format!("; parked, because their accounts could not take it: {}", parked.join(", "))
            };
            (true, format!("{batches} batches are in the ledger as they have to be{kept}"))
        }
        Settled::Missing(key) => (false, format!("the batch {key} is not in the ledger")),
    }
}

fn commitment(folder: &Folder) -> Result<Digest, Failure> {
    let text = String::from_utf8(folder.read(bundle::COMMITMENT)?).unwrap_or_default();
    let digest = text.strip_suffix('\n').and_then(|line| line.parse().ok());
    digest
        .ok_or_else(|| Failure::failed(format!("{}: expected a digest and a line feed", bundle::COMMITMENT)))
}

/// A proof stands by itself once somebody says which run it is about.
fn proof(args: &VerifyArgs) -> Result<(), Failure> {
    let shown = args.bundle.display();
    if !args.bundle.exists() {
        return Err(Failure::failed(format!("there is no {shown}")).help(
            "name the folder of one epoch, or a proof and `--run` with the run.json that it is about",
        ));
    }
    let run = args.run.as_deref().ok_or_else(|| {
        Failure::bad_config(format!("{shown} is not a folder, and a proof needs --run"))
            .help("name the run.json that the proof is about: `--run run.json`")
    })?;
    let proof = Proof::read(&files::read(&args.bundle)?);
    let proof = proof.map_err(|error| Failure::failed(format!("{shown}: {error}")))?;
    let manifest = manifest(run)?;
    proof.check(&manifest).map_err(|error| Failure::failed(format!("{shown}: {error}")))?;
    let named = args.trust.commitment;
    if let Some(named) = named.filter(|named| *named != manifest.commitment()) {
        let message = format!("{}: the commitment is {}, not {named}", run.display(), manifest.commitment());
        return Err(Failure::failed(message));
    }
    if args.json {
        return print(&pretty(&show::proof_json(&proof)));
    }
    print(&show::proof(&proof, &manifest, named.is_some()))
}

fn manifest(path: &Path) -> Result<Manifest, Failure> {
    Manifest::read(&files::read(path)?)
        .map_err(|error| Failure::failed(format!("{}: {error}", path.display())))
}
