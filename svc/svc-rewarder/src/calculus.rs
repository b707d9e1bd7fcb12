//! From a closed epoch to its run: every seal and every row is checked on the way. Blocking, and repeatable: the same epoch
//! gives the same bytes, whoever computes it and however often.

use std::{collections::BTreeSet, sync::atomic::Ordering};

use rewards::{
    Brought, Digest, Epoch, Excluded, InputSet, Limits, Policy, PublicKey, Quarantine, Run, SnapshotSeal,
    Usage, compute_after, judge_snapshot,
};
use ron_accounting::{Ed25519, NodeId, Rows, SnapshotFiles, take_in};
use types::ObjectId;

use crate::{
    RewarderError, policies,
    registry::Progress,
    store::{Closing, EpochStore, Listed},
    taken_over,
};

/// The result of computing an epoch.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The computed payouts.
    Run(Box<Run>),
    /// Something does not add up.
    Quarantine(Quarantine),
}

/// Everything that a computation reads.
#[derive(Clone, Debug)]
pub(crate) struct Calculus {
    pub(crate) store: EpochStore,
    pub(crate) files: SnapshotFiles,
    pub(crate) max_rows: u64,
    /// The keys whose corrections and registries take effect.
    pub(crate) policy_keys: Vec<PublicKey>,
}

/// What an epoch would be closed with: the snapshots of these nodes that are listed by now, and this policy.
pub(crate) fn closing(
    store: &EpochStore,
    epoch: u64,
    nodes: &BTreeSet<NodeId>,
    policy: crate::store::KeptPolicy,
) -> Result<Option<Closing>, RewarderError> {
    let names: BTreeSet<String> = nodes.iter().map(ToString::to_string).collect();
    let mut counted = store.snapshots(epoch)?;
    counted.retain(|listed| names.contains(&listed.node));
    if counted.is_empty() {
        return Ok(None);
    }
    let input_document: String =
        counted.iter().map(|one| format!("{} {}\n", one.object, one.document)).collect();
    Ok(Some(Closing {
        epoch,
        inputs: root_of(epoch, &input_document)?.to_string(),
        input_document,
        policy: policy.digest,
        policy_document: policy.document,
    }))
}

/// The hash of the list of an epoch's snapshots, which `run.json` names.
fn root_of(epoch: u64, document: &str) -> Result<Digest, RewarderError> {
    let epoch = Epoch::new(epoch).ok_or(RewarderError::Unknown("epoch"))?;
    let damaged = |_| RewarderError::Files("a listed seal is damaged".to_owned());
    let snapshot = |listed: Result<Listed, RewarderError>| {
        SnapshotSeal::read(listed?.document.as_bytes()).map(|seal| seal.snapshot).map_err(damaged)
    };
    let snapshots = closed_inputs(document).map(snapshot).collect::<Result<Vec<_>, _>>()?;
    Ok(InputSet::unchecked(epoch, snapshots, Usage::new(1, 1)).root())
}

/// The snapshots of a closed epoch: the address of each one's rows, and its seal.
pub(crate) fn closed_inputs(document: &str) -> impl Iterator<Item = Result<Listed, RewarderError>> {
    document.lines().map(|line| {
        let damaged = || RewarderError::Files("the list of an epoch's snapshots is damaged".to_owned());
        let (object, document) = line.split_once(' ').ok_or_else(damaged)?;
        let seal = SnapshotSeal::read(document.as_bytes()).map_err(|_| damaged())?;
        Ok(Listed {
            node: seal.snapshot.node.to_string(),
            document: document.to_owned(),
            object: object.to_owned(),
        })
    })
}

/// The seal of a snapshot that is listed.
pub(crate) fn seal_of(listed: &Listed) -> Result<SnapshotSeal, RewarderError> {
    SnapshotSeal::read(listed.document.as_bytes())
        .map_err(|_| RewarderError::Files("a seal of a closed epoch is damaged".to_owned()))
}

impl Calculus {
    /// Computes a closed epoch.
    pub(crate) fn run(&self, epoch: u64, progress: &Progress) -> Result<Outcome, RewarderError> {
        let (inputs, policy) = self.store.documents(epoch)?.ok_or(RewarderError::Unknown("epoch"))?;
        let policy = match policies::of_closed(&policy) {
            Ok(policy) => policy,
            Err(error) => return Ok(Outcome::Quarantine(error.into())),
        };
        let number = Epoch::new(epoch).ok_or(RewarderError::Unknown("epoch"))?;
        let mut listed = closed_inputs(&inputs).collect::<Result<Vec<_>, _>>()?;
        let out = taken_over::ordered_out(&self.store, epoch)?;
        listed.retain(|one| !out.iter().any(|(node, _)| *node == one.node));
        let brought = taken_over::of_epoch(&self.store, &self.policy_keys, epoch, &policy)?;
        let wrong = match self.attempt(number, (&policy, &brought), &listed, progress)? {
            Ok(run) => return Ok(Outcome::Run(Box::new(run))),
            Err(wrong) => wrong,
        };
        // One node's rows must not keep everybody else from being paid: without those that cannot count, if any can.
        let mut counting = Vec::new();
        for one in &listed {
            if self.judge(number, &policy, one)?.is_ok() {
                counting.push(one.clone());
            }
        }
        if counting.is_empty() || counting.len() == listed.len() {
            return Ok(Outcome::Quarantine(wrong));
        }
        Ok(match self.attempt(number, (&policy, &brought), &counting, progress)? {
            Ok(run) => Outcome::Run(Box::new(run)),
            Err(wrong) => Outcome::Quarantine(wrong),
        })
    }

