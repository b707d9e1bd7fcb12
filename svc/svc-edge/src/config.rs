//! The `[edge]` table of the configuration file.

mod allow;
mod cas;
mod fill;
mod ingress;
mod pack;
mod responses;
mod root;
mod site;
mod two_forms;

use std::{collections::BTreeSet, time::Duration};

use ron_kernel::config::{ByteSize, Checks, HumanDuration, Problems, Table};
use ron_transport::{addr::ListenAddr, serve::HttpLimits, tls::settings::TlsConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use allow::{AllowConfig, OriginEtag, OriginScheme};
pub use cas::CasConfig;
pub use fill::{FillConfig, LiveFillRetry, RetryConfig};
pub use ingress::IngressConfig;
pub use pack::{PackConfig, RefusedPacks};
pub use responses::{CacheControlConfig, CorsConfig, EmptyTile, TilesConfig};
pub use root::RootConfig;
pub use site::SiteConfig;

/// More connections than this need `danger_ok`: each may cost 128 KiB at worst, and HTTP/2 ones more.
const SAFE_MAX_CONNS: usize = 65_536;
/// Longer waits for a slow client than this need `danger_ok`.
const SAFE_MAX_WAIT: Duration = Duration::from_secs(60);
/// Longer idleness than this needs `danger_ok`: an idle connection still counts against the caps.
const SAFE_MAX_IDLE: Duration = Duration::from_secs(3600);
/// More than this is a memory for a machine of another kind: needs `danger_ok`.
const SAFE_MAX_RAM: ByteSize = ByteSize::gib(64);
/// More packs than this are not watched every second.
const MAX_PACKS: usize = 1024;
/// More roots than this make every miss slow.
const MAX_ROOTS: usize = 16;

/// Whether the edge may ask origins for what it does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Only what is here is served; no outgoing socket is ever opened.
    #[default]
    Offline,
    /// What is not here is fetched from origins on the list.
    Live,
}

/// The asset and tile server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EdgeConfig {
    /// Whether the edge runs.
    pub enabled: bool,
    /// The listening address: `127.0.0.1:8081`, `[::]:80`, `unix:/run/edge.sock` or `inherit:name`.
    pub listen: ListenAddr,
    /// `offline` serves only what is stored on this node; `live` fetches the rest from the origins in `allow`.
    pub mode: Mode,
    /// Tile packs, PMTiles or MBTiles: `"./packs/world.pmtiles"`, or `{ path = "…", name = "world", b3 = "b3:…" }`.
    /// The default name is the file name without its extension. To replace a pack, rename the new file over the old
    /// one.
    pub packs: Vec<PackConfig>,
    /// Effect of a refused pack on readiness. With `report` it is listed, and the edge is not ready only if all
    /// packs are refused; with `down` the edge is not ready if one is refused.
    pub refused_packs: RefusedPacks,
    /// Folders that are served at `/edge/assets/`; the first that has the file is used: `"./public"`, or
    /// `{ path = "./public", dotfiles = true }`.
    pub roots: Vec<RootConfig>,
    /// Serves the folders as a website at `/`.
    pub site: SiteConfig,
    /// Origins that `live` may contact: `"tiles.example.org"`, or
    /// `{ host = "tiles.example.org", origin_etag = "any" }`.
    pub allow: Vec<AllowConfig>,
    /// The maximum number of connections; further ones are refused. At most a quarter of the files that the process
    /// may open (`ulimit -n`) is used, and a warning is logged if that is less.
    pub max_conns: usize,
    /// The maximum number of connections of one client; 0 means a quarter of `max_conns`. An IPv6 /64 counts as one
    /// client.
    pub max_conns_per_client: usize,
    /// Certificates; empty paths for plain HTTP. Over TLS, browsers are told to use only TLS from then on (HSTS).
    pub tls: TlsConfig,
    /// Timeout for a TLS handshake.
    pub handshake_timeout: HumanDuration,
    /// Timeout for each wait for the client to read more of a response.
    pub write_timeout: HumanDuration,
    /// How long a connection may be idle between two requests.
    pub idle_timeout: HumanDuration,
    /// Limits of one request, and of concurrent requests.
    pub ingress: IngressConfig,
    /// RAM for hot tiles and small files, which are served without disk access.
    pub ram_bytes: ByteSize,
    /// The store of fetched objects.
    pub cas: CasConfig,
    /// Timeout from a miss to the header of the origin's response, including all tries, and the longest pause in its
    /// body; then 504. A body that arrives at 8 KB per second or more on average may take as long as a client wants
    /// it, and then 100 times this timeout, or 10 times if its length is unknown.
    pub fill_timeout: HumanDuration,
    /// Fetching from origins.
    pub fill: FillConfig,
    /// Retries of fetches.
    pub retry: RetryConfig,
    /// Responses to requests for tiles.
    pub tiles: TilesConfig,
    /// `Cache-Control` of responses.
    pub cache_control: CacheControlConfig,
    /// Which sites' pages may read the responses (CORS).
    pub cors: CorsConfig,
}

