//! The `[[gateway.route]]` tables: which requests go where, and what is changed in them on the way.

mod check;

use std::collections::BTreeMap;

use ron_kernel::config::{ByteSize, HumanDuration};
use ron_transport::proxy_protocol::TrustedSource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    BasicAuthConfig, CompressConfig, CorsConfig, ForwardAuthConfig, MirrorConfig, RespondConfig,
    RouteCacheConfig, RouteRateConfig, SecurityHeaders,
};
use crate::jwt::ClaimRule;

pub(crate) use check::{check_routes, check_upstream};

/// Requests under a path go to an upstream, or to a service in this process.
///
/// Paths are compared as the most lenient server would read them: percent-decoded once, `\` and `%2f` as `/`, several
/// slashes as one, without `;parameters`. They are passed on as they came. A path with a `.` or `..` segment is refused.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteConfig {
    /// A prefix of the request's path, beginning with `/`. It matches whole segments: `/api` matches `/api/x`, not
    /// `/apix`. The longest prefix wins; among equal ones, the more specific: by host, then methods, then headers.
    pub path: String,
    /// A regular expression that the whole path must match, in addition to `path`: `/users/([0-9]+)/photos`. It is
    /// matched against the path decoded once, without empty segments and `;parameters`, and without a slash at the end.
    /// Among routes with the same `path`, those with an expression come first. 1 KiB at most; matching takes linear
    /// time.
    #[serde(default)]
    pub path_regex: String,
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
    /// Also for hosts that one of these regular expressions matches as a whole, ignoring case:
    /// `(www|shop)[0-9]*\\.example\\.org`.
    #[serde(default)]
    pub host_regex: Vec<String>,
    /// Only for these methods; others are answered 405. `GET` includes `HEAD`. If empty, all methods except `TRACE` and
    /// `TRACK`.
    #[serde(default)]
    pub methods: Vec<String>,
    /// Only with these header fields: `{ x-version = "2" }` for a value, `{ regex = "2\\.[0-9]+" }` for a regular
    /// expression that the whole value must match, `true` for any, `false` for none.
    #[serde(default)]
    pub headers: BTreeMap<String, HeaderWanted>,
    /// Which requests need a credential: `none`, `mutations` (all methods except GET, HEAD, OPTIONS and TRACE) or
    /// `always`.
    #[serde(default)]
    pub auth: Auth,
    /// Only clients with these addresses and networks, such as `10.0.0.0/8` or `unix`, are allowed; others are
    /// answered 403. Empty for all clients. 1024 at most.
    #[serde(default)]
    pub allow_from: Vec<TrustedSource>,
    /// Clients with these addresses and networks are answered 403, even if `allow_from` includes them; 1024 at
    /// most.
    #[serde(default)]
    pub deny_from: Vec<TrustedSource>,
    /// Claims that every request's JWT must have: `{ scope = "read:items" }`, or a list of values of which one is
    /// enough. A string claim must equal the value (in `scope` and `scp`: contain it as a word); a list must
    /// contain it. A name that begins with `/` is a JSON pointer, such as `/realm_access/roles`.
    #[serde(default)]
    pub require_claims: BTreeMap<String, ClaimWanted>,
    /// Only for users in a file, with their password: `{ users_path = "users" }`.
    #[serde(default)]
    pub basic_auth: Option<BasicAuthConfig>,
    /// An authorization server that decides about each request before it is forwarded:
    /// `{ upstream = "auth", path = "/verify" }`.
    #[serde(default)]
    pub forward_auth: Option<ForwardAuthConfig>,
    /// Whether the route's path is removed from the request path before it is forwarded.
    #[serde(default)]
    pub strip_prefix: bool,
    /// What replaces the route's path in the forwarded request; empty to leave it. With `path_regex`, `{1}` and
    /// `{name}` stand for its groups, and the whole path is replaced.
    #[serde(default)]
    pub rewrite: String,
    /// A timeout shorter than the upstream's.
    #[serde(default)]
    pub timeout: Option<HumanDuration>,
    /// A rate limit of this route, in addition to those in `[gateway.quotas]`: `{ requests = 5, per = "1m" }`. Requests
    /// beyond it are answered 429.
    #[serde(default)]
    pub rate: Option<RouteRateConfig>,
    /// The longest request body, instead of the gateway's limit.
    #[serde(default)]
    pub max_body_bytes: Option<ByteSize>,
    /// Whether responses are long-lived streams, which hold no slot.
    #[serde(default)]
    pub stream: bool,
    /// Protocols that a client may change to, such as `websocket`.
    #[serde(default)]
    pub upgrade: Vec<String>,
    /// Stores and reuses responses, as a shared HTTP cache does: `{ }`, or with settings, such as
    /// `{ grace = "1m" }`.
    #[serde(default)]
    pub cache: Option<RouteCacheConfig>,
    /// Compresses responses for clients that accept it: `{ }` for text of 1 KiB or more, or with settings, such as
    /// `{ types = ["text/*"] }`.
    #[serde(default)]
    pub compress: Option<CompressConfig>,
    /// Lets pages of other sites use the route: `{ allow_origins = ["https://app.example.org"] }`.
    #[serde(default)]
    pub cors: Option<CorsConfig>,
    /// Response fields that make browsers protect their users, unless the server sends them: `off`, `basic` or
    /// `strict`.
    #[serde(default)]
    pub security_headers: SecurityHeaders,
    /// Changes to the header of requests.
    #[serde(default)]
    pub request_headers: HeaderRulesConfig,
    /// Changes to the header of responses.
    #[serde(default)]
    pub response_headers: HeaderRulesConfig,
    /// Sends copies of requests to another upstream, whose responses are dropped: `{ upstream = "next", percent = 10 }`.
    #[serde(default)]
    pub mirror: Option<MirrorConfig>,
    /// Redirects clients: `{ to = "https", status = 308 }`.
    #[serde(default)]
    pub redirect: Option<RedirectConfig>,
    /// Answers every request itself, before credentials and admission: `{ status = 503, body = "Back at noon." }`.
    #[serde(default)]
    pub respond: Option<RespondConfig>,
}

