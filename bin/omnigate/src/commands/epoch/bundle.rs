//! A bundle taken in: its policy judged, its snapshots added up.

use std::collections::BTreeSet;

use rewards::{
    AllocationLine, InputSet, InputSetBuilder, Limits, Policy, PublicKey, Quarantine, SignedPolicy, Snapshot,
    SnapshotSeal, Usage, UsageFault, bundle, ed25519::Ed25519,
};
use ron_accounting::take_in;
use types::ActorId;

use super::files::Folder;
use crate::failure::Failure;

/// A policy, and who answers for it.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) policy: Policy,
    /// The keys whose signatures are good.
    pub(super) keys: Vec<PublicKey>,
}

/// Why a bundle's inputs do not come to an input set.
#[derive(Debug)]
pub(super) enum InputsError {
    /// The epoch cannot be paid from them.
    Quarantine(Quarantine),
    /// They cannot be read.
    Failure(Failure),
}

impl From<Quarantine> for InputsError {
    fn from(quarantine: Quarantine) -> Self {
        Self::Quarantine(quarantine)
    }
}

impl From<Failure> for InputsError {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<InputsError> for Failure {
    fn from(error: InputsError) -> Self {
        match error {
            InputsError::Quarantine(quarantine) => Self::failed(quarantine),
            InputsError::Failure(failure) => failure,
        }
    }
}

/// The policy of a bundle. Without `trusted` keys every signature has to be good, and there has to be one.
pub(super) fn policy(folder: &Folder, trusted: &[PublicKey]) -> Result<Judged, Failure> {
    let wrong = |error| Failure::failed(format!("{}: {error}", bundle::POLICY));
    let signed = SignedPolicy::read(&folder.read(bundle::POLICY)?).map_err(wrong)?;
    let all: Vec<_> = signed.keys().copied().collect();
    let counted = if trusted.is_empty() { &all[..] } else { trusted };
    let policy = signed.judge(counted, &Ed25519).map_err(wrong)?.clone();
    let keys = all.iter().copied().filter(|key| counted.contains(key)).collect();
    Ok(Judged { policy, keys })
}

/// The list of snapshots. It is empty for an epoch in which no node's snapshot came in time.
pub(super) fn snapshots(folder: &Folder) -> Result<Vec<Snapshot>, Failure> {
    let list = InputSet::read_list(&folder.read(bundle::INPUTS)?);
    list.map_err(|error| Failure::failed(format!("{}: {error}", bundle::INPUTS)))
}

/// The snapshots' rows, checked and added up on several threads.
pub(super) fn rows(
    folder: &Folder,
    policy: &Policy,
    epoch: rewards::Epoch,
    snapshots: &[Snapshot],
    threads: usize,
) -> Result<InputSet, InputsError> {
    let nodes: BTreeSet<ActorId> = snapshots.iter().map(|snapshot| snapshot.node.clone()).collect();
    let part = |part: &[Snapshot]| {
        let mut set = InputSet::builder(epoch, nodes.clone(), Limits::default()).paid_by(policy);
        part.iter().try_for_each(|snapshot| add_rows(folder, &mut set, snapshot)).map(|()| set)
    };
    let size = snapshots.len().div_ceil(threads).max(1);
    let parts: Vec<Result<InputSetBuilder, InputsError>> = std::thread::scope(|scope| {
        #[expect(clippy::needless_collect, reason = "all are started before the first is waited for")]
        let workers: Vec<_> = snapshots.chunks(size).map(|chunk| scope.spawn(|| part(chunk))).collect();
        workers.into_iter().map(|worker| worker.join().expect("a worker does not panic")).collect()
    });
    // In the order of snapshots, so that the first fault is the same whatever the number of threads.
    let mut parts = parts.into_iter();
    let Some(first) = parts.next() else { return Ok(part(&[])?.close()?) };
    let mut set = first?;
    for part in parts {
        set.merge(part?)?;
    }
    Ok(set.close()?)
}

/// Whether a snapshot's rows are in the bundle, as lines or as the node sealed them.
pub(super) fn has_rows(folder: &Folder, snapshot: &Snapshot) -> bool {
    let root = snapshot.rows_root;
    folder.has(&bundle::rows_file(root)) || folder.has(&bundle::sealed_rows_file(root))
}

fn add_rows(folder: &Folder, set: &mut InputSetBuilder, snapshot: &Snapshot) -> Result<(), InputsError> {
    let (lines, sealed) =
        (bundle::rows_file(snapshot.rows_root), bundle::sealed_rows_file(snapshot.rows_root));
    match (folder.has(&lines), folder.has(&sealed)) {
        (_, false) => add_lines(folder, set, snapshot, &lines),
        (false, true) => Ok(take_in(set, snapshot, &folder.read_rows(&sealed)?, |_| ())?),
        (true, true) => {
            // Both are there: one is added up, and the other has to be the same.
            let node = BTreeSet::from([snapshot.node.clone()]);
            let mut aside = InputSet::builder(snapshot.epoch, node, Limits::default());
            take_in(&mut aside, snapshot, &folder.read_rows(&sealed)?, |_| ())?;
            add_lines(folder, set, snapshot, &lines)
        }
    }
}

fn add_lines(
    folder: &Folder,
    set: &mut InputSetBuilder,
    snapshot: &Snapshot,
    file: &str,
) -> Result<(), InputsError> {
    let mut rows = set.snapshot(snapshot.clone())?;
    let mut fault = None;
    let read =
        folder.lines(file, |line| rows.line(line).map_err(|quarantine| fault.insert(quarantine).clone()));
    match fault {
        Some(quarantine) => Err(quarantine.into()),
        None => Ok(read.map(|()| rows.finish())??),
    }
}

/// What the allocations themselves say was counted, for bundles that come without rows.
pub(super) fn by_allocations(
    folder: &Folder,
    epoch: rewards::Epoch,
    snapshots: Vec<Snapshot>,
) -> Result<InputSet, Failure> {
    let limits = Limits::default();
    let mut usage = Usage::new(limits.max_actors, limits.max_metrics);
    folder.lines(bundle::ALLOCATIONS, |line| {
        let line = AllocationLine::read(line).map_err(|error| error.to_string())?;
        let added = line.rows().try_for_each(|row| usage.add(row));
        added.map_err(|fault: UsageFault| fault.to_string())
    })?;
    Ok(InputSet::unchecked(epoch, snapshots, usage))
}

/// The nodes whose seals are in the bundle, with their keys. A seal that is not good, or not by the node that it names, is
/// an error; so is a file in the folder of snapshots that belongs to none of them.
pub(super) fn seals(folder: &Folder, snapshots: &[Snapshot]) -> Result<Vec<(ActorId, PublicKey)>, Failure> {
    let rows: BTreeSet<String> = snapshots
        .iter()
        .flat_map(|snapshot| {
            [bundle::rows_file(snapshot.rows_root), bundle::sealed_rows_file(snapshot.rows_root)]
        })
        .collect();
    let names = folder.names("snapshots")?.into_iter().filter(|name| !rows.contains(name));
    let mut sealed: Vec<_> = names.map(|name| seal(folder, snapshots, &name)).collect::<Result<_, _>>()?;
    sealed.sort_unstable();
    Ok(sealed)
}

fn seal(folder: &Folder, snapshots: &[Snapshot], name: &str) -> Result<(ActorId, PublicKey), Failure> {
    let wrong = |wrong: &dyn std::fmt::Display| Failure::failed(format!("{name}: {wrong}"));
    if !name.ends_with(".seal.json") {
        return Err(wrong(&"it belongs to none of the snapshots in inputs.json"));
    }
    let seal = SnapshotSeal::read(&folder.read(name)?).map_err(|error| wrong(&error))?;
    if !snapshots.contains(&seal.snapshot) {
        return Err(wrong(&"it is not the seal of one of the snapshots in inputs.json"));
    }
    if !seal.is_good(&Ed25519) {
        return Err(wrong(&"its signature is not good"));
    }
    if !seal.is_by_its_node() {
        return Err(wrong(&format_args!("its key is not that of {}", seal.snapshot.node)));
    }
    if bundle::seal_file(seal.snapshot.rows_root, seal.key) != name {
        return Err(wrong(&"it has the name of another seal"));
    }
    Ok((seal.snapshot.node, seal.key))
}
