//! The `[gateway.view.<name>]` tables: answers that are put together from several upstreams.

use std::{borrow::Cow, collections::BTreeMap, fmt, str::FromStr, time::Duration};

use http::uri::PathAndQuery;
use ron_kernel::config::{HumanDuration, Problems};
use ron_transport::proxy_protocol::TrustedSource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::{Auth, ClaimWanted, UpstreamConfig, route::check_upstream};
use crate::views;

/// Most parts of one view: each is a request of its own upstream.
pub(crate) const MAX_PARTS: usize = 16;
/// The longest name of a view or a part.
const MAX_NAME: usize = 64;
/// Longer budgets than this need `danger_ok`: a client waits for the slowest part.
const SAFE_MAX_BUDGET: Duration = Duration::from_secs(60);

/// One answer made of several: `GET /v1/views/<name>`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ViewConfig {
    /// Which requests need a credential: `none`, `mutations` (no request, because a view is read-only) or `always`.
    pub auth: Auth,
    /// Only clients with these addresses and networks are allowed; see `route[].allow_from`.
    pub allow_from: Vec<TrustedSource>,
    /// Clients with these addresses and networks are answered 403; see `route[].deny_from`.
    pub deny_from: Vec<TrustedSource>,
    /// Claims that the JWT must have; see `route[].require_claims`.
    pub require_claims: BTreeMap<String, ClaimWanted>,
    /// The parts of the view, which are fetched in parallel; 16 at most.
    pub parts: Vec<PartConfig>,
}

/// A part of a view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PartConfig {
    /// The part's key in the response: letters, digits, `-` and `_`; it must not begin with `_`.
    pub name: String,
    /// The upstream that the part is fetched from.
    pub upstream: String,
    /// The path that is requested. A path with a query is used as it is; a path without one gets the client's
    /// query.
    pub path: PartPath,
    /// Timeout of the part, within the timeout of the whole request.
    #[serde(default = "default_budget")]
    pub budget: HumanDuration,
    /// Whether the view succeeds without this part: a missing part is then `null` and listed in `_partial`.
    #[serde(default)]
    pub optional: bool,
}

/// The path of a part, perhaps with a query.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PartPath(PathAndQuery);

/// The text is no path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no path: begin with `/`, and leave `#` and spaces out")]
pub struct NoPath(String);

impl PartPath {
    /// The path and its query.
    #[must_use]
    pub const fn as_path_and_query(&self) -> &PathAndQuery {
        &self.0
    }
}

impl FromStr for PartPath {
    type Err = NoPath;

    fn from_str(text: &str) -> Result<Self, NoPath> {
        let no_path = || NoPath(text.to_owned());
        // The library would cut a fragment off in silence.
        if !text.starts_with('/') || text.contains('#') {
            return Err(no_path());
        }
        text.parse().map(Self).map_err(|_| no_path())
    }
}

impl TryFrom<String> for PartPath {
    type Error = NoPath;

    fn try_from(text: String) -> Result<Self, NoPath> {
        text.parse()
    }
}

impl From<PartPath> for String {
    fn from(path: PartPath) -> Self {
        path.to_string()
    }
}

impl fmt::Display for PartPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl JsonSchema for PartPath {
    fn schema_name() -> Cow<'static, str> {
        "PartPath".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^/[^#\\s]*$" })
    }
}

fn default_budget() -> HumanDuration {
    Duration::from_secs(1).into()
}

/// Tells what is wrong with `views`, whose parts come from `upstreams`.
pub(super) fn check_views(
    views: &BTreeMap<String, ViewConfig>,
    upstreams: &BTreeMap<String, UpstreamConfig>,
    danger_ok: bool,
    problems: &mut Problems,
) {
    for (name, view) in views {
        let at = format!("view.{name}");
        if !is_name(name) {
            problems.at(&*at, format!("a view's name is 1 to {MAX_NAME} letters, digits, `-` and `_`"));
        }
        for flaw in views::route(name, view).check_access() {
            problems.at(format!("{at}.{}", flaw.key), flaw.message);
        }
        if view.parts.is_empty() {
            problems.at(&*at, "must have at least one part");
        }
        if view.parts.len() > MAX_PARTS {
            let count = view.parts.len();
            problems.at(format!("{at}.parts"), format!("{count} parts are more than {MAX_PARTS}"));
        }
        for (index, part) in view.parts.iter().enumerate() {
            let at = |key: &str| format!("{at}.parts[{index}].{key}");
            check_upstream(&part.upstream, upstreams, at("upstream"), problems);
            if view.parts[..index].iter().any(|earlier| earlier.name == part.name) {
                problems.at(at("name"), format!("there are two parts `{}`", part.name));
            }
            part.check(at, danger_ok, problems);
        }
    }
}

impl PartConfig {
    fn check(&self, at: impl Fn(&str) -> String, danger_ok: bool, problems: &mut Problems) {
        if !is_name(&self.name) {
            problems.at(at("name"), format!("must be 1 to {MAX_NAME} letters, digits, `-` and `_`"));
        } else if self.name.starts_with('_') {
            problems.at(at("name"), "must not begin with `_`, which is for what the gateway adds");
        }
        if self.budget.as_duration().is_zero() {
            problems.at(at("budget"), "must be longer than nothing");
        }
        problems.guard(&at("budget"), self.budget, SAFE_MAX_BUDGET.into(), danger_ok);
    }
}

fn is_name(name: &str) -> bool {
    let fits = (1..=MAX_NAME).contains(&name.len());
    fits && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}