/// An upstream's part of a route's requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SplitConfig {
    /// The upstream's name.
    pub upstream: String,
    /// The upstream's share, relative to the others; 0 for none.
    #[serde(default = "one")]
    pub weight: u16,
}

/// What a header field has to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum HeaderWanted {
    /// One of its values is this.
    Value(String),
    /// Its value matches a regular expression as a whole.
    Matching {
        /// The regular expression.
        regex: String,
    },
    /// Whether it is there at all.
    Present(bool),
}

/// What a claim has to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ClaimWanted {
    /// The claim must have this value.
    One(String),
    /// The claim must have one of these values.
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

/// Which requests need a credential.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Auth {
    /// No request needs a credential.
    #[default]
    None,
    /// Requests with an unsafe method need a credential.
    Mutations,
    /// Every request needs a credential.
    Always,
}

/// What is changed in a header: `remove` first, then `set`, then `add`. Fields that frame a message or concern one
/// connection cannot be changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HeaderRulesConfig {
    /// Fields that are set to this value and replace existing ones.
    pub set: BTreeMap<String, String>,
    /// Fields that are added with this value; existing ones stay.
    pub add: BTreeMap<String, String>,
    /// Fields that are removed.
    pub remove: Vec<String>,
}

/// The redirect of a route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RedirectConfig {
    /// `https` redirects requests without TLS to the same URL over HTTPS. Any other target redirects every request: an
    /// origin such as `https://www.example.org` to the same path and query there; a URL or a path such as
    /// `/new/{rest}{query}` to exactly that target. `{path}` is the path as received, `{rest}` the part after the
    /// route's `path`, `{query}` the query with its `?`, and `{host}` the host without its port. With `path_regex`,
    /// `{1}` and `{name}` stand for its groups.
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
