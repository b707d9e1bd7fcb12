//! What a run takes over from before it: the files of a bundle that `brought.json` names, each compared with its hash.

use std::{collections::BTreeSet, sync::Arc};

use rewards::{
    Brought, BroughtNames, Carried, Correction, Payees, Policy, PublicKey, RunName, SignedCorrection,
    SignedPayees, bundle, ed25519::Ed25519,
};

use super::files::Folder;
use crate::failure::Failure;

/// Reads what a run of this policy takes over. Without `trusted` keys every signature has to be good.
pub(super) fn brought(folder: &Folder, policy: &Policy, trusted: &[PublicKey]) -> Result<Brought, Failure> {
    if !policy.terms().ruleset.is_chained() {
        let files = [bundle::BROUGHT, bundle::CARRIED, bundle::PAYEES];
        let corrections = folder.names("corrections")?;
        let found = files.into_iter().find(|file| folder.has(file));
        return match found.or(corrections.first().map(String::as_str)) {
            Some(file) => Err(Failure::failed(format!("{file}: the ruleset takes nothing over"))),
            None => Ok(Brought::default()),
        };
    }
    let wrong = |error| Failure::failed(format!("{}: {error}", bundle::BROUGHT));
    let names = BroughtNames::read(&folder.read(bundle::BROUGHT)?).map_err(wrong)?;
    let corrections = corrections(folder, &names, trusted)?;
    let brought = Brought {
        previous: names.previous,
        carried: Arc::new(carried(folder)?),
        corrections: Arc::new(corrections),
        payees: if names.payees.is_some() { Some(Arc::new(payees(folder, trusted)?)) } else { None },
    };
    if names.payees.is_none() && folder.has(bundle::PAYEES) {
        return Err(Failure::failed(format!("{} is not named in {}", bundle::PAYEES, bundle::BROUGHT)));
    }
    let found = brought.names();
    for (file, same) in [
        (bundle::CARRIED, found.carried == names.carried),
        (bundle::PAYEES, found.payees == names.payees),
        ("corrections", found.corrections == names.corrections),
    ] {
        if !same {
            return Err(Failure::failed(format!("{file}: it is not what {} names", bundle::BROUGHT)));
        }
    }
    Ok(brought)
}

fn carried(folder: &Folder) -> Result<Carried, Failure> {
    let mut amounts = Vec::new();
    if folder.has(bundle::CARRIED) {
        folder.lines(bundle::CARRIED, |line| Carried::read_line(line).map(|one| amounts.push(one)))?;
    }
    Carried::new(amounts).map_err(|error| Failure::failed(format!("{}: {error}", bundle::CARRIED)))
}

fn corrections(
    folder: &Folder,
    names: &BroughtNames,
    trusted: &[PublicKey],
) -> Result<Vec<Correction>, Failure> {
    let mut left: BTreeSet<_> = folder.names("corrections")?.into_iter().collect();
    let mut found = Vec::new();
    for (corrects, hash) in &names.corrections {
        let name = bundle::correction_file(*hash);
        let one = correction(folder, &name, *corrects, trusted)?;
        if one.hash() != *hash {
            return Err(Failure::failed(format!("{name}: it is not the correction that it is named by")));
        }
        left.remove(&name);
        found.push(one);
    }
    match left.first() {
        Some(name) => Err(Failure::failed(format!("{name} is not named in {}", bundle::BROUGHT))),
        None => Ok(found),
    }
}

fn correction(
    folder: &Folder,
    name: &str,
    corrects: RunName,
    trusted: &[PublicKey],
) -> Result<Correction, Failure> {
    let wrong = |wrong: &dyn std::fmt::Display| Failure::failed(format!("{name}: {wrong}"));
    let signed = SignedCorrection::read(&folder.read(name)?).map_err(|error| wrong(&error))?;
    let own: Vec<_> = signed.keys().copied().collect();
    let counted = if trusted.is_empty() { &own } else { trusted };
    let correction = signed.judge(counted, &Ed25519).map_err(|error| wrong(&error))?;
    if correction.corrects != corrects {
        return Err(wrong(&"it corrects another run"));
    }
    Ok(correction.clone())
}

fn payees(folder: &Folder, trusted: &[PublicKey]) -> Result<Payees, Failure> {
    let wrong = |wrong: &dyn std::fmt::Display| Failure::failed(format!("{}: {wrong}", bundle::PAYEES));
    let signed = SignedPayees::read(&folder.read(bundle::PAYEES)?).map_err(|error| wrong(&error))?;
    let own: Vec<_> = signed.keys().copied().collect();
    let counted = if trusted.is_empty() { &own } else { trusted };
    signed.judge(counted, &Ed25519).cloned().map_err(|error| wrong(&error))
}
