//! What can be said to `omnigate ledger`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use ron_kernel::config::Secret;
use ron_ledger::{AccountId, Amount, Asset, Dialect, Key, Reference};

/// In two lines, because one is longer than a terminal is wide.
const TRANSFER_USAGE: &str = "omnigate ledger transfer [OPTIONS] --from <ACCOUNT> --to <ACCOUNT>\n\
    \x20                               --amount <AMOUNT> --key <KEY>";

#[derive(Debug, Subcommand)]
pub(crate) enum LedgerCommand {
    /// Show what every account has, and what of it is held.
    Balances {
        #[command(flatten)]
        ledger: LedgerArgs,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Check every row, rule, balance, link and signature. Exit codes: 0 all is well; 1 something is not what was written.
    Verify {
        #[command(flatten)]
        ledger: LedgerArgs,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Write the journal for hledger, ledger or beancount, ending with an assertion of every balance.
    Export {
        #[command(flatten)]
        ledger: LedgerArgs,
        /// For whom.
        #[arg(long, default_value = "hledger")]
        format: Format,
        /// Where to; standard output if it is missing. Never overwrites.
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Open an account; makes the ledger if there is none.
    Open {
        #[command(flatten)]
        ledger: LedgerArgs,
        #[command(flatten)]
        account: AccountArgs,
    },
    /// Move an amount from one account to another, exactly once per key.
    #[command(override_usage = TRANSFER_USAGE)]
    Transfer {
        #[command(flatten)]
        ledger: LedgerArgs,
        #[command(flatten)]
        transfer: TransferArgs,
    },
    /// Check everything and sign it with a node's key.
    Checkpoint {
        #[command(flatten)]
        ledger: LedgerArgs,
        /// The Ed25519 private key in PEM, as `openssl genpkey -algorithm ed25519` writes it.
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Write everything to a new file, and check it. The ledger may be in use.
    Backup {
        #[command(flatten)]
        ledger: LedgerArgs,
        /// Where to; never overwrites.
        file: PathBuf,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Write everything in a backup into a new ledger, in a file or on a server, and check it.
    Restore {
        #[command(flatten)]
        ledger: LedgerArgs,
        /// The backup.
        file: PathBuf,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Which ledger.
#[derive(Args, Debug)]
pub(crate) struct LedgerArgs {
    /// Where it is, such as `sqlite:./data/ledger.db`; without it, as the configuration says.
    ///
    /// Other users of the machine can see it; give a password in the file or as `OMNIGATE_LEDGER__URL`.
    #[arg(long, value_name = "URL", value_parser = secret)]
    pub(crate) url: Option<Secret>,
    /// The configuration file; without it, ./omnigate.toml if there is one, else the defaults.
    #[arg(long, value_name = "FILE", env = "OMNIGATE_CONFIG")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct AccountArgs {
    /// Its name.
    pub(crate) account: AccountId,
    /// What it counts: 2 to 12 capital letters.
    #[arg(long)]
    pub(crate) asset: Asset,
    /// How far below zero it may go, in minor units.
    #[arg(long, value_name = "AMOUNT", default_value = "0", conflicts_with = "issuer")]
    pub(crate) overdraft: Amount,
    /// Let it go below zero without limit: the asset is issued from it.
    #[arg(long)]
    pub(crate) issuer: bool,
}

#[derive(Args, Debug)]
pub(crate) struct TransferArgs {
    /// Who pays.
    #[arg(long, value_name = "ACCOUNT")]
    pub(crate) from: AccountId,
    /// Who is paid.
    #[arg(long, value_name = "ACCOUNT")]
    pub(crate) to: AccountId,
    /// How much, in minor units.
    #[arg(long)]
    pub(crate) amount: Amount,
    /// The idempotency key. The same command with the same key moves nothing a second time.
    #[arg(long)]
    pub(crate) key: Key,
    /// What it is for.
    #[arg(long, default_value = "")]
    pub(crate) reference: Reference,
    /// Open an account for the receiver if there is none.
    #[arg(long)]
    pub(crate) open_receiver: bool,
    /// As JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Who reads an export.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Format {
    /// hledger, and ledger, which reads the same.
    Hledger,
    /// beancount.
    Beancount,
}

impl From<Format> for Dialect {
    fn from(format: Format) -> Self {
        match format {
            Format::Hledger => Self::Hledger,
            Format::Beancount => Self::Beancount,
        }
    }
}

fn secret(text: &str) -> Result<Secret, String> {
    Ok(Secret::new(text))
}
