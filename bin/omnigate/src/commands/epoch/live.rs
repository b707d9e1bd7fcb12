//! `omnigate epoch seal`, `compute`, `show` and `list`: the epochs of this node, by way of its rewarder.
#![expect(
    clippy::disallowed_methods,
    reason = "commands that ask, read a file or a clock, and end; no runtime is running"
)]

use std::{
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};

use clap::Args;
use rewards::bundle::ALLOCATIONS;
use ron_kernel::config::Secret;
use ron_ledger::Place;
use ron_transport::files;
use serde_json::Value;
use svc_rewarder::{RewarderConfig, StorePlace, seal_epoch};

use crate::{
    cli::ConfigArgs,
    commands::{overlay::admin_client::AdminClient, pretty, print},
    config_file::ConfigSource,
    failure::Failure,
    settings::{LedgerConfig, NodeConfig},
};

/// Payouts that are shown; the file has all.
const SHOWN_PAYOUTS: usize = 20;
/// What is said where there are none.
const NONE_YET: &str = "no epoch is over yet\n";
/// More than any snapshot has.
const MAX_ROWS: u64 = 1 << 30;
/// A capability has one line.
const MAX_TOKEN: u64 = 4096;

#[derive(Args, Debug)]
pub(crate) struct SealArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// The number of the epoch.
    #[arg(value_parser = clap::value_parser!(u64).range(..1 << 53))]
    epoch: u64,
    /// Seal the rows in this file (lines as in a bundle, or a Parquet file) instead of the usage that this node has
    /// counted.
    #[arg(long, value_name = "FILE")]
    rows: Option<PathBuf>,
}

/// Options of commands that query the rewarder.
#[derive(Args, Debug)]
pub(super) struct Asking {
    #[command(flatten)]
    config: ConfigArgs,
    /// The file with a capability token for `rewarder.run` or `rewarder.inspect`; needed if `auth.root_keys` are
    /// set.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct OneArgs {
    #[command(flatten)]
    asking: Asking,
    /// The epoch, a number; or `latest`.
    #[arg(value_parser = Which::parse)]
    epoch: Which,
}

/// The epoch that a command is about.
#[derive(Clone, Copy, Debug)]
enum Which {
    Number(u64),
    Latest,
}

#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    asking: Asking,
    /// The number of epochs to list.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=100))]
    limit: u64,
}

/// Seals an epoch of this node.
pub(super) fn seal(args: SealArgs) -> Result<(), Failure> {
    let config = args.config.resolve()?.load()?;
    let (rewarder, node) = (config.get::<RewarderConfig>(), config.get::<NodeConfig>());
    if node.amnesia {
        return Err(Failure::failed("a node with node.amnesia stores no usage that this command could seal"));
    }
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    if !rewarder.windows().is_over(args.epoch, unix) {
        let present = rewarder.windows().epoch_at(unix);
        return Err(Failure::failed(format!(
            "epoch {} is not over: the present one is {present}",
            args.epoch
        )));
    }
    let store = match config.get::<LedgerConfig>().place(&node.data_dir, false) {
        Place::Server(url) => StorePlace::Postgres(url),
        Place::File(_) | Place::Memory => StorePlace::Local,
    };
    let rows = args
        .rows
        .map(|path| files::read_public_or_pipe(&path, MAX_ROWS))
        .transpose()
        .map_err(Failure::failed)?;
    let sealed = seal_epoch(&rewarder, &node.data_dir, store, (args.epoch, rows.as_deref()), unix);
    let sealed = sealed.map_err(Failure::failed)?;
    let snapshot = &sealed.seal.snapshot;
    print(&format!(
        "epoch {} of {}: {} rows, {}\n",
        snapshot.epoch,
        snapshot.node,
        snapshot.rows.get(),
        snapshot.rows_root
    ))
}

/// Has an epoch computed.
pub(super) fn compute(args: OneArgs) -> Result<(), Failure> {
    let (client, json) = args.asking.client()?;
    let epoch = args.epoch.number(&client)?;
    let answer = client.post(&format!("/rewarder/epochs/{epoch}/compute"), b"")?;
    print(&if json { pretty(&answer) } else { line(&answer) })
}

