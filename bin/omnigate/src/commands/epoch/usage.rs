//! `omnigate epoch usage`: what this node has written down, which is what would be left if it died now.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use ron_accounting::{Accounts, BootId, Journal, Quarantined, Used};
use serde_json::{Value, json};
use svc_rewarder::RewarderConfig;

use crate::{
    cli::ConfigArgs,
    commands::{pretty, print},
    failure::Failure,
    settings::NodeConfig,
};

/// Rows of quarantined usage that are shown.
const MAX_QUARANTINED: u32 = 100_000;

#[derive(Args, Debug)]
pub(crate) struct UsageArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Show only this epoch.
    #[arg(value_parser = clap::value_parser!(u64).range(..1 << 53))]
    epoch: Option<u64>,
    /// Number of latest epochs to show.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000), conflicts_with = "epoch")]
    limit: u32,
    /// Show quarantined usage: it arrived after its epoch was sealed (`late`), or the clock was wrong (`clock`).
    #[arg(long, conflicts_with = "epoch")]
    quarantined: bool,
    /// Assign the quarantined usage to this epoch: the current one, or the next.
    #[arg(long, value_name = "EPOCH", requires = "quarantined", value_parser = clap::value_parser!(u64).range(..1 << 53))]
    book_in: Option<u64>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// What was used in an epoch, as far as it is on the disk.
struct Written {
    epoch: u64,
    /// `open` while more may come, `sealed` once the node has signed for it.
    state: &'static str,
    used: Vec<Used>,
}

/// Shows what is written down, the oldest epoch first.
pub(super) fn run(args: UsageArgs) -> Result<(), Failure> {
    let config = args.config.resolve()?.load()?;
    let (rewarder, node) = (config.get::<RewarderConfig>(), config.get::<NodeConfig>());
    if node.amnesia {
        return Err(Failure::failed("a node with node.amnesia records no usage on disk"));
    }
    let path = node.data_dir.join(Accounts::JOURNAL);
    if !path.is_file() {
        let help = "it does so about a second after something was used, with `rewarder.enabled = true`";
        return Err(
            Failure::failed(format!("the node has recorded no usage in {}", path.display())).help(help)
        );
    }
    let mut journal = Journal::open(&path, rewarder.windows().duration()).map_err(Failure::failed)?;
    if let Some(epoch) = args.book_in {
        return book_quarantined(&mut journal, epoch, rewarder.windows().epoch_at(unix()));
    }
    if args.quarantined {
        let rows = journal.quarantined(MAX_QUARANTINED).map_err(Failure::failed)?;
        return print(&if args.json {
            pretty(&quarantined_document(&rows))
        } else {
            quarantined_table(&rows)
        });
    }
    let mut epochs = match args.epoch {
        Some(epoch) => vec![epoch],
        None => journal.latest(args.limit).map_err(Failure::failed)?,
    };
    epochs.reverse();
    let written = epochs.into_iter().map(|epoch| read(&journal, epoch));
    let written = written.collect::<Result<Vec<_>, _>>()?;
    print(&if args.json { pretty(&document(&written)) } else { table(&written) })
}

/// Time since the Unix epoch.
#[expect(clippy::disallowed_methods, reason = "a command that looks at the clock once and ends")]
fn unix() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn book_quarantined(journal: &mut Journal, epoch: u64, present: u64) -> Result<(), Failure> {
    // What is booked in an epoch that is over counts no more, and in one far ahead for a long time.
    if epoch != present && epoch != present + 1 {
        return Err(Failure::failed(format!("epoch {epoch} is neither the present one nor the next"))
            .help(format!("book it in epoch {present}, or in {}", present + 1)));
    }
    let boot = BootId::new(std::array::from_fn(|_| fastrand::u8(..)));
    match journal.book_quarantined(epoch, boot).map_err(Failure::failed)? {
        Some(rows) => print(&format!("{rows} rows are booked in epoch {epoch}\n")),
        None => Err(Failure::failed(format!("epoch {epoch} is sealed")).help("name the next epoch")),
    }
}

/// A line for each epoch, actor and metric.
fn quarantined_table(rows: &[Quarantined]) -> String {
    let line = |Quarantined { epoch, used: Used { actor, metric, units }, reason }: &Quarantined| {
        format!("{epoch}  {reason:<6}  {}  {metric}  {units}\n", actor.as_str())
    };
    rows.iter().map(line).collect()
}

/// Formats quarantined usage as JSON.
fn quarantined_document(rows: &[Quarantined]) -> Value {
    let one = |Quarantined { epoch, used: Used { actor, metric, units }, reason }: &Quarantined| json!({ "epoch": epoch, "reason": reason, "actor": actor.as_str(), "metric": metric, "units": units.to_string() });
    rows.iter().map(one).collect()
}

fn read(journal: &Journal, epoch: u64) -> Result<Written, Failure> {
    let is_sealed = journal.sealed(epoch).map_err(Failure::failed)?.is_some();
    let used = journal.used(epoch).map_err(Failure::failed)?;
    Ok(Written { epoch, state: if is_sealed { "sealed" } else { "open" }, used })
}

/// A line for each actor and metric.
fn table(written: &[Written]) -> String {
    let rows = || written.iter().flat_map(|of| of.used.iter().map(move |used| (of, used)));
    let width = |text: fn(&Used) -> &str| rows().map(|(_, used)| text(used).len()).max().unwrap_or(0);
    let (actors, metrics) = (width(|used| used.actor.as_str()), width(|used| &used.metric));
    let line = |(Written { epoch, state, .. }, Used { actor, metric, units }): (&Written, &Used)| {
        format!("{epoch}  {state:<6}  {:<actors$}  {metric:<metrics$}  {units}\n", actor.as_str())
    };
    rows().map(line).collect()
}

/// The same for programs. Units are strings, as in the files of an epoch.
fn document(written: &[Written]) -> Value {
    let row = |used: &Used| json!({ "actor": used.actor.as_str(), "metric": used.metric, "units": used.units.to_string() });
    let epoch = |of: &Written| {
        let used: Vec<Value> = of.used.iter().map(row).collect();
        json!({ "epoch": of.epoch, "state": of.state, "used": used })
    };
    written.iter().map(epoch).collect()
}
