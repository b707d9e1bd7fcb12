//! The `[auth]` table: whom to believe.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use captoken::KeyRing;
use ron_kernel::config::{Checks, HumanDuration, Problems, Table};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::jwt::{JwksSource, SourceError};

/// Asking more often than this would load the issuer for nothing.
const MIN_REFRESH: Duration = Duration::from_secs(10);
/// A key that its issuer withdrew would stay good for longer than this with `danger_ok` only.
const SAFE_MAX_REFRESH: Duration = Duration::from_secs(24 * 3600);

/// Whom to believe: the keys of capability tokens and of JWTs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AuthConfig {
    /// Files with root keys of capability tokens, newest first, mode 0600; 16 at most. `omnigate token keygen` writes
    /// one.
    pub root_keys: Vec<PathBuf>,
    /// File with the ids of revoked capability tokens, one per line; empty for none. `omnigate token revoke` adds to it.
    pub revoked: PathBuf,
    /// Where the issuer of JWTs publishes its keys, such as `https://id.example/keys.json` or `file:/etc/keys.json`;
    /// empty to take no JWTs.
    pub jwks_url: String,
    /// PEM bundle of the authorities that sign the issuer's server; empty for those that the system trusts.
    pub jwks_ca_path: PathBuf,
    /// How often the issuer's keys are fetched anew; 10s to 24h.
    pub jwks_refresh: HumanDuration,
    /// The issuer that a JWT must name; empty for anybody with one of the keys.
    pub jwt_issuer: String,
    /// The audience that a JWT must name; empty if they name none.
    pub jwt_audience: String,
}

impl Default for AuthConfig {
    fn default() -> Self {
        Self {
            root_keys: Vec::new(),
            revoked: PathBuf::new(),
            jwks_url: String::new(),
            jwks_ca_path: PathBuf::new(),
            jwks_refresh: HumanDuration::from_secs(300),
            jwt_issuer: String::new(),
            jwt_audience: String::new(),
        }
    }
}

impl Table for AuthConfig {
    const NAME: &'static str = "auth";

    fn check(&self, checks: &Checks, problems: &mut Problems) {
        self.check_capabilities(problems);
        self.check_jwks(problems);
        if self.jwks_refresh.as_duration() < MIN_REFRESH {
            let least = HumanDuration::from(MIN_REFRESH);
            problems.at("jwks_refresh", format!("must be at least {least}"));
        }
        problems.guard("jwks_refresh", self.jwks_refresh, SAFE_MAX_REFRESH.into(), checks.danger_ok());
    }
}

impl AuthConfig {
    fn check_capabilities(&self, problems: &mut Problems) {
        if self.root_keys.len() > KeyRing::MAX_KEYS {
            let message = format!("there are more than {} keys", KeyRing::MAX_KEYS);
            problems
                .at("root_keys", message)
                .help("retire the oldest: their tokens are refused from then on");
        }
        for (index, path) in self.root_keys.iter().enumerate() {
            let at = format!("root_keys.{index}");
            if is_empty(path) {
                problems.at(at, "must name a file");
            } else if self.root_keys[..index].contains(path) {
                problems.at(at, format!("{} is listed twice", path.display()));
            }
        }
        if self.root_keys.is_empty() && !is_empty(&self.revoked) {
            problems.warn("revoked", "has no effect: without `root_keys` there are no capability tokens");
        }
    }

    fn check_jwks(&self, problems: &mut Problems) {
        let wishes = [("jwt_issuer", &self.jwt_issuer), ("jwt_audience", &self.jwt_audience)];
        if self.jwks_url.is_empty() {
            for (key, _) in wishes.into_iter().filter(|(_, wish)| !wish.is_empty()) {
                problems.warn(key, "has no effect: without `jwks_url` no JWTs are taken");
            }
            return;
        }
        if let Some((message, help)) = jwks_problem(&self.jwks_url) {
            problems.at("jwks_url", message).help(help);
        }
        let empty = [
            ("jwt_issuer", &self.jwt_issuer, "is empty, so tokens of anybody with one of the keys are taken"),
            ("jwt_audience", &self.jwt_audience, "is empty, so tokens that name an audience are refused"),
        ];
        for (key, _, consequence) in empty.into_iter().filter(|(_, wish, _)| wish.is_empty()) {
            problems.warn(key, consequence).help("set it to what your issuer writes into its tokens");
        }
    }
}

/// What is wrong with a key set's URL, and what to do. Never repeats the URL, which may hold a password by mistake.
fn jwks_problem(url: &str) -> Option<(&'static str, &'static str)> {
    match url.parse::<JwksSource>() {
        Ok(source) if source.is_exposed() => {
            Some(("anybody on the way could put keys of their own in place of the issuer's", "use https://"))
        }
        Ok(_) => None,
        Err(SourceError::UserInfo) => {
            Some(("carries credentials, which would be shown wherever the configuration is", "remove them"))
        }
        Err(_) => Some(("names no key set", "write https://host/path, or file:/path")),
    }
}

fn is_empty(path: &Path) -> bool {
    path.as_os_str().is_empty()
}
