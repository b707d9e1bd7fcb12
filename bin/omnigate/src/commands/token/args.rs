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
        /// The file to write; an existing file is never replaced.
        path: PathBuf,
        #[command(flatten)]
        audit: AuditArgs,
    },
    /// Mint a token and print it.
    Mint(MintArgs),
    /// Attenuate a token: add caveats, without a key, and print the new token.
    Attenuate(AttenuateArgs),
    /// Show the content of a token without verifying it.
    Inspect {
        #[command(flatten)]
        token: TokenArg,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Verify whether a token would be accepted for a request; exit code 1 if not.
    Verify(VerifyArgs),
    /// Add a token's id to a revocation list. All tokens attenuated from it are revoked too.
    Revoke {
        #[command(flatten)]
        token: TokenArg,
        /// The revocation list, which is created if it does not exist; name it in `auth.revoked`.
        #[arg(long, value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        audit: AuditArgs,
    },
}

/// The audit trail.
#[derive(Args, Debug)]
pub(crate) struct AuditArgs {
    /// Append a line to this file, which may be the node's `admin.audit_log`, with the user and the token or key.
    /// If it cannot be written, nothing is printed.
    #[arg(long, value_name = "FILE")]
    pub(crate) audit_log: Option<PathBuf>,
}

/// A token, which is a secret.
#[derive(Args, Debug)]
pub(crate) struct TokenArg {
    /// The token. If it is missing or `-`, it is read from standard input, which keeps it out of the shell's
    /// history and the process list.
    #[arg(value_name = "TOKEN", value_parser = secret)]
    pub(crate) token: Option<Secret>,
}

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("whose").args(["tenant", "any_tenant"]).required(true))]
pub(crate) struct MintArgs {
    /// The file with the root key.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
    /// The token's id instead of a random one: 32 hexadecimal digits.
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<TokenId>,
    /// Allow every tenant.
    #[arg(long)]
    pub(crate) any_tenant: bool,
    /// Never expire, instead of after an hour.
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

/// Caveats, which restrict a token.
#[derive(Args, Debug)]
pub(crate) struct Conditions {
    /// Restrict to this tenant.
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// Restrict to this path and below, in whole segments: `/api` covers `/api/x`, not `/apix`.
    #[arg(long, value_name = "PREFIX")]
    pub(crate) path: Option<String>,
    /// Restrict to these methods: `GET,POST`.
    #[arg(long = "method", value_name = "METHODS", value_delimiter = ',')]
    pub(crate) methods: Vec<String>,
    /// Expire after this time from now, such as `1h` or `30m`.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) expires: Option<Duration>,
    /// Become valid after this time from now.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) not_before: Option<Duration>,
    /// Restrict to clients with these addresses and networks: `10.0.0.0/8,::1`.
    #[arg(long = "ip", value_name = "NETWORKS", value_delimiter = ',')]
    pub(crate) networks: Vec<Network>,
    /// Scopes, such as `rewarder.run`. A new token has none unless they are listed here; attenuating a token
    /// restricts it to these.
    #[arg(long = "scope", value_name = "NAMES", value_delimiter = ',')]
    pub(crate) scopes: Vec<String>,
    /// Restrict to these nodes of the overlay, seven at most: `b3:…,b3:…`, as `omnigate node id` prints them.
    #[arg(long = "node", value_name = "IDS", value_delimiter = ',')]
    pub(crate) nodes: Vec<NodeId>,
    /// Restrict publishing to these topics: `news,chat.*,metrics.>`. When minting, this also grants the scope to
    /// publish.
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',')]
    pub(crate) publish: Vec<String>,
    /// Restrict subscribing to these topics. When minting, this also grants the scope to subscribe.
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',')]
    pub(crate) subscribe: Vec<String>,
    /// The class: `authed` unless the token is minted as `internal`. Attenuation can only lower it.
    #[arg(long)]
    pub(crate) class: Option<ClassArg>,
}

#[derive(Args, Debug)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) token: TokenArg,
    /// A file with a root key. May be repeated.
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
    /// The tenant whose resources are requested.
    #[arg(long)]
    pub(crate) tenant: Option<String>,
    /// The scope that the request needs.
    #[arg(long)]
    pub(crate) scope: Option<String>,
    /// The node that presents the token; without it, a token that names nodes is refused.
    #[arg(long, value_name = "ID")]
    pub(crate) node: Option<NodeId>,
    /// The topic that is published in.
    #[arg(long, value_name = "TOPIC")]
    pub(crate) publish: Option<String>,
    /// The topic or pattern that is subscribed to.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) subscribe: Option<String>,
    /// The time of the request in Unix seconds, instead of now.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) at: Option<u64>,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ClassArg {
    /// Clients with a valid token.
    Authed,
    /// The operator's own services.
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
