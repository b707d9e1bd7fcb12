//! `omnigate epoch verify`: compute again, compare every byte, and say what is proved and what is not.

use std::path::Path;

use rewards::{Digest, Manifest, Proof, QuarantineNotice, bundle};
use ron_kernel::ExitCode;

use super::{
    VerifyArgs,
    attested::{Attested, attested},
    chain,
    examine::{Examined, examine},
    files::{self, Folder},
    plain::plain,
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
    pub(super) examined: Examined,
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
        return proof(args);
    }
    let verified = bundle(args)?;
    let explained = args.actor.iter().map(|actor| (actor.as_str(), verified.examined.run.explain(actor)));
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
    let threads = args.threads.number();
    let examined = examine(&folder, &trust, threads)?;
    let usual = || Required::usual(args.trust.ledger.is_some());
    let required = args.require.clone().unwrap_or_else(usual);
    let search = chain::Search {
        epochs: args.epochs.clone().unwrap_or_else(|| chain::beside(&folder)),
        is_whole: args.chain || required.includes(Check::Chain),
        required: &required,
        trust: &trust,
        threads,
    };
    let followed = search.follow(&examined.run)?;
    let published = published(examined.run.commitment(), &examined.attested, &trust)?;
    let settled = settled(&args.trust, &examined.run)?;
    let found = examined.made_of(&trust).into_iter().chain([
        (Check::Commitment, published),
        (Check::Chain, chain::finding(&followed)),
        (Check::Settled, paid(settled)),
    ]);
    let finding =
        |(check, (proved, detail))| Finding { check, proved, required: required.includes(check), detail };
    Ok(Verified { findings: found.map(finding).collect(), examined })
}

/// An epoch that is set aside is not verified, whatever was computed before.
pub(super) fn not_quarantined(folder: &Folder) -> Result<(), Failure> {
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
    Err(Failure::failed(format!(
        "epoch {epoch} is quarantined, {paid}: {}: {}",
        plain(&reason),
        plain(&detail)
    )))
}

fn published(commitment: Digest, attested: &Attested, trust: &Trust) -> Result<(bool, String), Failure> {
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

/// Checks a proof. Anyone can invent a run and prove a line of it, so the run has to be known from elsewhere: by its
/// commitment, or by the word of a trusted node beside `run.json`.
fn proof(args: &VerifyArgs) -> Result<ExitCode, Failure> {
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
    let trust = Trust::read(&args.trust)?;
    let proof = Proof::read(&files::read(&args.bundle)?);
    let proof = proof.map_err(|error| Failure::failed(format!("{shown}: {error}")))?;
    let manifest = manifest(run)?;
    proof.check(&manifest).map_err(|error| Failure::failed(format!("{shown}: {error}")))?;
    let about = |failure: Failure| failure.about(format_args!("{}", run.display()));
    let attested = beside(run)
        .map_or_else(|| Ok(Attested::default()), |folder| attested(&folder, manifest.name(), &trust));
    let (proved, detail) =
        published(manifest.commitment(), &attested.map_err(about)?, &trust).map_err(about)?;
    let required = args.require.as_ref().is_none_or(|required| required.includes(Check::Commitment));
    let finding = Finding { check: Check::Commitment, proved, required, detail };
    print(&if args.json {
        pretty(&show::proof_json(&proof, &finding))
    } else {
        show::proof(&proof, &manifest, &finding)
    })?;
    Ok(if proved || !required { ExitCode::Clean } else { ExitCode::Failed })
}

/// The folder that a file is in; `None` if that is no folder, as for a pipe.
fn beside(file: &Path) -> Option<Folder> {
    let folder = file.parent()?;
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    Folder::open(folder).ok()
}

fn manifest(path: &Path) -> Result<Manifest, Failure> {
    Manifest::read(&files::read(path)?)
        .map_err(|error| Failure::failed(format!("{}: {error}", path.display())))
}