/// Shows an epoch, and the first of its payouts.
pub(super) fn show(args: OneArgs) -> Result<(), Failure> {
    let (client, json) = args.asking.client()?;
    let path = format!("/rewarder/epochs/{}", args.epoch.number(&client)?);
    let answer = client.get(&path)?;
    if json {
        return print(&pretty(&answer));
    }
    let has_payouts = answer["files"].as_array().is_some_and(|names| names.iter().any(|n| n == ALLOCATIONS));
    let lines = if has_payouts {
        client.lines(&format!("{path}/files/{ALLOCATIONS}"), SHOWN_PAYOUTS)?
    } else {
        Vec::new()
    };
    print(&(details(&answer) + &payouts(&answer, &lines)))
}

/// Lists the latest epochs.
pub(super) fn list(args: ListArgs) -> Result<(), Failure> {
    let (client, json) = args.asking.client()?;
    let answer = client.get(&format!("/rewarder/epochs?limit={}", args.limit))?;
    let epochs = answer["epochs"].as_array().cloned().unwrap_or_default();
    if epochs.is_empty() && !json {
        return print(NONE_YET);
    }
    print(&if json { pretty(&answer) } else { epochs.iter().map(line).collect() })
}

impl Which {
    fn parse(text: &str) -> Result<Self, String> {
        match text.parse() {
            _ if text == "latest" => Ok(Self::Latest),
            Ok(number) if number < 1 << 53 => Ok(Self::Number(number)),
            _ => Err("an epoch is a number, as `omnigate epoch list` shows it, or `latest`".to_owned()),
        }
    }

    fn number(self, client: &AdminClient) -> Result<u64, Failure> {
        if let Self::Number(number) = self {
            return Ok(number);
        }
        // Those that are open come first, and there are few of them.
        let answer = client.get("/rewarder/epochs?limit=100")?;
        let mut epochs = answer["epochs"].as_array().into_iter().flatten();
        let closed = epochs.find(|epoch| epoch["state"] != "open");
        closed.and_then(|epoch| epoch["epoch"].as_u64()).ok_or_else(|| Failure::failed(NONE_YET.trim_end()))
    }
}

impl Asking {
    pub(super) fn client(self) -> Result<(AdminClient, bool), Failure> {
        let source: ConfigSource = self.config.resolve()?;
        let rewarder = source.load()?.get::<RewarderConfig>();
        let token = self.token_file.map(|path| files::read_private_or_pipe(&path, MAX_TOKEN));
        let token = token.transpose().map_err(Failure::failed)?;
        let token = token.map(|bytes| Secret::new(String::from_utf8_lossy(&bytes).trim()));
        Ok((AdminClient::at(rewarder.listen.clone(), token), self.json))
    }
}

/// An epoch on one line.
fn line(epoch: &Value) -> String {
    let reason = epoch["reason"].as_str().map(|reason| format!("  {reason}")).unwrap_or_default();
    let commitment = epoch["commitment"].as_str().unwrap_or("-");
    let (posted, batches) = (&epoch["batches_posted"], &epoch["batches"]);
    let state = epoch["state"].as_str().unwrap_or_default();
    format!("{}  {state:<11}  {posted}/{batches} batches  {commitment}{reason}\n", epoch["epoch"])
}

/// An epoch with its sums.
fn details(epoch: &Value) -> String {
    let mut out = line(epoch);
    let manifest = &epoch["manifest"];
    for name in ["pool", "paid", "residual"] {
        if let Some(amount) = manifest[name].as_str() {
            out.push_str(&format!("  {name:<10} {amount}\n"));
        }
    }
    for snapshot in epoch["snapshots"].as_array().into_iter().flatten() {
        let counts = match snapshot["counts"].as_bool() {
            Some(true) => "counts",
            Some(false) => "came late",
            None => "is listed",
        };
        out.push_str(&format!("  snapshot   {} {counts}\n", snapshot["node"].as_str().unwrap_or_default()));
    }
    out
}

/// Who is paid what, in the order of names, as far as shown.
fn payouts(epoch: &Value, lines: &[String]) -> String {
    let mut out = String::new();
    for line in lines {
        let line: Value = serde_json::from_str(line).unwrap_or_default();
        let text = |name: &str| line[name].as_str().unwrap_or("-").to_owned();
        let (actor, payout, rule) = (text("actor"), text("payout"), text("rule"));
        out.push_str(&format!("  payout     {payout} to {actor} ({rule})\n"));
    }
    let all = epoch["manifest"]["allocations"]["lines"].as_u64().unwrap_or_default();
    match all.saturating_sub(lines.len() as u64) {
        more if more == 0 || lines.is_empty() => {}
        more => out.push_str(&format!("  …          and {more} more in {ALLOCATIONS}\n")),
    }
    out
}
