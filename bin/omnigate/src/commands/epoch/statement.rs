//! `omnigate epoch statement`: what one payee earned and is due, epoch by epoch, from the files of epochs. To print, to read
//! with a spreadsheet, or for programs. Whether it was paid is in the ledger, which is not asked.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use clap::{Args, ValueEnum};
use rewards::{AllocationLine, Digest, Due, Epoch, LineError, LineSearch, Manifest, SignedPayees, bundle};
use serde_json::{Value, json};
use types::ActorId;

use super::{documents::epoch_number, files::Folder};
use crate::{
    commands::{pretty, print},
    failure::Failure,
};

#[derive(Args, Debug)]
pub(crate) struct StatementArgs {
    /// The folder with the folders of epochs, such as `data/rewards`.
    epochs: std::path::PathBuf,
    /// The actor whose payouts are listed.
    #[arg(value_parser = ActorId::new)]
    actor: ActorId,
    /// The output format.
    #[arg(long, default_value = "text")]
    format: Form,
    /// The first epoch.
    #[arg(long, value_name = "NUMBER", value_parser = epoch_number)]
    from: Option<Epoch>,
    /// The last epoch.
    #[arg(long, value_name = "NUMBER", value_parser = epoch_number)]
    to: Option<Epoch>,
}

/// The forms of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// For a terminal.
    Text,
    /// A page to print.
    Html,
    /// For a spreadsheet.
    Csv,
    /// One JSON document, for programs.
    Json,
}

/// One epoch of a statement.
struct Item {
    line: AllocationLine,
    manifest: Manifest,
    /// The account that the payout goes to.
    payee: String,
    is_quarantined: bool,
}

/// The statement of one actor.
struct Statement<'a> {
    actor: &'a str,
    items: Vec<Item>,
    /// What waits for the next run, after the last of these: the sum over all policies.
    carried: u128,
}

/// Epochs that one statement has at most.
const MAX_EPOCHS: usize = 10_000;

/// The columns, in their order.
const COLUMNS: [&str; 10] =
    ["epoch", "score", "share", "carried_in", "credit", "debit", "carried_out", "payout", "rule", "paid_to"];

/// Prints the statement.
pub(super) fn run(args: &StatementArgs) -> Result<(), Failure> {
    let (mut items, mut runs) = (Vec::new(), Vec::new());
    for (epoch, folder) in Folder::epochs(&args.epochs)? {
        if !folder.has(bundle::RUN) {
            continue;
        }
        let manifest = manifest(&folder, epoch)?;
        let is_wanted = args.from.is_none_or(|from| epoch >= from.number())
            && args.to.is_none_or(|to| epoch <= to.number());
        if is_wanted {
            items.extend(item(&folder, &args.actor, &manifest)?);
        }
        runs.push((manifest, is_wanted));
        if items.len() > MAX_EPOCHS {
            return Err(Failure::failed(format!("there are more than {MAX_EPOCHS} epochs"))
                .help("say which with --from and --to"));
        }
    }
    let carried = carried(&runs, &items);
    let statement = Statement { actor: args.actor.as_str(), items, carried };
    print(&match args.format {
        Form::Text => statement.text(),
        Form::Html => statement.html(),
        Form::Csv => statement.csv(),
        Form::Json => pretty(&statement.json()),
    })
}

/// The manifest in the folder of this epoch.
fn manifest(folder: &Folder, epoch: u64) -> Result<Manifest, Failure> {
    let wrong = |what: &dyn std::fmt::Display| {
        Failure::failed(format!("{}: {what}", folder.path().join(bundle::RUN).display()))
    };
    let manifest = Manifest::read(&folder.read(bundle::RUN)?).map_err(|error| wrong(&error))?;
    if manifest.epoch.number() != epoch {
        return Err(wrong(&format_args!("it is the run of epoch {}", manifest.epoch)));
    }
    Ok(manifest)
}

/// The actor's line of an epoch, proved to be one of the run's; `None` if it has none.
fn item(folder: &Folder, actor: &ActorId, manifest: &Manifest) -> Result<Option<Item>, Failure> {
    let wrong =
        |what: &dyn std::fmt::Display| Failure::failed(format!("{}: {what}", folder.path().display()));
    let mut search = LineSearch::new(actor.as_str());
    folder.lines(bundle::ALLOCATIONS, |line| search.line(line))?;
    let line = match search.finish(manifest) {
        Ok(proof) => proof.allocation,
        Err(LineError::Absent) => return Ok(None),
        Err(error) => return Err(wrong(&error)),
    };
    let mut payee = actor.to_string();
    let named = manifest.linked.as_ref().and_then(|linked| linked.brought.payees);
    if named.is_some() || folder.has(bundle::PAYEES) {
        let signed = SignedPayees::read(&folder.read(bundle::PAYEES)?).map_err(|error| wrong(&error))?;
        let payees = signed.payees();
        if named != Some((payees.hash(), payees.version)) {
            return Err(wrong(&format_args!("{} is not the registry that the run names", bundle::PAYEES)));
        }
        payee = payees.payee_of(actor.as_str(), manifest.epoch).to_owned();
    }
    let is_quarantined = folder.has(bundle::QUARANTINE);
    Ok(Some(Item { line, manifest: manifest.clone(), payee, is_quarantined }))
}

