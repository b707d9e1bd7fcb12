//! `omnigate epoch rerun`: compute an epoch again from what it was computed from.

use rewards::{Epoch, Manifest, Run, Snapshot, bundle, compute_after};

use super::{
    RerunArgs,
    brought::brought,
    bundle::{InputsError, policy, rows, snapshots},
    files::Folder,
};
use crate::{commands::print, failure::Failure};

/// Computes the epoch and writes what came out.
pub(super) fn run(args: &RerunArgs) -> Result<(), Failure> {
    let folder = Folder::open(&args.bundle)?;
    let policy = policy(&folder, &[])?.policy;
    let snapshots = snapshots(&folder)?;
    let epoch = epoch(&folder, &snapshots)?;
    let brought = brought(&folder, &policy, &[])?;
    let into = Folder::create(&args.into)?;
    let computed = rows(&folder, &policy, epoch, &snapshots, args.threads.number())
        .and_then(|inputs| compute_after(&policy, &inputs, &brought).map_err(InputsError::from));
    match computed {
        Ok(run) => write(&into, &run),
        Err(InputsError::Failure(failure)) => Err(failure),
        Err(InputsError::Quarantine(reason)) => {
            into.write(bundle::QUARANTINE, |out| out.write_all(&reason.notice(epoch).to_bytes()))?;
            Err(Failure::failed(format!("epoch {epoch} cannot be paid: {}: {reason}", reason.code())))
        }
    }
}

/// The epoch of the snapshots; where there are none, that of the run.
fn epoch(folder: &Folder, snapshots: &[Snapshot]) -> Result<Epoch, Failure> {
    if let Some(snapshot) = snapshots.first() {
        return Ok(snapshot.epoch);
    }
    Manifest::read(&folder.read(bundle::RUN)?)
        .map(|manifest| manifest.epoch)
        .map_err(|error| Failure::failed(format!("{}: {error}", bundle::RUN)))
}

fn write(into: &Folder, run: &Run) -> Result<(), Failure> {
    into.write(bundle::ALLOCATIONS, |out| {
        let mut line = Vec::new();
        (0..run.lines()).try_for_each(|at| {
            line.clear();
            run.write_line(at, &mut line);
            out.write_all(&line)
        })
    })?;
    into.write(bundle::RUN, |out| out.write_all(run.document()))?;
    // Last, so that whoever finds it finds the rest.
    into.write(bundle::COMMITMENT, |out| writeln!(out, "{}", run.commitment()))?;
    print(&format!("epoch {}: {} lines, {}\n", run.epoch(), run.lines(), run.commitment()))
}
