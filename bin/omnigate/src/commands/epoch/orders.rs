//! Orders about an epoch and objections to it, as they are in its bundle. Each has to be signed, and to be about this epoch.

use rewards::{Action, Dispute, Order, PublicKey, Run, SignedOrder, bundle, ed25519::Ed25519};
use types::NodeId;

use super::{files::Folder, trust::Trust};
use crate::failure::Failure;

/// The orders that the bundle has, signed by trusted keys if some are; a node that one excludes must not count.
pub(super) fn orders(folder: &Folder, run: &Run, trust: &Trust) -> Result<Vec<Order>, Failure> {
    let mut orders = Vec::new();
    if folder.has(bundle::ORDERS) {
        folder.lines(bundle::ORDERS, |line| order(line, run, trust).map(|order| orders.push(order)))?;
    }
    Ok(orders)
}

fn order(line: &[u8], run: &Run, trust: &Trust) -> Result<Order, String> {
    let signed = SignedOrder::read(line).map_err(|error| error.to_string())?;
    let own: Vec<_> = signed.keys().copied().collect();
    let counted = if trust.policy_keys.is_empty() { &own } else { &trust.policy_keys };
    let order = signed.judge(counted, &Ed25519).map_err(|error| format!("an order: {error}"))?;
    if order.epoch != run.epoch() {
        return Err(format!("an order is about epoch {}", order.epoch));
    }
    if let Action::Exclude(node) = &order.action
        && run.inputs().snapshots().iter().any(|snapshot| snapshot.node == *node)
    {
        return Err(format!("{node} counts, and an order excludes it"));
    }
    Ok(order.clone())
}

/// The objections that the bundle has, by those who may object: the actor itself, a node that counts, and whoever signs
/// policies, which is one of `policy_keys` or a trusted key that has not signed this one.
pub(super) fn disputes(
    folder: &Folder,
    run: &Run,
    policy_keys: &[PublicKey],
    trust: &Trust,
) -> Result<Vec<Dispute>, Failure> {
    let mut disputes = Vec::new();
    for name in folder.names("disputes")? {
        let dispute = dispute(folder, run, &name)?;
        let node = NodeId::of_key(dispute.key.as_bytes());
        let id = node.to_string();
        let counts = run.inputs().snapshots().iter().any(|snapshot| snapshot.node.as_str() == id);
        let may = dispute.actor.as_str() == id || counts || trust.has_node(&node);
        if !may && !policy_keys.contains(&dispute.key) && !trust.policy_keys.contains(&dispute.key) {
            return Err(Failure::failed(format!("{name}: {} may not object to this run", dispute.key)));
        }
        disputes.push(dispute);
    }
    Ok(disputes)
}

fn dispute(folder: &Folder, run: &Run, name: &str) -> Result<Dispute, Failure> {
    let wrong = |wrong: &dyn std::fmt::Display| Failure::failed(format!("{name}: {wrong}"));
    let dispute = Dispute::read(&folder.read(name)?).map_err(|error| wrong(&error))?;
    let is_about_this = dispute.run == run.manifest().name();
    if is_about_this && dispute.is_good(&Ed25519) && bundle::dispute_file(dispute.hash()) == name {
        Ok(dispute)
    } else {
        Err(wrong(&"it is no signed objection to this run"))
    }
}
