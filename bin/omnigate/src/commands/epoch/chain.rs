//! The chain of epochs: every run of ruleset 3 names the run before it, and takes over what that one carried on.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use rewards::{BroughtNames, Digest, Epoch, Manifest, PolicyId, Run, RunName, bundle};

use super::{
    examine::examine,
    files::Folder,
    trust::{Check, Required, Trust},
    verify::not_quarantined,
};
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
    /// It was followed over so many links; the check of this run does not prove it, for this reason.
    Unproved(usize, RunName, Check, String),
    /// Nobody asked for more than the link to this run.
    NotAsked(RunName),
}

/// What the chain is searched for, and where.
#[derive(Debug)]
pub(super) struct Search<'a> {
    /// The folder in which the folders of epochs are beside each other.
    pub(super) epochs: PathBuf,
    /// Whether every run before is verified. If not, only the last link is compared.
    pub(super) is_whole: bool,
    /// What has to be proved of every run.
    pub(super) required: &'a Required,
    pub(super) trust: &'a Trust,
    pub(super) threads: usize,
}

impl Search<'_> {
    /// Follows the chain behind a run. A link or a run that is wrong is an error.
    pub(super) fn follow(&self, run: &Run) -> Result<Chain, Failure> {
        let manifest = run.manifest();
        let Some(linked) = &manifest.linked else { return Ok(Chain::None) };
        let mut walk = Walk::new(&self.epochs, manifest)?;
        let (mut name, mut brought, mut links) = (manifest.name(), linked.brought.clone(), 0);
        loop {
            walk.corrections(name, &brought)?;
            walk.alone(name, &brought)?;
            let Some(previous) = brought.previous else { return Ok(Chain::Whole(links)) };
            let Some((folder, before)) = walk.link(name, previous, &brought)? else {
                return Ok(Chain::Broken(links, previous));
            };
            if !self.is_whole {
                return Ok(Chain::NotAsked(previous));
            }
            registry(name.epoch, before.payees.as_ref(), brought.payees.as_ref())?;
            links += 1;
            if let Some((check, detail)) = self.verify(&folder, previous.epoch)? {
                return Ok(Chain::Unproved(links, previous, check, detail));
            }
            (name, brought) = (previous, before);
        }
    }

    /// Verifies an earlier run by itself. Returns what is required and not proved.
    fn verify(&self, folder: &Folder, epoch: Epoch) -> Result<Option<(Check, String)>, Failure> {
        let about = |failure: Failure| failure.about(format_args!("the chain is wrong at epoch {epoch}"));
        not_quarantined(folder).map_err(about)?;
        let examined = examine(folder, self.trust, self.threads).map_err(about)?;
        let made_of = examined.made_of(self.trust).into_iter();
        let mut missing = made_of.filter(|(check, (proved, _))| self.required.includes(*check) && !proved);
        Ok(missing.next().map(|(check, (_, detail))| (check, detail)))
    }
}

struct Walk<'a> {
    epochs: &'a Path,
    policy: &'a PolicyId,
    /// Every run of the policy that is there: which run it follows, and its name.
    known: Vec<(Option<RunName>, RunName)>,
    /// Corrections that took effect in the runs that were passed.
    applied: BTreeSet<Digest>,
}

impl<'a> Walk<'a> {
    fn new(epochs: &'a Path, manifest: &'a Manifest) -> Result<Self, Failure> {
        let policy = &manifest.policy_id;
        let mut known = Vec::new();
        for (_, folder) in Folder::epochs(epochs)? {
            let Some(found) = read(&folder)? else { continue };
            let name = found.name();
            let linked = found.linked.filter(|_| found.policy_id == *policy);
            known.extend(linked.map(|linked| (linked.brought.previous, name)));
        }
        Ok(Self { epochs, policy, known, applied: BTreeSet::new() })
    }

