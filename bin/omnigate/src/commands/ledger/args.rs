//! What can be said to `omnigate ledger`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use ron_kernel::config::Secret;
use ron_ledger::{AccountId, Amount, Asset, Dialect, Key, Reference};

/// In two lines, because one is longer than a terminal is wide.
const TRANSFER_USAGE: &str = "omnigate ledger transfer [OPTIONS] --from <ACCOUNT> --to <ACCOUNT>\n\
    \x20                               --amount <AMOUNT> --key <KEY>";

/// The usage line of `ledger hold`, in two lines for the same reason.
const HOLD_USAGE: &str = "omnigate ledger hold [OPTIONS] --from <ACCOUNT> --to <ACCOUNT>\n\
    \x20                           --amount <AMOUNT> --key <KEY>";

#[derive(Debug, Subcommand)]
pub(crate) enum LedgerCommand {
    /// Show the balance of every account, and how much of it is held.
    Balances {
        #[command(flatten)]
        ledger: LedgerArgs,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Verify every row, rule, balance, link and signature. Exit codes: 0: everything is correct; 1: something was
    /// changed.
    Verify {
        #[command(flatten)]
        ledger: LedgerArgs,
        /// A checkpoint that was kept elsewhere, as `ledger checkpoint --json` prints it; the chain must include
        /// it.
        ///
        /// A user who can write to the ledger can truncate or replace it; only a checkpoint that was kept elsewhere
        /// detects that.
        #[arg(long, value_name = "FILE")]
        kept: Option<PathBuf>,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Write the journal for hledger, ledger or beancount, ending with an assertion of every balance.
    Export {
        #[command(flatten)]
        ledger: LedgerArgs,
        /// The format of the export.
        #[arg(long, default_value = "hledger")]
        format: Format,
        /// The file to write; standard output without it. An existing file is never replaced.
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Open an account; creates the ledger if there is none.
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
    /// Hold an amount for a receiver: the sender cannot spend it, and it moves when the hold is settled. Prints the hold's number.
    #[command(override_usage = HOLD_USAGE)]
    Hold {
        #[command(flatten)]
        ledger: LedgerArgs,
        #[command(flatten)]
        transfer: TransferArgs,
    },
    /// List the holds that are open.
    Holds {
        #[command(flatten)]
        ledger: LedgerArgs,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Settle a hold: the amount moves to the receiver.
    Settle {
        #[command(flatten)]
        ledger: LedgerArgs,
        #[command(flatten)]
        close: CloseArgs,
    },
    /// Void a hold: the sender can spend the amount again.
    Void {
        #[command(flatten)]
        ledger: LedgerArgs,
        #[command(flatten)]
        close: CloseArgs,
    },
    /// Post the transfers in a file, each exactly once. Exit codes: 0: all are posted; 1: some were refused, and
    /// are listed.
    ///
    /// The file has a header line `key,from,to,amount,reference` and then one line for each transfer. A cell that
    /// has a comma or a quote is written in quotes, with each quote doubled; the last line ends with a line feed. The
    /// whole file is checked before the first transfer is posted. If an import is interrupted, start it again with the
    /// same file.
    Import {
        #[command(flatten)]
        ledger: LedgerArgs,
        #[command(flatten)]
        import: ImportArgs,
    },
    /// Verify the ledger and sign a checkpoint with a node's key.
    Checkpoint {
        #[command(flatten)]
        ledger: LedgerArgs,
        /// The Ed25519 private key in PEM, as `openssl genpkey -algorithm ed25519` writes it.
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Back up the ledger to a new file, and verify it. The ledger may be in use.
    Backup {
        #[command(flatten)]
        ledger: LedgerArgs,
        /// The file to write; an existing file is never replaced.
        file: PathBuf,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Restore a backup into a new ledger, in a file or on a server, and verify it.
    Restore {
        #[command(flatten)]
        ledger: LedgerArgs,
        /// The file with the backup.
        file: PathBuf,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
}

/// The ledger to use.
#[derive(Args, Debug)]
pub(crate) struct LedgerArgs {
    /// The ledger's URL, such as `sqlite:./data/ledger.db`; without it, the one in the configuration.
    ///
    /// Other users of the machine can see the command line; put a password into the file or into
    /// `OMNIGATE_LEDGER__URL`.
    #[arg(long, value_name = "URL", value_parser = secret)]
    pub(crate) url: Option<Secret>,
    /// The configuration file. Without it, ./omnigate.toml if it exists, else the defaults.
    #[arg(long, value_name = "FILE", env = "OMNIGATE_CONFIG")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct AccountArgs {
    /// The account's name.
    pub(crate) account: AccountId,
    /// The account's asset: 2 to 12 capital letters.
    #[arg(long)]
    pub(crate) asset: Asset,
    /// How far below zero the balance may go, in minor units.
    #[arg(long, value_name = "AMOUNT", default_value = "0", conflicts_with = "issuer")]
    pub(crate) overdraft: Amount,
    /// Allow the balance to go below zero without limit: the asset is issued from this account.
    #[arg(long)]
    pub(crate) issuer: bool,
}

#[derive(Args, Debug)]
pub(crate) struct TransferArgs {
    /// The account that pays.
    #[arg(long, value_name = "ACCOUNT")]
    pub(crate) from: AccountId,
    /// The account that is paid.
    #[arg(long, value_name = "ACCOUNT")]
    pub(crate) to: AccountId,
    /// The amount, in minor units.
    #[arg(long)]
    pub(crate) amount: Amount,
    /// The idempotency key. The same command with the same key moves nothing a second time.
    #[arg(long)]
    pub(crate) key: Key,
    /// A reference, such as the purpose of the payment.
    #[arg(long, default_value = "")]
    pub(crate) reference: Reference,
    /// Open an account for the receiver if there is none.
    #[arg(long)]
    pub(crate) open_receiver: bool,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct CloseArgs {
    /// The number of the hold, as `ledger hold` and `ledger holds` print it.
    pub(crate) hold: u64,
    /// The idempotency key. The same command with the same key does nothing a second time.
    #[arg(long)]
    pub(crate) key: Key,
    /// A reference, such as the purpose of the payment.
    #[arg(long, default_value = "")]
    pub(crate) reference: Reference,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ImportArgs {
    /// The file with the transfers to post.
    pub(crate) file: PathBuf,
    /// Open accounts for receivers that have none.
    #[arg(long)]
    pub(crate) open_receivers: bool,
    /// Read and check the file, and post nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The format of an export.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Format {
    /// The format of hledger and ledger.
    Hledger,
    /// The format of beancount.
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
