//! `omnigate epoch`: check what an epoch paid, prove a payout, and compute an epoch again.

mod attested;
mod brought;
mod bundle;
mod chain;
mod claims;
mod documents;
mod examine;
mod files;
mod live;
mod orders;
mod plain;
mod prove;
mod reconcile;
mod rerun;
mod settled;
mod show;
mod statement;
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
    /// Verify an epoch from its files alone: recompute it, compare every byte, and print what is proved and what is
    /// not.
    ///
    /// No server is contacted. A bundle cannot vouch for itself: name the trusted policy keys (`--policy-key`) and
    /// nodes (`--nodes`), or take both from `--config`. Exit codes: 0: everything that is required is proved; 1:
    /// something is wrong or not proved, and is named.
    Verify(VerifyArgs),
    /// Write the proof that an actor's payout is part of an epoch, at most 2 KiB for a million actors.
    ///
    /// Exit codes: 0: written; 1: there is no such line, or the files do not belong together.
    Prove(ProveArgs),
    /// Write an epoch's payouts as a Merkle tree from which a contract on an Ethereum-like chain pays each payee once.
    ///
    /// The tree is an OpenZeppelin `StandardMerkleTree` over (address, amount in minor units). Its document can be
    /// read by `StandardMerkleTree.load` of npm's `@openzeppelin/merkle-tree`, and its root is given to the
    /// contract. An actor's payout is claimed by its payee, as the registry of payees in the bundle says. Amounts of
    /// actors with the same address are added up. The bundle is not verified, except that its lines and its registry
    /// are those of `run.json`: see `epoch verify`. Exit codes: 0: written; 1: a payee has no address, the epoch is
    /// quarantined, or the files do not belong together.
    Claims(ClaimsArgs),
    /// Seal this node's usage of an epoch that is over, or rows that were counted elsewhere. A seal is final.
    ///
    /// Works with and without a running node, which seals each epoch by itself when it ends.
    Seal(live::SealArgs),
    /// Make the running rewarder compute an epoch and pay it.
    Compute(live::OneArgs),
    /// Show the usage that this node has recorded, by epoch: what was used and provided, as it would survive a
    /// crash now.
    ///
    /// Works with and without a running node. Prints one line for each epoch, actor and metric: the epoch, `open`
    /// while more may arrive or `sealed` once the node has signed it, the actor, the metric, the units.
    Usage(usage::UsageArgs),
    /// Show the running rewarder's state of an epoch, and its payouts.
    Show(live::OneArgs),
    /// Compare paid epochs with the ledger, and make the running rewarder post missing batches again.
    ///
    /// A ledger that was restored from an older backup lacks batches of settled epochs. They are posted under their
    /// original keys, so nothing is paid twice. An epoch that was retired cannot be posted again: its
    /// files and rows are gone. Exit codes: 0: nothing was missing, or it is posted again; 1: something is missing and
    /// cannot be posted again, or, with `--dry-run`, something is missing.
    Reconcile(reconcile::ReconcileArgs),
    /// List the latest epochs of the running rewarder.
    List(live::ListArgs),
    /// Sign an order about an epoch and print it: hold the epoch, release it from quarantine, or compute it without a
    /// node's snapshot.
    ///
    /// Send it to the rewarder with `epoch submit`. It is published with the epoch.
    Order(documents::OrderArgs),
    /// Sign a dispute about an epoch and print it. Send it to the rewarder with `epoch submit`; the rewarder
    /// publishes it.
    Dispute(documents::DisputeArgs),
    /// Sign an entry of the registry of payees with the actor's key, and print it.
    Consent(documents::ConsentArgs),
    /// Send a signed order, dispute, correction or registry of payees to the running rewarder.
    Submit(documents::SubmitArgs),
    /// Print what an actor earned and is due, epoch by epoch, from the files of epochs. No server is contacted.
    ///
    /// A payout is due once its epoch is computed; whether it was paid is shown by `epoch verify` with `--ledger`.
    Statement(statement::StatementArgs),
    /// Recompute an epoch from its policy and snapshots, and write the result.
    ///
    /// The same inputs give the same bytes on any machine. Exit codes: 0: written; 1: the epoch cannot be paid, and
    /// `quarantine.json` has the reason.
    Rerun(RerunArgs),
}

