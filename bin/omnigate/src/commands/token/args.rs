//! What can be said to `omnigate token`.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use captoken::{Class, Network, TokenId};
use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use ron_kernel::config::Secret;
use types::NodeId;

use crate::cli::duration;

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Write a new root key to a file of mode 0600.
    Keygen {
        /// Where to write it; never overwrites.
        path: PathBuf,
        #[command(flatten)]
        audit: AuditArgs,
    },
    /// Make a token and print it.
    Mint(MintArgs),
    /// Add conditions to a token, without any key, and print the narrower one.
    Attenuate(AttenuateArgs),
    /// Show what a token says, without knowing whether it is true.
    Inspect {
        #[command(flatten)]
        token: TokenArg,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Say whether a token would be good for a request; exit code 1 if not.
    Verify(VerifyArgs),
    /// Put a token's id on a revocation list. Everything attenuated from it is revoked with it.
    Revoke {
        #[command(flatten)]
        token: TokenArg,
        /// The list, made if it is not there; name it in `auth.revoked`.
        #[arg(long, value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        audit: AuditArgs,
    },
}

/// Where the audit trail is.
#[derive(Args, Debug)]
pub(crate) struct AuditArgs {
    /// Append a line to this file, which may be the node's `admin.audit_log`: who did it, and to which token or key. If it
    /// cannot be written, nothing is printed.
    #[arg(long, value_name = "FILE")]
    pub(crate) audit_log: Option<PathBuf>,
}

/// A token, which is a secret.
#[derive(Args, Debug)]
pub(crate) struct TokenArg {
    /// The token; read from standard input if it is missing or `-`, which keeps it out of the shell's history and the
    /// list of processes.
    #[arg(value_name = "TOKEN", value_parser = secret)]
    pub(crate) token: Option<Secret>,
}

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("whose").args(["tenant", "any_tenant"]).required(true))]
pub(crate) struct MintArgs {
    /// The root key's file.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
    /// The token's id instead of a random one: 32 hexadecimal digits.
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<TokenId>,
    /// Let it act for every tenant.
    #[arg(long)]
    pub(crate) any_tenant: bool,
    /// Let it be good for ever, instead of for an hour.
    #[arg(long, conflicts_with = "expires")]
    pub(crate) never_expires: bool,
    #[command(flatten)]
    pub(crate) conditions: Conditions,
    #[command(flatten)]
    pub(crate) audit: AuditArgs,
}

#[derive(Args, Debug)]
pub(crate) struct AttenuateArgs {
    #[command(flatten)]
    pub(crate) token: TokenArg,
    #[command(flatten)]
    pub(crate) conditions: Conditions,
}

/// What narrows a token.
#[derive(Args, Debug)]
pub(crate) struct Conditions {
    /// Only for this tenant.
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// Only under this path, in whole segments: `/api` covers `/api/x`, not `/apix`.
    #[arg(long, value_name = "PREFIX")]
    pub(crate) path: Option<String>,
    /// Only with these methods: `GET,POST`.
    #[arg(long = "method", value_name = "METHODS", value_delimiter = ',')]
    pub(crate) methods: Vec<String>,
    /// Only for this long from now, such as `1h` or `30m`.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) expires: Option<Duration>,
    /// Only after this long from now.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) not_before: Option<Duration>,
    /// Only from these addresses and networks: `10.0.0.0/8,::1`.
    #[arg(long = "ip", value_name = "NETWORKS", value_delimiter = ',')]
    pub(crate) networks: Vec<Network>,
    /// With these rights, such as `rewarder.run`; a token is minted without any, and keeps those it is attenuated to.
    #[arg(long = "scope", value_name = "NAMES", value_delimiter = ',')]
    pub(crate) scopes: Vec<String>,
    /// Only for these nodes of the overlay, seven at most: `b3:…,b3:…`, as `omnigate node id` prints them.
    #[arg(long = "node", value_name = "IDS", value_delimiter = ',')]
    pub(crate) nodes: Vec<NodeId>,
    /// Publishing only in these topics: `news,chat.*,metrics.>`. Minting grants the right to publish with it.
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',')]
    pub(crate) publish: Vec<String>,
    /// Subscribing only to these topics. Minting grants the right to subscribe with it.
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',')]
    pub(crate) subscribe: Vec<String>,
    /// In this class; `authed` unless minted as `internal`, and never higher than before.
    #[arg(long)]
    pub(crate) class: Option<ClassArg>,
}

#[derive(Args, Debug)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) token: TokenArg,
    /// A root key's file; may be repeated.
    #[arg(long = "key", value_name = "FILE", required = true)]
    pub(crate) keys: Vec<PathBuf>,
    /// A revocation list.
    #[arg(long, value_name = "FILE")]
    pub(crate) revoked: Option<PathBuf>,
    /// The request's path.
    #[arg(long, default_value = "/")]
    pub(crate) path: String,
    /// The request's method.
    #[arg(long, default_value = "GET")]
    pub(crate) method: String,
    /// The client's address; without it, a token that is bound to addresses is refused.
    #[arg(long)]
    pub(crate) ip: Option<IpAddr>,
    /// The tenant whose things are asked for.
    #[arg(long)]
    pub(crate) tenant: Option<String>,
    /// The right that is needed.
    #[arg(long)]
    pub(crate) scope: Option<String>,
    /// The node that shows it; without it, a token that names nodes is refused.
    #[arg(long, value_name = "ID")]
    pub(crate) node: Option<NodeId>,
    /// The topic that is published in.
    #[arg(long, value_name = "TOPIC")]
    pub(crate) publish: Option<String>,
    /// The topic or pattern that is subscribed to.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) subscribe: Option<String>,
    /// The moment of the request in seconds of Unix time, instead of now.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) at: Option<u64>,
    /// As JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ClassArg {
    /// Whoever shows a valid token.
    Authed,
    /// Our own services.
    Internal,
}

impl From<ClassArg> for Class {
    fn from(class: ClassArg) -> Self {
        match class {
            ClassArg::Authed => Self::Authed,
            ClassArg::Internal => Self::Internal,
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the form that the command line's parser calls")]
fn secret(text: &str) -> Result<Secret, String> {
    Ok(Secret::new(text))
}
