//! `omnigate epoch`: check what an epoch paid, prove a payout, and compute an epoch anew.

mod bundle;
mod files;
mod live;
mod prove;
mod reconcile;
mod rerun;
mod show;
mod usage;
mod verify;

use std::{num::NonZeroUsize, path::PathBuf};

use clap::{Args, Subcommand};
use rewards::PublicKey;
use ron_kernel::ExitCode;

use crate::failure::Failure;

#[derive(Debug, Subcommand)]
pub(crate) enum EpochCommand {
    /// Check an epoch by its files alone: compute it anew, compare every byte, and show the sums.
    ///
    /// No server is asked. Exit codes: 0 everything is as it should be; 1 something is not, and it is said what.
    Verify(VerifyArgs),
    /// Write the proof that an actor's payout is part of an epoch, at most 2 KiB for a million actors.
    ///
    /// Exit codes: 0 written; 1 there is no such line, or the files do not belong together.
    Prove(ProveArgs),
    /// Seal this node's usage of an epoch that is over, or rows that were counted elsewhere. Once sealed, it stays so.
    ///
    /// The node may run or not: it does this by itself when an epoch ends.
    Seal(live::SealArgs),
    /// Have the running rewarder compute an epoch and pay it.
    Compute(live::OneArgs),
    /// Show what this node has written down: what was used and provided, by epoch, and what would be left if it died now.
    ///
    /// The node may run or not. One line for each epoch, actor and metric: the epoch, `open` while more may come or
    /// `sealed` once the node has signed for it, the actor, the metric, the units.
    Usage(usage::UsageArgs),
    /// Show what the running rewarder knows of an epoch, and who is paid what.
    Show(live::OneArgs),
    /// Compare paid epochs with the ledger, and have the running rewarder post again what the ledger lacks.
    ///
    /// A ledger that was restored from an older backup lacks batches of epochs that are settled. They are posted under the
    /// keys of the first time, so nothing is paid twice. Exit codes: 0 nothing was missing, or it is posted again; 1 with
    /// `--dry-run` something is missing.
    Reconcile(reconcile::ReconcileArgs),
    /// List the latest epochs of the running rewarder.
    List(live::ListArgs),
    /// Compute an epoch anew from its policy and snapshots, and write what comes out.
    ///
    /// The same inputs give the same bytes on any machine. Exit codes: 0 written; 1 the epoch cannot be paid, and
    /// `quarantine.json` says why.
    Rerun(RerunArgs),
}

#[derive(Args, Debug)]
pub(crate) struct VerifyArgs {
    /// The folder with the epoch's files, or with several such folders, of which the latest is checked; or a proof, to be
    /// checked against `--run`.
    bundle: PathBuf,
    /// A key whose signature on the policy counts: `ed25519:` and 64 digits. May be repeated.
    ///
    /// Without any, the signatures are checked and it is for you to say whether you know the keys.
    #[arg(long, value_name = "KEY")]
    policy_key: Vec<PublicKey>,
    /// Show how this actor's payout adds up. May be repeated.
    #[arg(long, value_name = "ACTOR")]
    actor: Vec<String>,
    /// The `run.json` that a proof is checked against.
    #[arg(long, value_name = "FILE")]
    run: Option<PathBuf>,
    #[command(flatten)]
    threads: Threads,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ProveArgs {
    /// The folder with the epoch's files; `run.json` and `allocations.jsonl` are enough.
    bundle: PathBuf,
    /// Whose payout.
    actor: String,
    /// Write to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct RerunArgs {
    /// The folder with the policy, the list of snapshots and their rows.
    bundle: PathBuf,
    /// Write `run.json`, `allocations.jsonl` and `commitment` into this folder.
    #[arg(long, value_name = "FOLDER")]
    into: PathBuf,
    #[command(flatten)]
    threads: Threads,
}

#[derive(Args, Debug)]
struct Threads {
    /// How many snapshots are added up at the same time; as many as there are processors unless said otherwise.
    #[arg(long, value_name = "NUMBER")]
    threads: Option<NonZeroUsize>,
}

impl Threads {
    fn number(&self) -> usize {
        let usual = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        self.threads.map_or_else(usual, NonZeroUsize::get).min(64)
    }
}

/// Does what was asked for.
pub(super) fn run(command: EpochCommand) -> Result<ExitCode, Failure> {
    match command {
        EpochCommand::Verify(args) => verify::run(&args),
        EpochCommand::Prove(args) => prove::run(&args).map(|()| ExitCode::Clean),
        EpochCommand::Seal(args) => live::seal(args).map(|()| ExitCode::Clean),
        EpochCommand::Compute(args) => live::compute(args).map(|()| ExitCode::Clean),
        EpochCommand::Usage(args) => usage::run(args).map(|()| ExitCode::Clean),
        EpochCommand::Show(args) => live::show(args).map(|()| ExitCode::Clean),
        EpochCommand::Reconcile(args) => reconcile::run(args),
        EpochCommand::List(args) => live::list(args).map(|()| ExitCode::Clean),
        EpochCommand::Rerun(args) => rerun::run(&args).map(|()| ExitCode::Clean),
    }
}