/// What waits for the next run, after the last run of each policy that is wanted. The last is the one that no other follows,
/// whatever their numbers; of several that are not connected, because runs between them are not there, that of the
/// greatest number.
fn carried(runs: &[(Manifest, bool)], items: &[Item]) -> u128 {
    let previous = |run: &Manifest| run.linked.as_ref().and_then(|linked| linked.brought.previous);
    let before: BTreeMap<Digest, Digest> =
        runs.iter().filter_map(|(run, _)| Some((run.commitment(), previous(run)?.commitment))).collect();
    let mut followed = BTreeSet::new();
    for (run, _) in runs.iter().filter(|(_, is_wanted)| *is_wanted) {
        let mut next = before.get(&run.commitment());
        while let Some(earlier) = next.filter(|earlier| followed.insert(**earlier)) {
            next = before.get(earlier);
        }
    }
    let mut last = BTreeMap::new();
    for (run, _) in runs.iter().filter(|(run, is_wanted)| *is_wanted && run.linked.is_some()) {
        if !followed.contains(&run.commitment()) {
            last.insert(run.policy_id.as_str(), run.epoch);
        }
    }
    let is_last = |item: &&Item| last.get(item.manifest.policy_id.as_str()) == Some(&item.manifest.epoch);
    let due = items.iter().filter(is_last).filter_map(|item| item.line.due);
    due.map(|due| due.carried_out.minor()).sum()
}

impl Item {
    fn columns(&self) -> [String; COLUMNS.len()] {
        let AllocationLine { score, share, payout, rule, due, .. } = &self.line;
        let Due { carried_in, carried_out, credit, debit } = due.unwrap_or_default();
        let rule = if self.is_quarantined { "quarantined" } else { rule.name() };
        [
            self.manifest.epoch.to_string(),
            score.to_string(),
            share.to_string(),
            carried_in.to_string(),
            credit.to_string(),
            debit.to_string(),
            carried_out.to_string(),
            payout.to_string(),
            rule.to_owned(),
            self.payee.clone(),
        ]
    }
}

impl Statement<'_> {
    /// Returns the sum of all payouts but those of epochs that are set aside.
    fn total(&self) -> u128 {
        let due = self.items.iter().filter(|item| !item.is_quarantined);
        due.map(|item| item.line.payout.minor()).sum()
    }

    fn summary(&self) -> String {
        let epochs = self.items.len();
        format!("{epochs} epochs, {} due in all, {} carried over to the next", self.total(), self.carried)
    }

    fn text(&self) -> String {
        let rows: Vec<_> = self.items.iter().map(Item::columns).collect();
        let header = COLUMNS.map(str::to_owned);
        let width = |at: usize| {
            let lengths = rows.iter().chain([&header]).map(|row: &[String; COLUMNS.len()]| row[at].len());
            lengths.max().unwrap_or_default()
        };
        let mut out = format!("statement of {}\n", self.actor);
        for row in [&header].into_iter().chain(&rows) {
            let cells = row.iter().enumerate().map(|(at, cell)| format!("{cell:>0$}", width(at)));
            let _ = writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
        }
        out + &self.summary() + "\n"
    }

    fn csv(&self) -> String {
        let mut out = format!("{},commitment\r\n", COLUMNS.join(","));
        for item in &self.items {
            let cells = item.columns().map(|cell| csv_cell(&cell));
            let _ = write!(out, "{},{}\r\n", cells.join(","), item.manifest.commitment());
        }
        out
    }

    fn json(&self) -> Value {
        let item = |item: &Item| {
            let pairs = COLUMNS.into_iter().zip(item.columns());
            let mut value: Value = pairs.map(|(name, cell)| (name.to_owned(), Value::String(cell))).collect();
            value["epoch"] = item.manifest.epoch.number().into();
            value["commitment"] = item.manifest.commitment().to_string().into();
            let units = item.line.units.iter();
            value["units"] =
                units.map(|(metric, units)| (metric.to_string(), Value::String(units.to_string()))).collect();
            value
        };
        json!({
            "actor": self.actor, "due": self.total().to_string(), "carried": self.carried.to_string(),
            "epochs": self.items.iter().map(item).collect::<Vec<_>>(),
        })
    }

    fn html(&self) -> String {
        let actor = escaped(self.actor);
        let head: String =
            COLUMNS.iter().map(|name| format!("<th>{}</th>", name.replace('_', " "))).collect();
        let mut rows = String::new();
        for item in &self.items {
            let cells: String =
                item.columns().iter().map(|cell| format!("<td>{}</td>", escaped(cell))).collect();
            let commitment = item.manifest.commitment();
            let _ = writeln!(
                rows,
                "<tr>{cells}</tr>\n<tr class=\"run\"><td colspan=\"10\">run {commitment}</td></tr>"
            );
        }
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Statement of {actor}</title>\n\
             <style>{STYLE}</style>\n<h1>Statement</h1>\n<p>of <b>{actor}</b></p>\n<table>\n<thead><tr>{head}</tr></thead>\n\
             <tbody>\n{rows}</tbody>\n</table>\n<p>{}. Amounts are in minor units. Each run can be checked with \
             <code>omnigate epoch verify</code>; its <code>--ledger</code> shows whether it was paid.</p>\n</html>\n",
            self.summary()
        )
    }
}

/// The look of the page; nothing is loaded from elsewhere.
const STYLE: &str = "body{font:14px sans-serif;margin:2em}table{border-collapse:collapse}th,td{padding:.2em .6em;\
    text-align:right;overflow-wrap:anywhere}th{border-bottom:1px solid}.run td{font-size:10px;color:#555;text-align:left;\
    border-bottom:1px solid #ddd}tr{break-inside:avoid}@page{size:landscape}";

/// A cell of a spreadsheet. What a program would take for a formula begins with an apostrophe.
fn csv_cell(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@']);
    let text = if formula { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