#[derive(Args, Debug)]
pub(crate) struct VerifyArgs {
    /// The folder with the epoch's files, or with several such folders, of which the latest is verified; or a
    /// proof, which is verified against `--run`.
    bundle: PathBuf,
    #[command(flatten)]
    trust: TrustArgs,
    /// Follow the chain of earlier epochs even if `--require` does not include `chain`.
    ///
    /// Every run of ruleset 3 names the run before it. Each earlier epoch is verified as this one is, so that this takes
    /// as long as verifying all of them. A wrong link is a failure; `chain` is proved when the first run of the chain is
    /// reached.
    #[arg(long)]
    chain: bool,
    /// The folder with the folders of earlier epochs; by default the one that this epoch's folder is in.
    #[arg(long, value_name = "FOLDER")]
    epochs: Option<PathBuf>,
    /// What must be proved, separated by commas: `policy`, `seals`, `rows`, `commitment`, `chain`, `settled`; or
    /// `none`.
    ///
    /// `policy`: a key of `--policy-key` signed it. `seals`: each snapshot is sealed by the node that it names, which
    /// is one of `--nodes`. `rows`: every row is present and was added up. `commitment`: it equals `--commitment`, or
    /// one of `--nodes` attests to it. `chain`: the earlier runs lead to the first one, no other run follows any of
    /// them, and what is required of `policy`, `seals` and `rows` is proved for each. `settled`: every payout is in
    /// `--ledger`. The default is all except `settled`, which is included if `--ledger` is given. To verify an epoch of
    /// ruleset 3 without the earlier ones, leave `chain` out: then nothing proves what it takes over. Everything that
    /// is present is checked, whether or not it is required.
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
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// What the caller trusts before it reads a bundle.
#[derive(Args, Debug)]
struct TrustArgs {
    /// A key whose signature on the policy is trusted: `ed25519:` and 64 digits. May be repeated.
    #[arg(long, value_name = "KEY")]
    policy_key: Vec<PublicKey>,
    /// A file with the ids of trusted nodes, one per line, as `omnigate node id --rewarder` prints them: those that count
    /// usage, and those that compute epochs. Text after `#` is a comment.
    #[arg(long, value_name = "FILE")]
    nodes: Option<PathBuf>,
    /// The commitment, as it was published elsewhere: `b3k:` and 64 digits.
    #[arg(long, value_name = "HASH")]
    commitment: Option<Digest>,
    /// The ledger that must have every payout, such as `sqlite:./data/ledger.db`. All of it is verified.
    ///
    /// Other users of the machine can see the command line; do not put a password into the URL.
    #[arg(long, value_name = "URL", value_parser = secret)]
    ledger: Option<Secret>,
    /// The account of the ledger that payouts are paid from.
    #[arg(long, value_name = "ACCOUNT", default_value = "pool/rewards")]
    pool_account: AccountId,
    /// Trust what this configuration file trusts: `rewarder.policy_keys`, `rewarder.accounting_nodes`, and the node
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
    /// The actor whose payout is proved.
    actor: String,
    /// Write to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct ClaimsArgs {
    /// The folder with the epoch's files; `run.json`, `allocations.jsonl` and, if the run names one, `payees.json` are
    /// enough.
    bundle: PathBuf,
    /// A file with the addresses of payees, one `payee,address` per line. An actor that the registry does not send
    /// elsewhere is its own payee. A payee whose name is an address needs no line.
    #[arg(long, value_name = "FILE")]
    addresses: Option<PathBuf>,
    /// Leave out payees without an address instead of failing, and print how much that is.
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
    /// Number of snapshots that are added up in parallel; the number of processors by default.
    #[arg(long, value_name = "NUMBER")]
    threads: Option<NonZeroUsize>,
}

impl Threads {
    fn number(&self) -> usize {
        let usual = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        self.threads.map_or_else(usual, NonZeroUsize::get).min(64)
    }
}

/// Runs the command.
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
        EpochCommand::Order(args) => documents::order(args).map(|()| ExitCode::Clean),
        EpochCommand::Dispute(args) => documents::dispute(&args).map(|()| ExitCode::Clean),
        EpochCommand::Consent(args) => documents::consent(&args).map(|()| ExitCode::Clean),
        EpochCommand::Submit(args) => documents::submit(args).map(|()| ExitCode::Clean),
        EpochCommand::Statement(args) => statement::run(&args).map(|()| ExitCode::Clean),
        EpochCommand::Rerun(args) => rerun::run(&args).map(|()| ExitCode::Clean),
    }
}
