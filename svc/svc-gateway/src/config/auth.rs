//! The `[auth]` table: whom to believe.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use captoken::KeyRing;
use ron_kernel::config::{Checks, HumanDuration, PathSetting, Problems, Table};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::jwt::{JwksSource, SourceError};

/// Asking more often than this would load the issuer for nothing.
const MIN_REFRESH: Duration = Duration::from_secs(10);
/// A key that its issuer withdrew would stay good for longer than this with `danger_ok` only.
const SAFE_MAX_REFRESH: Duration = Duration::from_secs(24 * 3600);

/// With more leeway than this a token counts long after its end, with `danger_ok` only.
const SAFE_MAX_LEEWAY: Duration = Duration::from_secs(300);
/// Most issuers of JWTs.
const MAX_ISSUERS: u32 = 16;

/// Keys that verify capability tokens and JWTs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AuthConfig {
    /// Files with root keys of capability tokens, newest first, mode 0600; 16 at most. `omnigate token keygen` writes
    /// one.
    #[schemars(with = "Vec<PathSetting>")]
    pub root_keys: Vec<PathBuf>,
    /// File with the ids of revoked capability tokens, one per line; empty for none. `omnigate token revoke` adds to it.
    #[schemars(with = "PathSetting")]
    pub revoked: PathBuf,
    /// The issuer's key set (JWKS), such as `https://id.example/keys.json` or `file:/etc/keys.json`; empty to
    /// accept no JWTs.
    #[schemars(extend("x-path" = ["file:"]))]
    pub jwks_url: String,
    /// PEM bundle of the CA certificates for the issuer's server; empty for the system's.
    #[schemars(with = "PathSetting")]
    pub jwks_ca_path: PathBuf,
    /// How often the issuer's keys are fetched; 10s to 24h.
    pub jwks_refresh: HumanDuration,
    /// The issuer that a JWT must name in `iss`; empty to accept any JWT signed with one of the keys.
    pub jwt_issuer: String,
    /// The audience that a JWT must name in `aud`; empty to accept JWTs without an audience only.
    pub jwt_audience: String,
    /// Tolerated difference between the issuer's clock and this node's, for the times in a JWT; 5m at most.
    pub jwt_leeway: HumanDuration,
    /// Further issuers of JWTs, 16 in all. A token is verified with the keys of the issuer in its `iss`.
    pub issuer: Vec<IssuerConfig>,
}

/// An issuer of JWTs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IssuerConfig {
    /// The issuer, exactly as its tokens name it in `iss`.
    pub issuer: String,
    /// The issuer's key set (JWKS): `https://id.example/keys.json` or `file:/etc/keys.json`.
    #[schemars(extend("x-path" = ["file:"]))]
    pub jwks_url: String,
    /// PEM bundle of the CA certificates for the issuer's server; empty for the system's.
    #[serde(default)]
    #[schemars(with = "PathSetting")]
    pub jwks_ca_path: PathBuf,
    /// How often the issuer's keys are fetched; 10s to 24h.
    #[serde(default = "default_refresh")]
    pub jwks_refresh: HumanDuration,
    /// The audience that its tokens must name; empty if they name none.
    #[serde(default)]
    pub audience: String,
    /// Tolerated difference between the issuer's clock and this node's; 5m at most.
    #[serde(default = "default_leeway")]
    pub leeway: HumanDuration,
}

fn default_refresh() -> HumanDuration {
    HumanDuration::from_secs(300)
}

fn default_leeway() -> HumanDuration {
    HumanDuration::from_secs(30)
}

impl Default for AuthConfig {
    fn default() -> Self {
        Self {
            root_keys: Vec::new(),
            revoked: PathBuf::new(),
            jwks_url: String::new(),
            jwks_ca_path: PathBuf::new(),
            jwks_refresh: default_refresh(),
            jwt_issuer: String::new(),
            jwt_audience: String::new(),
            jwt_leeway: default_leeway(),
            issuer: Vec::new(),
        }
    }
}

impl Table for AuthConfig {
    const NAME: &'static str = "auth";

