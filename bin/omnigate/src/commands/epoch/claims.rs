//! `omnigate epoch claims`: an epoch's payouts as a tree that a contract on a chain pays from.

use rewards::{
    Manifest, Payees, SignedPayees, bundle,
    claims::{AddressBook, ClaimTree, ClaimsBuilder, EvmAddress, Unbound},
};

use super::{
    ClaimsArgs,
    files::{self, Folder},
    verify::not_quarantined,
};
use crate::{commands::print, failure::Failure};

/// Writes the tree, or prints one claim with its proof.
pub(super) fn run(args: &ClaimsArgs) -> Result<(), Failure> {
    let folder = Folder::open(&args.bundle)?;
    // A contract cannot take a tree back.
    not_quarantined(&folder)?;
    let manifest = Manifest::read(&folder.read(bundle::RUN)?)
        .map_err(|error| Failure::failed(format!("{}: {error}", bundle::RUN)))?;
    let book = match &args.addresses {
        Some(path) => AddressBook::read(&String::from_utf8_lossy(&files::read(path)?))
            .map_err(|error| Failure::failed(format!("{}: {error}", path.display())))?,
        None => AddressBook::default(),
    };
    let payees = payees(&folder, &manifest)?;
    let mut claims = ClaimsBuilder::new(&book);
    if let Some(payees) = &payees {
        claims = claims.to_payees(payees, manifest.epoch);
    }
    folder.lines(bundle::ALLOCATIONS, |line| claims.line(line))?;
    let failed = |error| Failure::failed(format!("no claims of epoch {}: {error}", manifest.epoch));
    let (tree, unbound) = claims.finish(&manifest).map_err(failed)?;
    if unbound.actors > 0 && !args.allow_unbound {
        return Err(Failure::failed(missing(&unbound)));
    }
    if let Some(address) = args.proof {
        return print(&proof(&tree, address)?);
    }
    let Some(path) = &args.output else {
        let mut document = Vec::new();
        let written = tree.write_document(&mut document);
        written.map_err(|error| Failure::failed(error.to_string()))?;
        return print(&String::from_utf8_lossy(&document));
    };
    files::replace(path, |mut out| tree.write_document(&mut out))
        .map_err(|error| Failure::failed(format!("{} cannot be written: {error}", path.display())))?;
    print(&summary(&tree, &manifest, &unbound))
}

/// The registry that the run pays by; `None` if it names none.
fn payees(folder: &Folder, manifest: &Manifest) -> Result<Option<Payees>, Failure> {
    let Some((hash, _)) = manifest.linked.as_ref().and_then(|linked| linked.brought.payees) else {
        return Ok(None);
    };
    let failed = |what: &dyn std::fmt::Display| Failure::failed(format!("{}: {what}", bundle::PAYEES));
    let signed = SignedPayees::read(&folder.read(bundle::PAYEES)?).map_err(|error| failed(&error))?;
    if signed.payees().hash() != hash {
        return Err(failed(&"it is not the registry that run.json names"));
    }
    Ok(Some(signed.payees().clone()))
}

fn missing(unbound: &Unbound) -> String {
    let names: Vec<_> = unbound.first.iter().map(|actor| actor.as_str()).collect();
    let more = if unbound.actors > names.len() { " and others" } else { "" };
    format!(
        "{} of those who are paid have no address, {} minor units in all, to be paid to {}{more}; name theirs in --addresses, or leave them \
         out with --allow-unbound",
        unbound.actors,
        unbound.amount,
        names.join(", "),
    )
}

/// One claim as a line of JSON: what a payee hands to the contract.
fn proof(tree: &ClaimTree, address: EvmAddress) -> Result<String, Failure> {
    let none = || Failure::failed(format!("{address} has nothing to claim"));
    let (leaf, path) = tree.proof(address).ok_or_else(none)?;
    let path: Vec<_> = path.iter().map(|hash| format!("\"{hash}\"")).collect();
    Ok(format!(
        "{{\"address\":\"{}\",\"amount\":\"{}\",\"proof\":[{}],\"root\":\"{}\"}}\n",
        leaf.address,
        leaf.amount,
        path.join(","),
        tree.root(),
    ))
}

fn summary(tree: &ClaimTree, manifest: &Manifest, unbound: &Unbound) -> String {
    let mut lines = vec![
        format!("epoch     {}", manifest.epoch),
        format!("root      {}", tree.root()),
        format!("claims    {}", tree.leaves().len()),
    ];
    if let Some(claimable) = manifest.paid.checked_sub(unbound.amount) {
        lines.push(format!("claimable {claimable} minor units"));
    }
    if unbound.actors > 0 {
        lines.push(format!(
            "left out  {} minor units of {} without an address",
            unbound.amount, unbound.actors
        ));
    }
    lines.join("\n") + "\n"
}
