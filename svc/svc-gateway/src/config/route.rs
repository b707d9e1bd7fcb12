//! The `[[gateway.route]]` tables: which requests go where, and what is changed in them on the way.

mod check;

use std::collections::BTreeMap;

use ron_kernel::config::{ByteSize, HumanDuration};
use ron_transport::proxy_protocol::TrustedSource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::RouteCacheConfig;
use crate::jwt::ClaimRule;

pub(crate) use check::{check_routes, check_upstream};

/// Requests under a path go to an upstream, or to a service in this process.
///
/// Paths are compared as the most lenient server would read them: percent-decoded once, `\` and `%2f` as `/`, several
/// slashes as one, without `;parameters`. They are passed on as they came. A path with a `.` or `..` segment is refused.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteConfig {
    /// A prefix of the request's path, beginning with `/`. It matches whole segments: `/api` covers `/api/x`, not
    /// `/apix`. The longest prefix wins; of equal ones the more narrowly described: by host, then methods, then headers.
    pub path: String,
    /// The upstream's name.
    #[serde(default)]
    pub upstream: String,
    /// Several upstreams that share the requests, instead of `upstream`: `[{ upstream = "a", weight = 9 }, …]`.
    #[serde(default)]
    pub split: Vec<SplitConfig>,
    /// A service in this process, such as `edge`, instead of `upstream`.
    #[serde(default)]
    pub service: String,
    /// The name in metrics and the access log; the path if empty.
    #[serde(default)]
    pub name: String,
    /// Only for these hosts: names, or `*.` and a name to cover exactly one label. Ports are not compared.
    #[serde(default)]
    pub host: Vec<String>,
    /// Only for these methods; others are answered 405. `GET` includes `HEAD`. Without any: all but `TRACE` and `TRACK`.
    #[serde(default)]
    pub methods: Vec<String>,
    /// Only with these header fields: `{ x-version = "2" }` for a value, `true` for any, `false` for none.
    #[serde(default)]
    pub headers: BTreeMap<String, HeaderWanted>,
    /// Who needs a credential: `none`, `mutations` (all methods but GET, HEAD, OPTIONS and TRACE) or `always`.
    #[serde(default)]
    pub auth: Auth,
    /// Only for clients of these addresses and networks, such as `10.0.0.0/8` or `unix`; others are answered 403. Empty for
    /// everybody. 1024 at most.
    #[serde(default)]
    pub allow_from: Vec<TrustedSource>,
    /// Not for clients of these addresses and networks, even if `allow_from` has them; 1024 at most.
    #[serde(default)]
    pub deny_from: Vec<TrustedSource>,
    /// Only with a JWT that has these claims, for every method: `{ scope = "read:items" }`, or a list of values of which one
    /// is enough. A text is the value (in `scope` and `scp`: one of its words), a list contains it. A name that begins with
    /// `/` is a JSON pointer, such as `/realm_access/roles`.
    #[serde(default)]
    pub require_claims: BTreeMap<String, ClaimWanted>,
    /// Whether the path is removed from what the upstream sees.
    #[serde(default)]
    pub strip_prefix: bool,
    /// What replaces the path in what the upstream sees; empty to leave it.
    #[serde(default)]
    pub rewrite: String,
    /// Tightens the upstream's timeout.
    #[serde(default)]
    pub timeout: Option<HumanDuration>,
    /// Bytes in a request's body, instead of the gateway's limit.
    #[serde(default)]
    pub max_body_bytes: Option<ByteSize>,
    /// Whether answers are long-lived streams, which hold no slot.
    #[serde(default)]
    pub stream: bool,
    /// Protocols that a client may change to, such as `websocket`.
    #[serde(default)]
    pub upgrade: Vec<String>,
    /// Stores responses and answers with them, as a shared cache does: `{ }`, or with settings, such as `{ grace = "1m" }`.
    #[serde(default)]
    pub cache: Option<RouteCacheConfig>,
    /// What is changed in the header of requests.
    #[serde(default)]
    pub request_headers: HeaderRulesConfig,
    /// What is changed in the header of responses.
    #[serde(default)]
    pub response_headers: HeaderRulesConfig,
    /// Sends clients elsewhere: `{ to = "https", status = 308 }`.
    #[serde(default)]
    pub redirect: Option<RedirectConfig>,
}

/// An upstream's part of a route's requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SplitConfig {
    /// The upstream's name.
    pub upstream: String,
    /// Its share, relative to the others'; 0 for none.
    #[serde(default = "one")]
    pub weight: u16,
}

/// What a header field has to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum HeaderWanted {
    /// One of its values is this.
    Value(String),
    /// Whether it is there at all.
    Present(bool),
}

/// What a claim has to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ClaimWanted {
    /// This.
    One(String),
    /// One of these.
    AnyOf(Vec<String>),
}

impl ClaimWanted {
    /// What is asked of the claim of this name.
    pub(crate) fn rule(&self, claim: &str) -> ClaimRule {
        let any_of = match self {
            Self::One(value) => vec![value.clone()],
            Self::AnyOf(values) => values.clone(),
        };
        ClaimRule::new(claim, any_of)
    }
}

/// Who needs a credential.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Auth {
    /// Nobody.
    #[default]
    None,
    /// Whoever changes something.
    Mutations,
    /// Everybody.
    Always,
}

/// What is changed in a header: `remove` first, then `set`, then `add`. Fields that frame a message or concern one
/// connection cannot be changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HeaderRulesConfig {
    /// Fields that get this value instead of any they have.
    pub set: BTreeMap<String, String>,
    /// Fields that get this value beside any they have.
    pub add: BTreeMap<String, String>,
    /// Fields that are taken away.
    pub remove: Vec<String>,
}

/// Where clients are sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RedirectConfig {
    /// `https` sends those who come in the clear to the same place over HTTPS; an origin such as
    /// `https://www.example.org` sends everybody there.
    pub to: String,
    /// 301, 302, 307 or 308.
    #[serde(default = "permanent")]
    pub status: u16,
}

/// What is wrong with a route's description, and where.
#[derive(Debug, PartialEq)]
pub(crate) struct Flaw {
    /// The key, relative to the route.
    pub(crate) key: String,
    pub(crate) message: String,
}

impl Flaw {
    pub(crate) fn new(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self { key: key.into(), message: message.into() }
    }
}

fn one() -> u16 {
    1
}

fn permanent() -> u16 {
    308
}

impl RouteConfig {
    /// The name in metrics and the access log.
    #[must_use]
    pub fn label(&self) -> &str {
        if self.name.is_empty() { &self.path } else { &self.name }
    }

    /// The upstreams that share its requests, with their weights; none for a redirect or a service.
    pub fn shares(&self) -> impl Iterator<Item = (&str, u16)> {
        let only = (!self.upstream.is_empty()).then_some((self.upstream.as_str(), 1));
        only.into_iter().chain(self.split.iter().map(|share| (share.upstream.as_str(), share.weight)))
    }
}