    fn check(&self, checks: &Checks, problems: &mut Problems) {
        self.check_capabilities(problems);
        self.check_issuers(checks.danger_ok(), problems);
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

    /// Whose JWTs are taken: the issuer of `jwks_url`, then those of `issuer`.
    #[must_use]
    pub fn issuers(&self) -> Vec<IssuerConfig> {
        let first = (!self.jwks_url.is_empty()).then(|| IssuerConfig {
            issuer: self.jwt_issuer.clone(),
            jwks_url: self.jwks_url.clone(),
            jwks_ca_path: self.jwks_ca_path.clone(),
            jwks_refresh: self.jwks_refresh,
            audience: self.jwt_audience.clone(),
            leeway: self.jwt_leeway,
        });
        first.into_iter().chain(self.issuer.iter().cloned()).collect()
    }

    fn check_issuers(&self, danger_ok: bool, problems: &mut Problems) {
        if self.jwks_url.is_empty() {
            let wishes = [("jwt_issuer", &self.jwt_issuer), ("jwt_audience", &self.jwt_audience)];
            for (key, _) in wishes.into_iter().filter(|(_, wish)| !wish.is_empty()) {
                problems.warn(key, "has no effect: without `jwks_url` no JWTs are taken");
            }
            check_times(Place::Own, self.jwks_refresh, self.jwt_leeway, danger_ok, problems);
        }
        let (issuers, own) = (self.issuers(), usize::from(!self.jwks_url.is_empty()));
        if issuers.len() > MAX_ISSUERS as usize {
            problems.at("issuer", format!("there are more than {MAX_ISSUERS} issuers"));
        }
        for (index, issuer) in issuers.iter().enumerate() {
            let place = if index < own { Place::Own } else { Place::Listed(index - own) };
            issuer.check(place, danger_ok, problems);
            if issuer.issuer.is_empty() && issuers.len() > 1 {
                problems
                    .at(place.key("issuer"), "must name the issuer, because there are several")
                    .help("a token's `iss` says whose keys it is checked with");
            } else if issuers[..index].iter().any(|earlier| earlier.issuer == issuer.issuer) {
                problems.at(place.key("issuer"), format!("`{}` is listed twice", issuer.issuer));
            }
        }
    }
}

/// Where an issuer stands in the configuration.
#[derive(Clone, Copy)]
enum Place {
    /// In the settings that are there for one issuer.
    Own,
    /// In the list, at this index.
    Listed(usize),
}

impl Place {
    /// Where a setting of the issuer stands.
    fn key(self, name: &str) -> String {
        match (self, name) {
            (Self::Listed(index), name) => format!("issuer[{index}].{name}"),
            (Self::Own, "issuer" | "audience" | "leeway") => format!("jwt_{name}"),
            (Self::Own, name) => name.to_owned(),
        }
    }
}

impl IssuerConfig {
    fn check(&self, place: Place, danger_ok: bool, problems: &mut Problems) {
        if let Some((message, help)) = jwks_problem(&self.jwks_url) {
            problems.at(place.key("jwks_url"), message).help(help);
        }
        check_times(place, self.jwks_refresh, self.leeway, danger_ok, problems);
        let empty = [
            ("issuer", &self.issuer, "is empty, so tokens of anybody with one of the keys are taken"),
            ("audience", &self.audience, "is empty, so tokens that name an audience are refused"),
        ];
        for (key, _, consequence) in empty.into_iter().filter(|(_, wish, _)| wish.is_empty()) {
            problems
                .warn(place.key(key), consequence)
                .help("set it to what your issuer writes into its tokens");
        }
    }
}

fn check_times(
    place: Place,
    refresh: HumanDuration,
    leeway: HumanDuration,
    danger_ok: bool,
    problems: &mut Problems,
) {
    let key = place.key("jwks_refresh");
    if refresh.as_duration() < MIN_REFRESH {
        problems.at(&*key, format!("must be at least {}", HumanDuration::from(MIN_REFRESH)));
    }
    problems.guard(&key, refresh, SAFE_MAX_REFRESH.into(), danger_ok);
    problems.guard(&place.key("leeway"), leeway, SAFE_MAX_LEEWAY.into(), danger_ok);
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