    /// The snapshots that an epoch was closed with and that its run leaves out, with the reasons.
    pub(crate) fn excluded(&self, epoch: u64, run: &Run) -> Result<Vec<Excluded>, RewarderError> {
        let (inputs, _) = self.store.documents(epoch)?.ok_or(RewarderError::Unknown("epoch"))?;
        let out = taken_over::ordered_out(&self.store, epoch)?;
        let mut excluded = Vec::new();
        for one in closed_inputs(&inputs) {
            let one = one?;
            let snapshot = seal_of(&one)?.snapshot;
            if run.inputs().snapshots().contains(&snapshot) {
                continue;
            }
            if let Some((_, reason)) = out.iter().find(|(node, _)| *node == one.node) {
                let (reason, detail) = ("ordered".to_owned(), reason.clone());
                excluded.push(Excluded { snapshot, reason, detail });
                continue;
            }
            let wrong = self.judge(run.epoch(), run.policy(), &one)?.err();
            let wrong = wrong.unwrap_or(Quarantine::UnknownNode(snapshot.node.clone()));
            excluded.push(Excluded { snapshot, reason: wrong.code().to_owned(), detail: wrong.to_string() });
        }
        Ok(excluded)
    }

    /// Whether a snapshot can be counted, judged by itself.
    fn judge(
        &self,
        epoch: Epoch,
        policy: &Policy,
        one: &Listed,
    ) -> Result<Result<(), Quarantine>, RewarderError> {
        let alone = self.inputs(epoch, policy, std::slice::from_ref(one), &Progress::default())?;
        Ok(alone.and_then(|alone| judge_snapshot(policy, &alone)))
    }

    fn attempt(
        &self,
        epoch: Epoch,
        (policy, brought): (&Policy, &Brought),
        listed: &[Listed],
        progress: &Progress,
    ) -> Result<Result<Run, Quarantine>, RewarderError> {
        let inputs = self.inputs(epoch, policy, listed, progress)?;
        Ok(inputs.and_then(|set| compute_after(policy, &set, brought)))
    }

    fn inputs(
        &self,
        epoch: Epoch,
        policy: &Policy,
        listed: &[Listed],
        progress: &Progress,
    ) -> Result<Result<InputSet, Quarantine>, RewarderError> {
        let seals = listed.iter().map(seal_of).collect::<Result<Vec<_>, _>>()?;
        let total: u64 = seals.iter().map(|seal| seal.snapshot.rows.get()).sum();
        progress.rows_total.store(total, Ordering::Relaxed);
        progress.rows.store(0, Ordering::Relaxed);
        if total > self.max_rows {
            return Ok(Err(Quarantine::TooMany("rows")));
        }
        let nodes = seals.iter().map(|seal| seal.snapshot.node.clone()).collect();
        let mut set = InputSet::builder(epoch, nodes, Limits::default()).paid_by(policy);
        for (one, seal) in listed.iter().zip(&seals) {
            let node = &seal.snapshot.node;
            if !seal.is_by_its_node() || !seal.is_good(&Ed25519) {
                return Ok(Err(Quarantine::BadSeal(node.clone())));
            }
            // Rows that cannot be had now may be had later; rows that are wrong stay wrong.
            let file = self.rows(&one.object)?;
            let taken = |more| {
                progress.rows.fetch_add(more, Ordering::Relaxed);
            };
            if let Err(wrong) = take_in(&mut set, &seal.snapshot, &file, taken) {
                return Ok(Err(wrong));
            }
        }
        Ok(set.close())
    }

    /// A file of rows, from here or from the store that the fleet shares.
    pub(crate) fn rows(&self, object: &str) -> Result<Vec<u8>, RewarderError> {
        let id: ObjectId =
            object.parse().map_err(|_| RewarderError::Files(format!("`{object}` is no address")))?;
        let why = match self.files.fetch(id) {
            Ok(Some(rows)) => return Ok(rows),
            Ok(None) => "they are not here".to_owned(),
            Err(error) => error,
        };
        // A file that is damaged here may be whole there.
        let rows = self.store.rows(object)?;
        rows.ok_or_else(|| RewarderError::Files(format!("the rows {object} cannot be read: {why}")))
    }
}
