//! What a check found, for people and for programs.

use std::fmt::Write;

use rewards::{Explanation, Manifest, Proof, Residual, Rule, Ruleset, Run};
use serde_json::{Value, json};

use super::verify::Verified;

/// The sums, and how the payouts asked for add up.
pub(super) fn text(verified: &Verified, explained: &[(&str, Option<Explanation<'_>>)]) -> String {
    let (run, manifest) = (&verified.run, verified.run.manifest());
    let Manifest { pool, paid, residual, .. } = manifest;
    let payees = run.allocations().filter(|allocation| allocation.payout.minor() > 0).count();
    let mut out = format!("epoch {}: verified\n", run.epoch());
    let mut line = |name: &str, value: String| {
        let _ = writeln!(out, "  {name:<13} {value}");
    };
    line("policy", policy(verified));
    line("inputs", inputs(verified));
    line("pool", pool.to_string());
    line("paid", format!("{paid} to {payees} of {} actors", run.lines()));
    line("residual", format!("{residual} {}", destination(run)));
    line("sum", format!("{paid} + {residual} = {pool}"));
    line("points", manifest.score_total.to_string());
    line("allocations", format!("{} lines, {}", run.lines(), manifest.allocations.root));
    line("run key", run.key().to_string());
    line("commitment", run.commitment().to_string());
    for key in &verified.attested_by {
        line("attested by", key.to_string());
    }
    for (actor, explanation) in explained {
        out += &explanation.as_ref().map_or_else(
            || format!("{actor} has no line: no units that count\n"),
            |explanation| explanation_text(explanation, run),
        );
    }
    out
}

fn policy(verified: &Verified) -> String {
    let terms = verified.run.policy().terms();
    let keys: Vec<_> = verified.signed_by.iter().map(ToString::to_string).collect();
    let trust = if verified.trusted { "trusted" } else { "no key was named as trusted" };
    let (id, version, rules) = (&terms.id, terms.version.get(), terms.ruleset.number());
    format!("{id} version {version}, ruleset {rules}, signed by {} ({trust})", keys.join(" and "))
}

fn inputs(verified: &Verified) -> String {
    let snapshots = verified.run.inputs().snapshots();
    let rows: u64 = snapshots.iter().map(|snapshot| snapshot.rows.get()).sum();
    let checked = if verified.rows_checked {
        "every row added up"
    } else {
        "rows are not in the bundle: units are taken from the allocations"
    };
    let sealed = verified.sealed_by.len();
    format!("{} snapshots, {rows} rows, {checked}; {sealed} seals are good", snapshots.len())
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
        Rule::Nobody => "the crowd of those without a name of their own has no account".to_owned(),
    }
}

/// The same for programs. Amounts are strings.
pub(super) fn json(verified: &Verified, explained: &[(&str, Option<Explanation<'_>>)]) -> Value {
    let texts = |keys: &[rewards::PublicKey]| -> Vec<_> { keys.iter().map(ToString::to_string).collect() };
    let manifest = verified.run.manifest();
    json!({
        "verified": true,
        "epoch": manifest.epoch.number(),
        "policy": { "id": manifest.policy_id.as_str(), "version": manifest.policy_version.get(),
            "signed_by": texts(&verified.signed_by), "trusted": verified.trusted },
        "inputs": { "snapshots": manifest.snapshots.get(), "rows_checked": verified.rows_checked,
            "sealed_by": verified.sealed_by.iter().map(|(node, key)| json!([node.as_str(), key.to_string()]))
                .collect::<Vec<_>>() },
        "pool": manifest.pool.to_string(),
        "paid": manifest.paid.to_string(),
        "residual": manifest.residual.to_string(),
        "score_total": manifest.score_total.to_string(),
        "lines": manifest.allocations.lines.get(),
        "run_key": manifest.run_key.to_string(),
        "commitment": verified.run.commitment().to_string(),
        "attested_by": texts(&verified.attested_by),
        "actors": explained.iter().map(explanation_json).collect::<Vec<_>>(),
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

/// What a proof proves.
pub(super) fn proof(proof: &Proof, manifest: &Manifest) -> String {
    let (allocation, line) = (&proof.allocation, proof.index.get() + 1);
    let paid = format!("{} is paid {} ({})", allocation.actor, allocation.payout, allocation.rule.name());
    let (lines, epoch, pool) = (proof.lines.get(), proof.epoch, manifest.pool);
    format!(
        "{paid}: line {line} of {lines} of epoch {epoch}, whose pool is {pool}\n  run {}\n",
        proof.commitment
    )
}

/// The same for programs.
pub(super) fn proof_json(proof: &Proof) -> Value {
    json!({
        "verified": true, "epoch": proof.epoch.number(), "actor": proof.allocation.actor.as_str(),
        "payout": proof.allocation.payout.to_string(), "commitment": proof.commitment.to_string(),
    })
}
