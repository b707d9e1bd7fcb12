//! `omnigate epoch`: check what an epoch paid, prove a payout, and compute an epoch anew.

mod attested;
mod bundle;
mod claims;
mod files;
mod live;
mod prove;
mod reconcile;
mod rerun;
mod settled;
mod show;
mod trust;
mod usage;
mod verify;

use std::{num::NonZeroUsize, path::PathBuf};

use clap::{Args, Subcommand};
use rewards::{Digest, PublicKey, claims::EvmAddress};
use ron_kernel::{ExitCode, config::Secret};
use ron_ledger::AccountId;

use crate::failure::Failure;

#[derive(Debug, Subcommand)]
pub(crate) enum EpochCommand {
    /// Check an epoch by its files alone: compute it anew, compare every byte, and say what is proved and what is not.
    ///
    /// No server is asked. A bundle cannot vouch for itself: say whose policy counts (`--policy-key`) and which nodes
    /// (`--nodes`), or have both taken from `--config`. Exit codes: 0 everything that is required is proved; 1 something is
    /// wrong or not proved, and it is said what.
    Verify(VerifyArgs),
    /// Write the proof that an actor's payout is part of an epoch, at most 2 KiB for a million actors.
    ///
    /// Exit codes: 0 written; 1 there is no such line, or the files do not belong together.
    Prove(ProveArgs),
    /// Write an epoch's payouts as a Merkle tree from which a contract on an Ethereum-like chain pays each payee once.
    ///
    /// The tree is one of OpenZeppelin's `StandardMerkleTree` over (address, amount in minor units), its document what
    /// `StandardMerkleTree.load` of npm's `@openzeppelin/merkle-tree` reads, its root what the contract is told. Actors of one
    /// address are added up. The bundle is not verified beyond its lines being those of `run.json`: see `epoch verify`. Exit
    /// codes: 0 written; 1 somebody has no address, or the files do not belong together.
    Claims(ClaimsArgs),
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
    #[command(flatten)]
    trust: TrustArgs,
    /// What has to be proved, separated by commas: `policy`, `seals`, `rows`, `commitment`, `settled`; or `none`.
    ///
    /// `policy`: a key of `--policy-key` signed it. `seals`: each snapshot is sealed by the node that it names, which is one
    /// of `--nodes`. `rows`: every row is there and was added up. `commitment`: it is the one of `--commitment`, or one of
    /// `--nodes` attests to it. `settled`: every payout is in `--ledger`. Unless said otherwise, all but the last, and that one
    /// too where a ledger is named. Whatever is there is checked in any case.
    #[arg(long, value_name = "LIST")]
    require: Option<trust::Required>,
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

/// What the caller believes before it looks at a bundle.
#[derive(Args, Debug)]
struct TrustArgs {
    /// A key whose signature on the policy counts: `ed25519:` and 64 digits. May be repeated.
    #[arg(long, value_name = "KEY")]
    policy_key: Vec<PublicKey>,
    /// A file with the ids of the nodes whose word counts, one a line, as `omnigate node id` prints them: those that count
    /// usage, and those that compute epochs. What follows `#` is for people.
    #[arg(long, value_name = "FILE")]
    nodes: Option<PathBuf>,
    /// The commitment, as it was published elsewhere: `b3k:` and 64 digits.
    #[arg(long, value_name = "HASH")]
    commitment: Option<Digest>,
    /// The ledger that has to have every payout, such as `sqlite:./data/ledger.db`. All of it is checked.
    ///
    /// Other users of the machine can see the address; give no password in it.
    #[arg(long, value_name = "URL", value_parser = secret)]
    ledger: Option<Secret>,
    /// The account of that ledger that payouts are taken from.
    #[arg(long, value_name = "ACCOUNT", default_value = "pool/rewards")]
    pool_account: AccountId,
    /// Believe what this configuration file believes: `rewarder.policy_keys`, `rewarder.accounting_nodes`, and the node
    /// itself.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

fn secret(text: &str) -> Result<Secret, String> {
    Ok(Secret::new(text))
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
pub(crate) struct ClaimsArgs {
    /// The folder with the epoch's files; `run.json` and `allocations.jsonl` are enough.
    bundle: PathBuf,
    /// A file with the addresses of actors, one `actor,address` a line. An actor whose name is an address needs no line.
    #[arg(long, value_name = "FILE")]
    addresses: Option<PathBuf>,
    /// Leave out those who have no address instead of refusing; it is said how much that is.
    #[arg(long)]
    allow_unbound: bool,
    /// Print only what this address can claim, with its proof.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "output")]
    proof: Option<EvmAddress>,
    /// Write to this file instead of standard output, and print the root.
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
        EpochCommand::Claims(args) => claims::run(&args).map(|()| ExitCode::Clean),
        EpochCommand::Seal(args) => live::seal(args).map(|()| ExitCode::Clean),
        EpochCommand::Compute(args) => live::compute(args).map(|()| ExitCode::Clean),
        EpochCommand::Usage(args) => usage::run(args).map(|()| ExitCode::Clean),
        EpochCommand::Show(args) => live::show(args).map(|()| ExitCode::Clean),
        EpochCommand::Reconcile(args) => reconcile::run(args),
        EpochCommand::List(args) => live::list(args).map(|()| ExitCode::Clean),
        EpochCommand::Rerun(args) => rerun::run(&args).map(|()| ExitCode::Clean),
    }
}
