//! `omnigate epoch verify`: compute anew, compare every byte, show the sums.

use std::path::Path;

use rewards::{
    Attestation, Claim, Digest, LineCheck, Manifest, Mismatch, Proof, PublicKey, Run, bundle,
    ed25519::Ed25519, verify,
};
use ron_kernel::ExitCode;
use types::ActorId;

use super::{
    VerifyArgs,
    bundle::{Judged, by_allocations, has_rows, policy, rows, seals, snapshots},
    files::{self, Folder},
    show,
};
use crate::{
    commands::{pretty, print},
    failure::Failure,
};

/// What was found to be as it should be.
#[derive(Debug)]
pub(super) struct Verified {
    pub(super) run: Run,
    /// Keys whose signatures on the policy are good.
    pub(super) signed_by: Vec<PublicKey>,
    /// Whether these keys were named as trusted.
    pub(super) trusted: bool,
    /// Whether the snapshots' rows were there to be added up.
    pub(super) rows_checked: bool,
    pub(super) sealed_by: Vec<(ActorId, PublicKey)>,
    pub(super) attested_by: Vec<PublicKey>,
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
    Ok(if all_found { ExitCode::Clean } else { ExitCode::Failed })
}

fn bundle(args: &VerifyArgs) -> Result<Verified, Failure> {
    let folder = Folder::of_epoch(&args.bundle)?;
    let Judged { policy, keys: signed_by } = policy(&folder, &args.policy_key)?;
    let document = folder.read(bundle::RUN)?;
    let epoch = Manifest::read(&document).map_err(Mismatch::from).map_err(Failure::failed)?.epoch;
    let snapshots = snapshots(&folder)?;
    let sealed_by = seals(&folder, &snapshots)?;
    let rows_checked = snapshots.iter().all(|snapshot| has_rows(&folder, snapshot));
    let inputs = if rows_checked {
        rows(&folder, epoch, &snapshots, args.threads.number())?
    } else {
        by_allocations(&folder, epoch, snapshots)?
    };
    let claim = Claim { manifest: &document, commitment: commitment(&folder)? };
    let run = verify(&policy, &inputs, claim).map_err(Failure::failed)?;
    let mut lines = LineCheck::new(&run);
    folder.lines(bundle::ALLOCATIONS, |line| lines.line(line))?;
    lines.finish().map_err(Failure::failed)?;
    let attested_by = attestations(&folder, &run)?;
    let trusted = !args.policy_key.is_empty();
    Ok(Verified { run, signed_by, trusted, rows_checked, sealed_by, attested_by })
}

fn commitment(folder: &Folder) -> Result<Digest, Failure> {
    let text = String::from_utf8(folder.read(bundle::COMMITMENT)?).unwrap_or_default();
    let digest = text.strip_suffix('\n').and_then(|line| line.parse().ok());
    digest
        .ok_or_else(|| Failure::failed(format!("{}: there is no digest and a line feed", bundle::COMMITMENT)))
}

fn attestations(folder: &Folder, run: &Run) -> Result<Vec<PublicKey>, Failure> {
    let check = |name: String| {
        let attestation = Attestation::read(&folder.read(&name)?);
        let attestation = attestation.map_err(|error| Failure::failed(format!("{name}: {error}")))?;
        let about_this = (attestation.epoch, attestation.commitment) == (run.epoch(), run.commitment());
        if about_this && attestation.is_good(&Ed25519) {
            Ok(attestation.key)
        } else {
            Err(Failure::failed(format!("{name} does not attest to this run")))
        }
    };
    folder.names("attestations", ".json").into_iter().map(check).collect()
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
        Failure::bad_config(format!("{shown} is no folder, and for a proof --run is missing"))
            .help("name the run.json that the proof is about: `--run run.json`")
    })?;
    let proof = Proof::read(&files::read(&args.bundle)?);
    let proof = proof.map_err(|error| Failure::failed(format!("{shown}: {error}")))?;
    let manifest = manifest(run)?;
    proof.check(&manifest).map_err(|error| Failure::failed(format!("{shown}: {error}")))?;
    if args.json {
        return print(&pretty(&show::proof_json(&proof)));
    }
    print(&show::proof(&proof, &manifest))
}

fn manifest(path: &Path) -> Result<Manifest, Failure> {
    Manifest::read(&files::read(path)?)
        .map_err(|error| Failure::failed(format!("{}: {error}", path.display())))
}
