//! What a check found, for people and for programs.

use std::fmt::Write;

use rewards::{
    Action, Due, Excluded, Explanation, Linked, Manifest, ParkedPayout, Proof, Residual, Rule, Ruleset, Run,
};
use serde_json::{Value, json};

use super::{
    examine::Examined,
    plain::plain,
    trust::Check,
    verify::{Finding, Verified},
};

/// What is proved and what is not, the sums, and how the payouts asked for add up.
pub(super) fn text(verified: &Verified, explained: &[(&str, Option<Explanation<'_>>)]) -> String {
    let Examined { run, attested, excluded, parked, orders, disputes, .. } = &verified.examined;
    let manifest = run.manifest();
    let Manifest { pool, paid, residual, .. } = manifest;
    let payees = run.allocations().filter(|allocation| allocation.payout.minor() > 0).count();
    let mut out = format!("epoch {}: {}\n", run.epoch(), verdict(verified));
    out += &format!("  {:<11} {:<12} {}\n", "proved", "calculation", calculation(run));
    verified.findings.iter().for_each(|finding| out += &finding_line(finding));
    let mut line = |name: &str, value: String| {
        let _ = writeln!(out, "  {name:<13} {value}");
    };
    line("pool", pool.to_string());
    line("paid", format!("{paid} to {payees} of {} actors", run.lines()));
    line("residual", format!("{residual} {}", destination(run)));
    match &manifest.linked {
        None => line("sum", format!("{paid} + {residual} = {pool}")),
        Some(Linked { brought, carried_out, credited, deducted }) => {
            let (carried, on) = (brought.carried.amount, carried_out.amount);
            line("carried", format!("{carried} from before, {on} to the next epoch"));
            line(
                "corrections",
                format!("{}: {credited} added, {deducted} taken off", brought.corrections.len()),
            );
            line("sum", format!("{paid} + {on} + {residual} = {pool} + {carried} + {credited}"));
        }
    }
    line("points", manifest.score_total.to_string());
    line("allocations", format!("{} lines, {}", run.lines(), manifest.allocations.root));
    line("run key", run.key().to_string());
    for key in &attested.by {
        line("attested by", key.to_string());
    }
    for Excluded { snapshot, detail, .. } in excluded {
        line("left out", format!("{}: {}", snapshot.node, plain(detail)));
    }
    for ParkedPayout { actor, receiver, amount, account, detail, .. } in parked {
        let of = actor.as_ref().unwrap_or(receiver);
        line("parked", format!("{amount} of {of} in {}: {}", plain(account), plain(detail)));
    }
    for order in orders {
        line("order", format!("{}: {}", action(&order.action), plain(&order.reason)));
    }
    for dispute in disputes {
        line("disputed", format!("the line of {}: {}", dispute.actor, plain(&dispute.reason)));
    }
    for (actor, explanation) in explained {
        out += &explanation.as_ref().map_or_else(
            || format!("{actor} has no line: no units that count\n"),
            |explanation| explanation_text(explanation, run),
        );
    }
    out
}

fn action(action: &Action) -> String {
    match action {
        Action::Hold => "held".to_owned(),
        Action::Release => "released".to_owned(),
        Action::Exclude(node) => format!("computed without {node}"),
    }
}

fn verdict(verified: &Verified) -> String {
    let missing: Vec<_> = verified.missing().map(Check::name).collect();
    if missing.is_empty() { "verified".to_owned() } else { format!("not verified: {}", missing.join(", ")) }
}

fn calculation(run: &Run) -> String {
    format!(
        "run.json and {} lines of allocations follow from the policy and the units, to the byte",
        run.lines()
    )
}

fn destination(run: &Run) -> String {
    match &run.policy().terms().residual {
        Residual::Keep => "stays in the pool".to_owned(),
        Residual::Pay(to) => format!("goes to {to}"),
    }
}

fn explanation_text(explanation: &Explanation<'_>, run: &Run) -> String {
    let Explanation { allocation, points, divided, between, whole, remainder } = explanation;
    let mut out = format!("{} is paid {}\n", allocation.actor, allocation.payout);
    let mut line = |name: &str, value: String| {
        let _ = writeln!(out, "  {name:<13} {value}");
    };
    for part in points {
        let value = format!("{} units × {} ppm = {} points", part.units, part.weight_ppm, part.points);
        line(part.metric, value);
    }
    line("score", format!("{} of {} points", allocation.score, run.manifest().score_total));
    let at_cap = allocation.rule == Rule::Capped && run.policy().terms().ruleset != Ruleset::V1;
    if !at_cap {
        let share = format!("{divided} × {} ÷ {between} = {whole}, remainder {remainder}", allocation.score);
        let extra = if allocation.extra { ", + 1 for its remainder" } else { "" };
        line("share", format!("{share}{extra}"));
    }
    if let Some(Due { carried_in, carried_out, credit, debit }) = allocation.due {
        line("carried", format!("{carried_in} from before, {carried_out} to the next epoch"));
        line("corrections", format!("{credit} added, {debit} taken off"));
    }
    let payee = run.payee_of(allocation.actor);
    if payee != allocation.actor {
        line("paid to", payee.to_owned());
    }
    line("payout", format!("{} ({})", allocation.payout, reason(allocation.rule, run)));
    out
}

fn reason(rule: Rule, run: &Run) -> String {
    match rule {
        Rule::Full => "the whole share".to_owned(),
        Rule::Capped => format!("the cap: {} ppm of the pool", run.policy().terms().cap_ppm),
        Rule::BelowMinimum => {
            format!("below the minimum of {}; it stays in the residual", run.policy().terms().min_payout)
        }
        Rule::Carried => {
            format!("below the minimum of {}; it is carried over", run.policy().terms().min_payout)
        }
        Rule::Deducted => "corrections take off everything that is due".to_owned(),
        Rule::Nobody => "the crowd of those without a name of their own has no account".to_owned(),
    }
}

/// The same for programs. Amounts are strings.
pub(super) fn json(verified: &Verified, explained: &[(&str, Option<Explanation<'_>>)]) -> Value {
    let texts = |keys: &[rewards::PublicKey]| -> Vec<_> { keys.iter().map(ToString::to_string).collect() };
    let examined = &verified.examined;
    let manifest = examined.run.manifest();
    json!({
        "verified": verified.missing().next().is_none(),
        "checks": verified.findings.iter().map(finding_json).collect::<Vec<_>>(),
        "epoch": manifest.epoch.number(),
        "policy": { "id": manifest.policy_id.as_str(), "version": manifest.policy_version.get(),
            "signed_by": texts(&examined.judged.keys), "trusted": verified.is_proved(Check::Policy) },
        "inputs": { "snapshots": manifest.snapshots.get(), "rows_checked": verified.is_proved(Check::Rows),
            "sealed_by": examined.sealed_by.iter().map(|(node, key)| json!([node.as_str(), key.to_string()]))
                .collect::<Vec<_>>() },
        "pool": manifest.pool.to_string(),
        "paid": manifest.paid.to_string(),
        "linked": manifest.linked.as_ref().map(linked_json),
        "residual": manifest.residual.to_string(),
        "score_total": manifest.score_total.to_string(),
        "lines": manifest.allocations.lines.get(),
        "run_key": manifest.run_key.to_string(),
        "commitment": examined.run.commitment().to_string(),
        "attested_by": texts(&examined.attested.by),
        "excluded": examined.excluded.iter().map(|excluded| json!({ "node": excluded.snapshot.node.as_str(),
            "reason": excluded.reason, "detail": excluded.detail })).collect::<Vec<_>>(),
        "parked": examined.parked.iter().map(|parked| json!({
            "actor": parked.actor.as_ref().map(|actor| actor.as_str()), "receiver": parked.receiver.as_str(),
            "amount": parked.amount.to_string(), "account": parked.account, "reason": parked.reason,
            "detail": parked.detail })).collect::<Vec<_>>(),
        "orders": examined.orders.iter().map(|order| json!({ "action": action(&order.action),
            "reason": order.reason })).collect::<Vec<_>>(),
        "disputes": examined.disputes.iter().map(|dispute| json!({ "actor": dispute.actor.as_str(),
            "reason": dispute.reason, "key": dispute.key.to_string() })).collect::<Vec<_>>(),
        "actors": explained.iter().map(explanation_json).collect::<Vec<_>>(),
    })
}

fn finding_json(found: &Finding) -> Value {
    json!({ "check": found.check.name(), "proved": found.proved, "required": found.required,
        "detail": found.detail })
}

fn linked_json(linked: &Linked) -> Value {
    let brought = &linked.brought;
    let previous = brought
        .previous
        .map(|run| json!({ "epoch": run.epoch.number(), "commitment": run.commitment.to_string() }));
    json!({
        "previous": previous,
        "carried_in": brought.carried.amount.to_string(), "carried_out": linked.carried_out.amount.to_string(),
        "credited": linked.credited.to_string(), "deducted": linked.deducted.to_string(),
        "corrections": brought.corrections.iter().map(|(_, hash)| hash.to_string()).collect::<Vec<_>>(),
        "payees": brought.payees.map(|(hash, _)| hash.to_string()),
    })
}

fn explanation_json((actor, explanation): &(&str, Option<Explanation<'_>>)) -> Value {
    let Some(Explanation { allocation, points, divided, between, whole, remainder }) = explanation else {
        return json!({ "actor": actor, "payout": null });
    };
    let points: Vec<_> = points
        .iter()
        .map(|part| {
            json!({ "metric": part.metric, "units": part.units.to_string(),
                "weight_ppm": part.weight_ppm, "points": part.points.to_string() })
        })
        .collect();
    json!({
        "actor": allocation.actor, "points": points, "score": allocation.score.to_string(),
        "divided": divided.to_string(), "between": between.to_string(), "whole": whole.to_string(),
        "remainder": remainder.to_string(), "extra": u8::from(allocation.extra),
        "share": allocation.share.to_string(), "payout": allocation.payout.to_string(),
        "rule": allocation.rule.name(),
    })
}

/// One check in a line: whether it is proved, and by what.
fn finding_line(Finding { check, proved, required, detail }: &Finding) -> String {
    let state = match (proved, required) {
        (true, _) => "proved",
        (false, true) => "NOT PROVED",
        (false, false) => "not proved",
    };
    format!("  {state:<11} {:<12} {detail}\n", check.name())
}

/// What a proof proves, and whether the run is the one that was published.
pub(super) fn proof(proof: &Proof, manifest: &Manifest, published: &Finding) -> String {
    let (allocation, line) = (&proof.allocation, proof.index.get() + 1);
    let paid = format!("{} is paid {} ({})", allocation.actor, allocation.payout, allocation.rule.name());
    let (lines, epoch, pool) = (proof.lines.get(), proof.epoch, manifest.pool);
    let said = format!("{paid}: line {line} of {lines} of epoch {epoch}, whose pool is {pool}\n");
    said + &finding_line(published)
}

/// Formats a proof as JSON.
pub(super) fn proof_json(proof: &Proof, published: &Finding) -> Value {
    json!({
        "verified": published.proved || !published.required, "epoch": proof.epoch.number(),
        "actor": proof.allocation.actor.as_str(), "payout": proof.allocation.payout.to_string(),
        "commitment": proof.commitment.to_string(), "checks": [finding_json(published)],
    })
}
