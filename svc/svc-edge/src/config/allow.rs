//! One origin that may be asked, written as text or as a table.

use std::{borrow::Cow, collections::BTreeSet, path::PathBuf};

use http::uri::Authority;
use ron_kernel::config::{PathSetting, Problems};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::two_forms::{TwoForms, two_forms};

/// More origins than this are not kept apart.
const MAX_ORIGINS: usize = 1024;

/// How an origin is spoken to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OriginScheme {
    /// HTTP over TLS.
    #[default]
    Https,
    /// HTTP without TLS.
    Http,
}

/// Which answers of an origin are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OriginEtag {
    /// Responses with a strong `ETag`.
    #[default]
    Strong,
    /// Those with a weak one or none, too.
    Any,
}

/// The longer way to write it.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    /// The origin's host, with a port if it is not the default one: `tiles.example.org` or `10.0.0.7:8000`;
    /// `*.example.org` for every host under `example.org`.
    host: String,
    /// The scheme: `https` or `http`.
    #[serde(default)]
    scheme: OriginScheme,
    /// Which responses are stored: those with a `strong` ETag, or `any`.
    #[serde(default)]
    origin_etag: OriginEtag,
    /// Whether the origin may have a private address, such as 10.0.0.7 or an address of this machine.
    #[serde(default)]
    private: bool,
    /// Whether objects longer than 1 MiB are sent while they are being fetched. If such a fetch fails, or its bytes
    /// do not match the origin's hash, the client's connection is closed.
    #[serde(default)]
    stream: bool,
    /// PEM bundle of the CA certificates for the origin; empty for the system's.
    #[serde(default)]
    #[schemars(with = "PathSetting")]
    ca_path: PathBuf,
}

/// One origin: `"tiles.example.org"`, or `{ host = "tiles.example.org", origin_etag = "any" }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowConfig {
    /// Its host in lower case, with a port if that is not the usual one; the first segment of the paths it is asked for.
    /// `*.` and a host stand for every host under it.
    pub host: String,
    /// The scheme: `https` or `http`.
    pub scheme: OriginScheme,
    /// Which of its answers are stored.
    pub origin_etag: OriginEtag,
    /// Whether it may be at a private address.
    pub private: bool,
    /// Whether its objects longer than 1 MiB are sent while they are being fetched.
    pub stream: bool,
    /// PEM bundle of the CA certificates for the origin; empty for the system's.
    pub ca_path: PathBuf,
}

impl AllowConfig {
    /// The origin at `host`, over TLS, at a public address, whose ETags are strong.
    #[must_use]
    pub fn new(host: &str) -> Self {
        Self {
            host: host.to_ascii_lowercase(),
            scheme: OriginScheme::default(),
            origin_etag: OriginEtag::default(),
            private: false,
            stream: false,
            ca_path: PathBuf::new(),
        }
    }

    fn check(&self, at: &str, problems: &mut Problems) {
        let host = self.host.strip_prefix("*.").unwrap_or(&self.host);
        let authority = host.parse::<Authority>();
        let bare = authority.as_ref().is_ok_and(|a| !a.host().is_empty() && !a.as_str().contains('@'));
        let numbered = authority.as_ref().is_ok_and(|a| a.port().is_none() == (a.as_str() == a.host()));
        if !bare || !numbered || host.contains('*') {
            problems
                .at(at, format!("`{}` is not a host", self.host))
                .help("write it as in tiles.example.org, *.example.org or 10.0.0.7:8000");
        }
        if self.scheme == OriginScheme::Http && !self.ca_path.as_os_str().is_empty() {
            problems.at(format!("{at}.ca_path"), "is not used, because the origin is contacted without TLS");
        }
    }
}

/// Says what is wrong with a list of origins.
pub(super) fn check_all(allow: &[AllowConfig], problems: &mut Problems) {
    if allow.len() > MAX_ORIGINS {
        problems.at("allow", format!("names {} origins, more than {MAX_ORIGINS}", allow.len()));
    }
    let mut seen = BTreeSet::new();
    for (index, origin) in allow.iter().enumerate() {
        let at = format!("allow.{index}");
        origin.check(&at, problems);
        if !seen.insert(&origin.host) {
            problems.at(at, format!("`{}` is named twice", origin.host));
        }
    }
}

impl TwoForms for AllowConfig {
    type Table = Table;

    const IS_PATH: bool = false;

    const EXPECTED: &'static str = "a host such as \"tiles.example.org\", or a table with `host`";

    fn text(&self) -> Cow<'_, str> {
        self.host.as_str().into()
    }
}

impl From<String> for AllowConfig {
    fn from(host: String) -> Self {
        Self::new(&host)
    }
}

impl From<Table> for AllowConfig {
    fn from(Table { host, scheme, origin_etag, private, stream, ca_path }: Table) -> Self {
        Self { host: host.to_ascii_lowercase(), scheme, origin_etag, private, stream, ca_path }
    }
}

impl From<AllowConfig> for Table {
    fn from(AllowConfig { host, scheme, origin_etag, private, stream, ca_path }: AllowConfig) -> Self {
        Self { host, scheme, origin_etag, private, stream, ca_path }
    }
}

two_forms!(AllowConfig);
