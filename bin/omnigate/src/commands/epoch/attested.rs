//! Who attests to a run: the files below `attestations`.

use rewards::{Attestation, PublicKey, RunName, bundle, ed25519::Ed25519};
use types::NodeId;

use super::{files::Folder, trust::Trust};
use crate::failure::Failure;

/// The nodes that attest to a run.
#[derive(Debug, Default)]
pub(super) struct Attested {
    /// The keys whose signatures are valid.
    pub(super) by: Vec<PublicKey>,
    /// Those of them that the caller believes.
    pub(super) trusted: Vec<NodeId>,
}

/// Reads every attestation in the bundle. One that is not good, or is about another run, is an error.
pub(super) fn attested(folder: &Folder, run: RunName, trust: &Trust) -> Result<Attested, Failure> {
    let names = folder.names("attestations")?;
    let by = names.into_iter().map(|name| one(folder, run, name)).collect::<Result<Vec<_>, _>>()?;
    let nodes = by.iter().map(|key| NodeId::of_key(key.as_bytes()));
    let trusted = nodes.filter(|node| trust.has_node(node)).collect();
    Ok(Attested { by, trusted })
}

fn one(folder: &Folder, run: RunName, name: String) -> Result<PublicKey, Failure> {
    let attestation = Attestation::read(&folder.read(&name)?);
    let attestation = attestation.map_err(|error| Failure::failed(format!("{name}: {error}")))?;
    let about_this = (attestation.epoch, attestation.commitment) == (run.epoch, run.commitment);
    if about_this && attestation.is_good(&Ed25519) && bundle::attestation_file(attestation.key) == name {
        Ok(attestation.key)
    } else {
        Err(Failure::failed(format!("{name} does not attest to this run")))
    }
}
