//! Two tables with every kind of field, and short ways to load them.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use ron_kernel::config::{
    ByteSize, Checks, HumanDuration, Loader, Problems, Report, Schema, Secret, Snapshot, Sources, Table,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the node as a whole does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Node {
    /// The name shown to people.
    pub name: String,
    /// Lets protecting limits pass their safe maximum.
    pub danger_ok: bool,
}

impl Table for Node {
    const NAME: &'static str = "node";
    const RESTART: &'static [&'static str] = &["name"];

    fn check(&self, _: &Checks, problems: &mut Problems) {
        if self.name.contains(' ') {
            problems.warn("name", "a name with spaces is hard to type");
        }
    }
}

/// The front door.
///
/// It has two paragraphs | and a bar.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Gateway {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Most connections at once.
    pub max_conns: u32,
    /// How long a read may take.
    pub read_timeout: HumanDuration,
    /// How lines are written.
    pub format: Format,
    /// A share of one.
    pub share: f64,
    /// Names to greet.
    pub greet: Vec<String>,
    /// Weights by class.
    pub weights: BTreeMap<String, u16>,
    /// What outsiders must know.
    pub admin_token: Secret,
    /// A banner, if any.
    pub banner: Option<String>,
    /// Encryption, if any.
    pub tls: Option<Tls>,
    /// What a request may cost.
    pub limits: Limits,
    /// Where the records go.
    pub store: Store,
    /// Which path goes where.
    pub route: Vec<Route>,
    /// Who answers.
    pub upstream: BTreeMap<String, Upstream>,
}

impl Default for Gateway {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            max_conns: 1024,
            read_timeout: HumanDuration::from_secs(5),
            format: Format::Text,
            share: 0.5,
            greet: vec!["you".into(), "all".into()],
            weights: BTreeMap::from([("anon".into(), 1), ("authed".into(), 5)]),
            admin_token: Secret::new("default-secret"),
            banner: None,
            tls: None,
            // Not the type's own default: a partial table in the file must keep it.
            limits: Limits { decode_ratio_max: 7, ..Limits::default() },
            store: Store::Memory { entries: 16 },
            route: Vec::new(),
            upstream: BTreeMap::new(),
        }
    }
}

/// How lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Format {
    Text,
    Json,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Tls {
    /// The certificate.
    pub cert: String,
    /// The key's passphrase.
    pub passphrase: Secret,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Limits {
    /// The largest body.
    pub max_body_bytes: ByteSize,
    /// Most bytes out per byte in.
    pub decode_ratio_max: u8,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_body_bytes: ByteSize::mib(1), decode_ratio_max: 10 }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Store {
    Memory { entries: u32 },
    Remote { url: String, password: Secret },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Route {
    /// The prefix.
    pub path: String,
    pub upstream: String,
    #[serde(default)]
    pub strip: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Upstream {
    pub endpoints: Vec<Endpoint>,
    pub timeout: HumanDuration,
    pub keys: Vec<Secret>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Endpoint {
    Url(String),
    Weighted { url: String, weight: u32 },
}

impl Table for Gateway {
    const NAME: &'static str = "gateway";
    const RESTART: &'static [&'static str] = &["listen", "limits"];

    fn check(&self, checks: &Checks, problems: &mut Problems) {
        problems.guard("max_conns", self.max_conns, 10_000, checks.danger_ok());
        problems.guard(
            "limits.max_body_bytes",
            self.limits.max_body_bytes,
            ByteSize::mib(64),
            checks.danger_ok(),
        );
        problems.guard("read_timeout", self.read_timeout, HumanDuration::from_secs(60), checks.danger_ok());
        for (index, route) in self.route.iter().enumerate() {
            if !self.upstream.contains_key(&route.upstream) {
                let message = format!("there is no upstream `{}`", route.upstream);
                problems
                    .at(format!("route[{index}].upstream"), message)
                    .help("add it under `[gateway.upstream]`");
            }
        }
    }
}

pub(crate) fn schema() -> Schema {
    Schema::new().table::<Node>().table::<Gateway>()
}

/// Loads from all layers.
pub(crate) fn load(file: &str, env: &[(&str, &str)], flags: &[(&str, &str)]) -> Result<Snapshot, Report> {
    let owned = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
    let file = Some(("omnigate.toml".into(), file.to_owned()));
    let sources = Sources { file, env: owned(env), flags: owned(flags), ..Sources::default() };
    Loader::new(schema(), "OMNIGATE_").ignoring(["OMNIGATE_CONFIG"]).load(sources)
}

/// Loads a file that is right.
pub(crate) fn good(file: &str) -> Snapshot {
    load(file, &[], &[]).unwrap_or_else(|report| panic!("refused:\n{report}"))
}

/// Renders what is wrong with a file.
pub(crate) fn bad(file: &str) -> String {
    load(file, &[], &[]).expect_err("the file should be refused").render(false)
}