impl Default for EdgeConfig {
    fn default() -> Self {
        let limits = HttpLimits::default();
        Self {
            enabled: false,
            listen: ListenAddr::Tcp(([127, 0, 0, 1], 8081).into()),
            mode: Mode::default(),
            packs: Vec::new(),
            refused_packs: RefusedPacks::default(),
            roots: Vec::new(),
            site: SiteConfig::default(),
            allow: Vec::new(),
            max_conns: limits.max_conns,
            max_conns_per_client: 0,
            tls: TlsConfig::default(),
            handshake_timeout: limits.handshake_timeout.into(),
            write_timeout: limits.write_timeout.into(),
            idle_timeout: limits.idle_timeout.into(),
            ingress: IngressConfig::default(),
            ram_bytes: ByteSize::mib(128),
            cas: CasConfig::default(),
            fill_timeout: Duration::from_secs(5).into(),
            fill: FillConfig::default(),
            retry: RetryConfig::default(),
            tiles: TilesConfig::default(),
            cache_control: CacheControlConfig::default(),
            cors: CorsConfig::default(),
        }
    }
}

impl Table for EdgeConfig {
    const NAME: &'static str = "edge";
    const RESTART: &'static [&'static str] =
        &["enabled", "mode", "ram_bytes", "cas", "fill.workers", "fill.max_entries", "fill.inflight_bytes"];

    fn check(&self, checks: &Checks, problems: &mut Problems) {
        let danger_ok = checks.danger_ok();
        self.check_conns(danger_ok, problems);
        self.check_waits(danger_ok, problems);
        self.tls.check(problems);
        self.check_packs(problems);
        self.check_roots(problems);
        self.site.check(!self.roots.is_empty(), problems);
        allow::check_all(&self.allow, problems);
        if self.mode == Mode::Offline && !self.allow.is_empty() {
            problems.warn("allow", "is not used, because mode = \"offline\" asks no origin");
        }
        problems.guard("ram_bytes", self.ram_bytes, SAFE_MAX_RAM, danger_ok);
        self.ingress.check(danger_ok, problems);
        self.cas.check(danger_ok, problems);
        self.fill.check(danger_ok, problems);
        self.retry.check(problems);
        self.tiles.check(problems);
        self.cache_control.check(problems);
        self.cors.check(problems);
    }
}

impl EdgeConfig {
    fn check_conns(&self, danger_ok: bool, problems: &mut Problems) {
        if self.max_conns == 0 {
            problems.at("max_conns", "must be at least 1");
        }
        problems.guard("max_conns", self.max_conns, SAFE_MAX_CONNS, danger_ok);
        if self.max_conns_per_client > self.max_conns {
            let message =
                format!("one client cannot have more than `max_conns`, which is {}", self.max_conns);
            problems.at("max_conns_per_client", message);
        }
    }

    fn check_waits(&self, danger_ok: bool, problems: &mut Problems) {
        for (key, value, safe_max) in [
            ("handshake_timeout", self.handshake_timeout, SAFE_MAX_WAIT),
            ("write_timeout", self.write_timeout, SAFE_MAX_WAIT),
            ("idle_timeout", self.idle_timeout, SAFE_MAX_IDLE),
            ("fill_timeout", self.fill_timeout, SAFE_MAX_WAIT),
        ] {
            if value.as_duration().is_zero() {
                problems.at(key, "must be longer than nothing");
            }
            problems.guard(key, value, safe_max.into(), danger_ok);
        }
        let park_after = HumanDuration::from(HttpLimits::default().park_after);
        if self.idle_timeout <= park_after && !self.idle_timeout.as_duration().is_zero() {
            problems.at("idle_timeout", format!("must be longer than {park_after}"));
        }
    }

    fn check_packs(&self, problems: &mut Problems) {
        if self.packs.len() > MAX_PACKS {
            problems.at("packs", format!("names {} packs, more than {MAX_PACKS}", self.packs.len()));
        }
        let (mut names, mut files) = (BTreeSet::new(), BTreeSet::new());
        for (index, pack) in self.packs.iter().enumerate() {
            let at = format!("packs.{index}");
            pack.check(&at, problems);
            let name = pack.name();
            if !name.is_empty() && !names.insert(name.clone()) {
                problems
                    .at(at, format!("two packs are named `{name}`"))
                    .help("give one another name: { path = \"…\", name = \"…\" }");
            } else if let Some(file) = pack.path.file_name().filter(|file| !files.insert(*file)) {
                // Whole packs are served under the names of their files.
                problems
                    .at(at, format!("two packs have a file that is called `{}`", file.display()))
                    .help("give one of the files another name, or a link that has one");
            }
        }
    }

    fn check_roots(&self, problems: &mut Problems) {
        if self.roots.len() > MAX_ROOTS {
            problems.at("roots", format!("names {} folders, more than {MAX_ROOTS}", self.roots.len()));
        }
        for (index, root) in self.roots.iter().enumerate() {
            root.check(&format!("roots.{index}"), problems);
        }
    }

    /// The limits of the listener.
    #[must_use]
    pub fn limits(&self) -> HttpLimits {
        let per_client = match self.max_conns_per_client {
            0 => self.max_conns.div_ceil(4),
            n => n,
        };
        HttpLimits {
            max_conns: self.max_conns,
            max_conns_per_client: per_client,
            handshake_timeout: self.handshake_timeout.as_duration(),
            read_timeout: self.ingress.timeout(),
            write_timeout: self.write_timeout.as_duration(),
            idle_timeout: self.idle_timeout.as_duration(),
            ..HttpLimits::default()
        }
    }
}