    /// The run before, checked against what the run that follows it says of it; `None` if its files are not there.
    fn link(
        &self,
        after: RunName,
        previous: RunName,
        brought: &BroughtNames,
    ) -> Result<Option<(Folder, BroughtNames)>, Failure> {
        let (epoch, of) = (previous.epoch, after.epoch);
        let Some((folder, before)) = self.run(previous)? else { return Ok(None) };
        let found = before.commitment();
        if found != previous.commitment {
            return Err(wrong(
                of,
                format_args!("it follows {} of epoch {epoch}, and that came to {found}", previous.commitment),
            ));
        }
        if before.epoch != epoch {
            return Err(wrong(
                of,
                format_args!("the run that it calls epoch {epoch} is of {}", before.epoch),
            ));
        }
        if before.policy_id != *self.policy {
            return Err(wrong(of, format_args!("epoch {epoch} was paid by the policy {}", before.policy_id)));
        }
        let Some(linked) = before.linked else {
            return Err(wrong(of, format_args!("the ruleset of epoch {epoch} has no chain")));
        };
        if linked.carried_out != brought.carried {
            let (has, takes) = (linked.carried_out.amount, brought.carried.amount);
            return Err(wrong(
                of,
                format_args!("epoch {epoch} carried {has} over, and it takes over {takes}"),
            ));
        }
        Ok(Some((folder, linked.brought)))
    }

    /// Sees to it that no other run that is there has this one's place: that one takes over the same amounts again.
    fn alone(&self, run: RunName, brought: &BroughtNames) -> Result<(), Failure> {
        let mut others =
            self.known.iter().filter(|(previous, name)| *previous == brought.previous && *name != run);
        let Some((_, other)) = others.next() else { return Ok(()) };
        let RunName { epoch, commitment } = other;
        Err(match brought.previous {
            Some(before) => {
                let both =
                    format_args!("{commitment} of epoch {epoch} follows epoch {} as well", before.epoch);
                wrong(run.epoch, both)
            }
            None => wrong(
                run.epoch,
                format_args!("it follows no run, and nor does {commitment} of epoch {epoch}"),
            ),
        })
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
            let corrected = self.run(*corrects)?.map(|(_, manifest)| manifest.name());
            if let Some(found) = corrected.filter(|found| found != corrects) {
                let (of, found) = (corrects.epoch, found.commitment);
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

    /// The folder and the manifest of an epoch beside the others; `None` if there is no run.
    fn run(&self, run: RunName) -> Result<Option<(Folder, Manifest)>, Failure> {
        let path = self.epochs.join(run.epoch.to_string());
        if !path.is_dir() {
            return Ok(None);
        }
        let folder = Folder::open(&path)?;
        Ok(read(&folder)?.map(|manifest| (folder, manifest)))
    }
}

/// The manifest in a folder; `None` if it has none.
fn read(folder: &Folder) -> Result<Option<Manifest>, Failure> {
    if !folder.has(bundle::RUN) {
        return Ok(None);
    }
    let read = Manifest::read(&folder.read(bundle::RUN)?);
    let path = folder.path().join(bundle::RUN);
    read.map(Some).map_err(|error| Failure::failed(format!("{}: {error}", path.display())))
}

/// Sees to it that a run does not take an older registry of payees than the run before, or another of the same version.
fn registry(
    epoch: Epoch,
    before: Option<&(Digest, rewards::Int)>,
    after: Option<&(Digest, rewards::Int)>,
) -> Result<(), Failure> {
    match (before, after) {
        (Some((_, before)), Some((_, after))) if after < before => {
            let (before, after) = (before.get(), after.get());
            let what = format_args!("its registry of payees is version {after}, after version {before}");
            Err(wrong(epoch, what))
        }
        (Some((before, version)), Some((after, same))) if version == same && before != after => {
            let version = version.get();
            let what =
                format_args!("its registry of payees is not the one that was version {version} before");
            Err(wrong(epoch, what))
        }
        (Some(_), None) => {
            Err(wrong(epoch, format_args!("it has no registry of payees, and the run before has one")))
        }
        _ => Ok(()),
    }
}

fn wrong(epoch: Epoch, what: std::fmt::Arguments<'_>) -> Failure {
    Failure::failed(format!("the chain is wrong at epoch {epoch}: {what}"))
}

/// Where the folders of other epochs are: beside this one.
pub(super) fn beside(folder: &Folder) -> PathBuf {
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
        Chain::Whole(links) => {
            (true, format!("followed over {links} links to the first run of the chain, each run verified"))
        }
        Chain::Broken(links, RunName { epoch, commitment }) => {
            let help = "put the folders of earlier epochs beside this one, or name theirs with --epochs";
            (false, format!("followed over {links} links; {commitment} of epoch {epoch} is next: {help}"))
        }
        Chain::Unproved(links, RunName { epoch, .. }, check, detail) => {
            (false, format!("followed over {links} links; {check} of epoch {epoch} is not proved: {detail}"))
        }
        Chain::NotAsked(RunName { epoch, commitment }) => {
            (false, format!("it follows {commitment} of epoch {epoch}, which was not verified: use --chain"))
        }
    }
}
