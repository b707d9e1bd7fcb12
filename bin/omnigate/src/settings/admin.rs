//! The `[admin]` table.

use std::path::PathBuf;

use ron_kernel::config::{Checks, PathSetting, Problems, Secret, Table};
use ron_transport::{addr::ListenAddr, tls::settings::TlsConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Shorter tokens can be guessed.
const TOKEN_MIN: usize = 16;

/// Tokens in `admin.tokens`; each is compared with what every request shows.
const TOKENS_MAX: usize = 64;
/// The longest name of a token.
const NAME_MAX: usize = 64;

/// What to do about an admin listener that strangers could reach.
pub(crate) const OPEN_REMEDY: &str =
    "set `admin.token` (in the file or as OMNIGATE_ADMIN__TOKEN), or listen on 127.0.0.1";

/// The listener for operators: metrics, health, readiness, topology, events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AdminConfig {
    /// The listening address: `127.0.0.1:9600`, `unix:/run/omnigate-admin.sock` or `inherit:name`. Addresses other
    /// than loopback need a token.
    pub(crate) listen: ListenAddr,
    /// If set, every endpoint except `/healthz` and `/readyz` requires `Authorization: Bearer <token>`; at least 16
    /// characters. Its role is `operate`, so it may do everything.
    pub(crate) token: Option<Secret>,
    /// Further tokens, each with a name for the audit trail and a role:
    /// `{ name = "prometheus", role = "read", token = … }`. A token with the role `read` can read everything and
    /// change nothing. At most 64.
    pub(crate) tokens: Vec<AdminToken>,
    /// Certificates of the listener; without them it does not use TLS.
    pub(crate) tls: TlsConfig,
    /// The file that the audit trail is appended to, one JSON object per line: which caller did what, and which
    /// callers were refused. It is created with mode 0600. Empty for none; the ordinary log always has the trail,
    /// with the target `audit`.
    #[schemars(with = "PathSetting")]
    pub(crate) audit_log: PathBuf,
    /// Whether `POST /rehearse/<service>/<task>` may end a task as a crash would, so that you can watch its
    /// restart.
    pub(crate) rehearse: bool,
}

/// A token for the admin listener.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AdminToken {
    /// The name of the holder in the audit trail: 1 to 64 letters, digits, dots, dashes and underscores.
    pub(crate) name: String,
    /// The role: `read` or `operate`.
    pub(crate) role: Role,
    /// The token; 16 characters at least.
    pub(crate) token: Secret,
}

/// What the holder of a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    /// Look at everything, and change nothing.
    Read,
    /// Also stop the node, rehearse crashes, purge the cache, publish and store in the overlay.
    Operate,
}

impl Role {
    /// Its name in the configuration.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Operate => "operate",
        }
    }
}

impl AdminConfig {
    /// The token that may do the most; `None` without tokens.
    pub(crate) fn strongest_token(&self) -> Option<&Secret> {
        let strongest = || self.tokens.iter().max_by_key(|token| token.role).map(|token| &token.token);
        self.token.as_ref().or_else(strongest)
    }

    /// Whether a token is needed to ask.
    pub(crate) fn has_token(&self) -> bool {
        self.token.is_some() || !self.tokens.is_empty()
    }
}

impl Default for AdminConfig {
    fn default() -> Self {
        Self {
            listen: ListenAddr::Tcp(([127, 0, 0, 1], 9600).into()),
            token: None,
            tokens: Vec::new(),
            tls: TlsConfig::default(),
            audit_log: PathBuf::new(),
            rehearse: false,
        }
    }
}

impl Table for AdminConfig {
    const NAME: &'static str = "admin";

    fn check(&self, _: &Checks, problems: &mut Problems) {
        if let Some(what) = self.token.as_ref().and_then(token_problem) {
            problems.at("token", what).help("`openssl rand -hex 32` generates one");
        }
        self.check_tokens(problems);
        self.tls.check(problems);
        if !self.has_token() && is_open(&self.listen) {
            let message = format!("{} can be reached from other machines, without a token", self.listen);
            problems.at("listen", message).help(OPEN_REMEDY);
        }
    }
}

impl AdminConfig {
    fn check_tokens(&self, problems: &mut Problems) {
        if self.tokens.len() > TOKENS_MAX {
            problems.at("tokens", format!("{} are more than {TOKENS_MAX} tokens", self.tokens.len()));
        }
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        for (index, token) in self.tokens.iter().enumerate() {
            let name = &token.name;
            if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(fits) {
                let help = format!("use 1 to {NAME_MAX} letters, digits, dots, dashes and underscores");
                problems.at(format!("tokens.{index}.name"), "cannot name a token").help(help);
            }
            if self.tokens[..index].iter().any(|earlier| earlier.name == *name) {
                problems.at(format!("tokens.{index}.name"), format!("two tokens are called `{name}`"));
            }
            if let Some(what) = token_problem(&token.token) {
                let at = format!("tokens.{index}.token");
                problems.at(at, what).help("`openssl rand -hex 32` generates one");
            }
            let earlier = self.tokens[..index].iter().map(|earlier| &earlier.token);
            if earlier.chain(&self.token).any(|earlier| *earlier == token.token) {
                problems
                    .at(format!("tokens.{index}.token"), "is the same as another token")
                    .help("give each holder a separate token, so that one can be revoked");
            }
        }
    }
}

/// Whether other machines can reach an address. An inherited socket is asked once it is at hand.
pub(crate) fn is_open(addr: &ListenAddr) -> bool {
    matches!(addr, ListenAddr::Tcp(addr) if !addr.ip().to_canonical().is_loopback())
}

fn token_problem(token: &Secret) -> Option<String> {
    let token = token.expose();
    if token.len() < TOKEN_MIN {
        return Some(format!("a token has at least {TOKEN_MIN} characters"));
    }
    // Anything else could not be sent in a header.
    (!token.bytes().all(|byte| byte.is_ascii_graphic()))
        .then(|| "a token has visible ASCII characters only, no spaces".to_owned())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_this_machine_are_closed() {
        for closed in
            ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1", "unix:/run/a", "inherit:a"]
        {
            assert!(!is_open(&closed.parse().unwrap()), "{closed}");
        }
        for open in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "128.0.0.1:1"] {
            assert!(is_open(&open.parse().unwrap()), "{open}");
        }
    }

    #[test]
    fn a_token_is_long_and_fits_a_header() {
        let problem = |token: &str| token_problem(&Secret::new(token));
        assert_eq!(problem(&"x".repeat(TOKEN_MIN)), None);
        assert!(problem(&"x".repeat(TOKEN_MIN - 1)).is_some());
        assert!(problem(&format!("{} y", "x".repeat(TOKEN_MIN))).is_some());
        assert!(problem(&format!("{}é", "x".repeat(TOKEN_MIN))).is_some());
    }
}
