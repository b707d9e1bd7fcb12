//! The chain of epochs: every run of ruleset 3 names the run before it, and takes over what that one carried on.

use std::{collections::BTreeSet, path::Path};

use rewards::{BroughtNames, Digest, Manifest, Run, RunName, bundle};

use super::files::{self, Folder};
use crate::failure::Failure;

/// How far the chain behind a run was followed.
#[derive(Debug)]
pub(super) enum Chain {
    /// The ruleset has no chain.
    None,
    /// It was followed to its first run, over so many links.
    Whole(usize),
    /// It was followed over so many links; the files of this run are not there.
    Broken(usize, RunName),
}

/// Follows the chain behind a run, as far as the folders of its epochs are beside each other in `epochs`; over one link if
/// not `all` of it is asked for. A link that is wrong is an error.
pub(super) fn follow(epochs: &Path, run: &Run, all: bool) -> Result<Chain, Failure> {
    let manifest = run.manifest();
    let Some(linked) = &manifest.linked else { return Ok(Chain::None) };
    let mut walk = Walk { epochs, policy: manifest.policy_id.as_str(), applied: BTreeSet::new() };
    let (mut name, mut brought, mut links) = (manifest.name(), linked.brought.clone(), 0);
    loop {
        walk.corrections(name, &brought)?;
        let Some(previous) = brought.previous else { return Ok(Chain::Whole(links)) };
        let Some(before) = walk.link(name, previous, &brought)? else {
            return Ok(Chain::Broken(links, previous));
        };
        links += 1;
        let Some(linked) = before.linked else { return Ok(Chain::Whole(links)) };
        if !all {
            return Ok(if linked.brought.previous.is_none() {
                Chain::Whole(links)
            } else {
                Chain::Broken(links, previous)
            });
        }
        (name, brought) = (previous, linked.brought);
    }
}

struct Walk<'a> {
    epochs: &'a Path,
    policy: &'a str,
    /// Corrections that took effect in the runs that were passed.
    applied: BTreeSet<Digest>,
}

impl Walk<'_> {
    /// The run before, checked against what the run that follows it says of it; `None` if its files are not there.
    fn link(
        &self,
        after: RunName,
        previous: RunName,
        brought: &BroughtNames,
    ) -> Result<Option<Manifest>, Failure> {
        let (epoch, of) = (previous.epoch, after.epoch);
        let Some(before) = self.manifest(previous)? else { return Ok(None) };
        let found = before.commitment();
        if found != previous.commitment {
            return Err(wrong(
                of,
                format_args!("it follows {} of epoch {epoch}, and that came to {found}", previous.commitment),
            ));
        }
        if before.policy_id.as_str() != self.policy {
            return Err(wrong(of, format_args!("epoch {epoch} was paid by the policy {}", before.policy_id)));
        }
        let carried = before.linked.as_ref().map(|linked| linked.carried_out.clone()).unwrap_or_default();
        if carried != brought.carried {
            let (has, takes) = (carried.amount, brought.carried.amount);
            return Err(wrong(
                of,
                format_args!("epoch {epoch} carried {has} over, and it takes over {takes}"),
            ));
        }
        Ok(Some(before))
    }

    /// Sees to it that no correction takes effect twice, and that each corrects the run that it names.
    fn corrections(&mut self, run: RunName, brought: &BroughtNames) -> Result<(), Failure> {
        for (corrects, hash) in &brought.corrections {
            if !self.applied.insert(*hash) {
                return Err(wrong(
                    run.epoch,
                    format_args!("the correction {hash} takes effect in a later run as well"),
                ));
            }
            let corrected = self.manifest(*corrects)?.map(|manifest| manifest.commitment());
            if let Some(found) = corrected.filter(|found| *found != corrects.commitment) {
                let of = corrects.epoch;
                return Err(wrong(
                    run.epoch,
                    format_args!(
                        "a correction names {} of epoch {of}, and that came to {found}",
                        corrects.commitment
                    ),
                ));
            }
        }
        Ok(())
    }

    /// The manifest of an epoch beside the others; `None` if it is not there.
    fn manifest(&self, run: RunName) -> Result<Option<Manifest>, Failure> {
        let path = self.epochs.join(run.epoch.to_string()).join(bundle::RUN);
        if !path.is_file() {
            return Ok(None);
        }
        let read = Manifest::read(&files::read(&path)?);
        read.map(Some).map_err(|error| Failure::failed(format!("{}: {error}", path.display())))
    }
}

fn wrong(epoch: rewards::Epoch, what: std::fmt::Arguments<'_>) -> Failure {
    Failure::failed(format!("the chain is wrong at epoch {epoch}: {what}"))
}

/// Where the folders of other epochs are: beside this one.
pub(super) fn beside(folder: &Folder) -> std::path::PathBuf {
    let path = folder.path();
    path.canonicalize()
        .ok()
        .and_then(|path| path.parent().map(Path::to_owned))
        .unwrap_or_else(|| path.to_owned())
}

/// What the check of the chain found.
pub(super) fn finding(chain: &Chain) -> (bool, String) {
    match chain {
        Chain::None => (true, "the ruleset has no chain: its runs do not name the run before".to_owned()),
        Chain::Whole(0) => (true, "this run is the first of its chain".to_owned()),
        Chain::Whole(links) => (true, format!("followed over {links} links to the first run of the chain")),
        Chain::Broken(links, RunName { epoch, commitment }) => {
            let help = "put the folders of earlier epochs beside this one, or name theirs with --epochs";
            (false, format!("followed over {links} links; {commitment} of epoch {epoch} is next: {help}"))
        }
    }
}
