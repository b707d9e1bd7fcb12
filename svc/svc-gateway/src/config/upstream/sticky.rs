//! `sticky = { … }` of upstreams: clients return to the server that they had.

use std::{str::FromStr, time::Duration};

use affinity::{MaxLoad, is_cookie_name};
use http::HeaderName;
use ron_kernel::config::{HumanDuration, Problems, Secret};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The shortest secret, in bytes.
const MIN_SECRET: usize = 16;
/// The smallest bound of a server's load: with less, too many requests leave their server.
const MIN_LOAD: f64 = 1.05;
/// The largest bound of a server's load.
const MAX_LOAD: f64 = 100.0;

/// How clients are kept at their server: by a cookie, or by a hash.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StickyConfig {
    /// The name of a cookie that the gateway sets. Its value stands for a server and tells nothing about it; it is
    /// `HttpOnly`, `SameSite=Lax`, and `Secure` over HTTPS.
    pub cookie: String,
    /// How long browsers keep the cookie; until they are closed if unset.
    pub max_age: Option<HumanDuration>,
    /// The secret that cookies are made with, at least 16 bytes: the same on all nodes in front of the same servers.
    /// If unset, a random one that lasts as long as the process.
    pub secret: Option<Secret>,
    /// Instead of `cookie`, the value whose hash selects the server (consistent hashing): `client` for the client's
    /// address, `path`, `header:<name>` or `cookie:<name>`. Requests without it go to any server.
    pub hash: String,
    /// With `hash`, how many times its share of the upstream's requests in progress a server may have; beyond it,
    /// requests go to the next server for their hash. 1.05 to 100.
    pub max_load: f64,
}

impl Default for StickyConfig {
    fn default() -> Self {
        Self { cookie: String::new(), max_age: None, secret: None, hash: String::new(), max_load: 1.5 }
    }
}

/// What a hash is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HashOf {
    /// The client's address; an IPv6 /64 is one.
    Client,
    /// The path that the server gets, without the query.
    Path,
    /// A header field of the request.
    Header(HeaderName),
    /// A cookie of the request.
    Cookie(String),
}

impl FromStr for HashOf {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            None if text == "client" => Ok(Self::Client),
            None if text == "path" => Ok(Self::Path),
            Some(("header", name)) => {
                name.parse().map(Self::Header).map_err(|_| "has no name of a header field")
            }
            Some(("cookie", name)) if is_cookie_name(name) => Ok(Self::Cookie(name.to_owned())),
            Some(("cookie", _)) => Err("has no name of a cookie"),
            _ => Err("is `client`, `path`, `header:<name>` or `cookie:<name>`"),
        }
    }
}

impl StickyConfig {
    /// The bound of a server's load.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be from 1.05 to 100"
    )]
    pub(crate) fn bound(&self) -> Option<MaxLoad> {
        MaxLoad::percent((self.max_load * 100.0).round() as u32)
    }

    pub(super) fn check(&self, at: &str, problems: &mut Problems) {
        let key = |key: &str| format!("{at}{key}");
        if self.cookie.is_empty() == self.hash.is_empty() {
            problems.at(at.trim_end_matches('.'), "needs either `cookie` or `hash`");
        }
        if !self.cookie.is_empty() && !is_cookie_name(&self.cookie) {
            problems.at(key("cookie"), format!("`{}` cannot be the name of a cookie", self.cookie));
        }
        if let Some(Err(what)) = (!self.hash.is_empty()).then(|| self.hash.parse::<HashOf>()) {
            problems.at(key("hash"), what);
        }
        if self.secret.as_ref().is_some_and(|secret| secret.expose().len() < MIN_SECRET) {
            problems
                .at(key("secret"), format!("must have at least {MIN_SECRET} bytes"))
                .help("`openssl rand -hex 32` prints one; keep it in a file: \"${file:sticky.secret}\"");
        }
        if self.max_age.is_some_and(|age| age.as_duration() < Duration::from_secs(1)) {
            problems.at(key("max_age"), "must be at least 1s");
        }
        if !(MIN_LOAD..=MAX_LOAD).contains(&self.max_load) {
            problems.at(key("max_load"), format!("must be from {MIN_LOAD} to {MAX_LOAD}"));
        }
        if self.hash.is_empty() {
            return;
        }
        for (name, is_set) in [("secret", self.secret.is_some()), ("max_age", self.max_age.is_some())] {
            if is_set {
                problems.at(key(name), "has no effect with `hash`, which sets no cookie");
            }
        }
    }
}
