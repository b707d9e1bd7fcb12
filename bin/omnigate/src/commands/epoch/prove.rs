//! `omnigate epoch prove`: one payout and the hashes that tie it to a run.

use rewards::{LineSearch, Manifest, bundle};

use super::{
    ProveArgs,
    files::{self, Folder},
};
use crate::{commands::print, failure::Failure};

/// Writes the proof.
pub(super) fn run(args: &ProveArgs) -> Result<(), Failure> {
    let folder = Folder::open(&args.bundle)?;
    let manifest = Manifest::read(&folder.read(bundle::RUN)?)
        .map_err(|error| Failure::failed(format!("{}: {error}", bundle::RUN)))?;
    let mut search = LineSearch::new(&args.actor);
    folder.lines(bundle::ALLOCATIONS, |line| search.line(line))?;
    let proof = search.finish(&manifest).map_err(|error| {
        Failure::failed(format!("no proof for {} in epoch {}: {error}", args.actor, manifest.epoch))
    })?;
    let document = proof.to_bytes();
    let Some(path) = &args.output else {
        return print(&String::from_utf8_lossy(&document));
    };
    files::replace(path, |out| out.write_all(&document))
        .map_err(|error| Failure::failed(format!("{} cannot be written: {error}", path.display())))
}
