//! The `[rewarder]` table of the configuration file.

mod limits;

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use rewards::{PolicyId, PublicKey};
use ron_accounting::{NodeId, Windows};
use ron_kernel::config::{Checks, HumanDuration, PathSetting, Problems, Table};
use ron_ledger::AccountId;
use ron_transport::{addr::ListenAddr, serve::HttpLimits, tls::settings::TlsConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use limits::{ConcurrencyConfig, LimitsConfig};

/// More connections than this need `danger_ok`: each may cost 128 KiB at worst.
const SAFE_MAX_CONNS: usize = 65_536;
/// Longer waits than this need `danger_ok`.
const SAFE_MAX_WAIT: Duration = Duration::from_secs(60);
/// Longer idleness than this needs `danger_ok`.
const SAFE_MAX_IDLE: Duration = Duration::from_secs(3600);
/// Longer epochs than this need `danger_ok`: what is wrong with one is noticed when it ends.
const SAFE_MAX_EPOCH: Duration = Duration::from_secs(31 * 24 * 3600);
/// More nodes, keys and files than this are not listed by hand.
const MAX_LISTED: usize = 1024;
/// More actors in one epoch need `danger_ok`: each takes about 500 bytes while the epoch is open.
const SAFE_MAX_ACTORS: usize = 1_000_000;

/// Accounting and rewards: usage is recorded by epoch, sealed, turned into payouts that anyone can verify, and paid
/// exactly once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RewarderConfig {
    /// Whether the rewarder runs.
    pub enabled: bool,
    /// The listening address: `127.0.0.1:8082`, `unix:/run/rewarder.sock` or `inherit:name`. Addresses other than
    /// loopback need `auth.root_keys`.
    pub listen: ListenAddr,
    /// The length of an epoch; at least 1s. The epoch length of existing data cannot be changed.
    pub epoch_duration: HumanDuration,
    /// Tolerated difference between the clocks of nodes: an epoch is closed this long after its end.
    pub max_epoch_skew: HumanDuration,
    /// How long after its end an epoch is still closed automatically. An older epoch is closed automatically only if
    /// it is later than the latest closed one. Otherwise its snapshots are listed and wait for
    /// `omnigate epoch compute`, so that no node can cause payments for past epochs in which nobody reported usage.
    pub max_epoch_age: HumanDuration,
    /// Whether epochs are closed, computed and paid automatically when they end. Otherwise use
    /// `POST /rewarder/epochs/{id}/compute`.
    pub automatic: bool,
    /// The id of the policy for payouts. An epoch uses the newest version at the time it is closed that applies to it and
    /// that one of `policy_keys` has signed.
    pub policy: String,
    /// Files with signed policies, read at startup and at each reload. `omnigate policy sign` writes one.
    #[schemars(with = "Vec<PathSetting>")]
    pub policy_files: Vec<PathBuf>,
    /// Public keys whose signatures on policies are accepted: `"ed25519:"` and 64 hexadecimal digits each.
    pub policy_keys: Vec<String>,
    /// The ids of nodes whose snapshots count, `"b3:…"` each; empty for this node only.
    pub accounting_nodes: Vec<String>,
    /// The node's key in PKCS#8 PEM, mode 0600; empty for `node.key` in `node.data_dir`, which is created if it
    /// does not exist. With `node.amnesia` and no path, the key lasts as long as the process.
    #[schemars(with = "PathSetting")]
    pub node_key: PathBuf,
    /// The folder for the files of epochs (`run.json` and the others); empty for `rewards` in `node.data_dir`. With
    /// `node.amnesia` they are kept in RAM.
    #[schemars(with = "PathSetting")]
    pub artifact_dir: PathBuf,
    /// The ledger account that payouts are paid from. An actor's account is `actor/` followed by its name.
    pub pool_account: String,
    /// The number of latest epochs whose files and rows are kept; 0 for all. Epochs without usage do not count, and
    /// an epoch that was settled within the time of that many epochs is kept too. Older epochs are retired: their
    /// files are removed, and requests for them are answered 410 `gone`.
    pub retain_epochs: u64,
    /// The address of copies of retired epochs, which is part of the answer to requests for such an epoch: a URL with
    /// `{epoch}` for the number, such as `https://archive.example/rewards/{epoch}/`; empty if there are none.
    pub archive_url: String,
    /// The maximum number of actors counted by name in one epoch of this node: this many consumers and this many
    /// providers. The rest is counted as `other`.
    pub max_actors: usize,
    /// The maximum number of connections; further ones are refused. At most a quarter of the files that the process
    /// may open is used.
    pub max_conns: usize,
    /// Certificates; empty paths for plain HTTP.
    pub tls: TlsConfig,
    /// Timeout for a request's header, for each wait for more of its body, and for each call to the ledger or the
    /// store.
    pub read_timeout: HumanDuration,
    /// Timeout for each wait for the client to read more of a response.
    pub write_timeout: HumanDuration,
    /// How long a connection may be idle between two requests.
    pub idle_timeout: HumanDuration,
    /// Limits of concurrent work.
    pub concurrency: ConcurrencyConfig,
    /// Limits of a request.
    pub limits: LimitsConfig,
}

impl Default for RewarderConfig {
    fn default() -> Self {
        let limits = HttpLimits::default();
        Self {
            enabled: false,
            listen: ListenAddr::Tcp(([127, 0, 0, 1], 8082).into()),
            epoch_duration: HumanDuration::from_secs(3600),
            max_epoch_skew: HumanDuration::from_secs(120),
            max_epoch_age: HumanDuration::from_secs(24 * 3600),
            automatic: true,
            policy: "default".to_owned(),
            policy_files: Vec::new(),
            policy_keys: Vec::new(),
            accounting_nodes: Vec::new(),
            node_key: PathBuf::new(),
            artifact_dir: PathBuf::new(),
            pool_account: "pool/rewards".to_owned(),
            retain_epochs: 0,
            archive_url: String::new(),
            max_actors: 100_000,
            max_conns: 256,
            tls: TlsConfig::default(),
            read_timeout: limits.read_timeout.into(),
            write_timeout: limits.write_timeout.into(),
            idle_timeout: limits.idle_timeout.into(),
            concurrency: ConcurrencyConfig::default(),
            limits: LimitsConfig::default(),
        }
    }
}

impl Table for RewarderConfig {
    const NAME: &'static str = "rewarder";
    const RESTART: &'static [&'static str] = &[
        "enabled",
        "epoch_duration",
        "max_epoch_skew",
        "node_key",
        "artifact_dir",
        "max_actors",
        "concurrency.compute_workers",
    ];

    fn check(&self, checks: &Checks, problems: &mut Problems) {
        let danger_ok = checks.danger_ok();
        self.check_epochs(danger_ok, problems);
        self.check_waits(danger_ok, problems);
        self.check_policy(problems);
        self.check_nodes(problems);
        self.check_account(problems);
        self.check_archive(problems);
        self.tls.check(problems);
        if self.max_conns == 0 {
            problems.at("max_conns", "must be at least 1");
        }
        problems.guard("max_conns", self.max_conns, SAFE_MAX_CONNS, danger_ok);
        if self.max_actors == 0 {
            problems.at("max_actors", "must be at least 1");
        }
        problems.guard("max_actors", self.max_actors, SAFE_MAX_ACTORS, danger_ok);
        self.concurrency.check(danger_ok, problems);
        self.limits.check(danger_ok, problems);
    }
}

impl RewarderConfig {
    fn check_epochs(&self, danger_ok: bool, problems: &mut Problems) {
        let (duration, skew) = (self.epoch_duration, self.max_epoch_skew);
        if duration.as_duration() < Windows::SHORTEST {
            problems.at("epoch_duration", "must be at least 1s");
        }
        problems.guard("epoch_duration", duration, SAFE_MAX_EPOCH.into(), danger_ok);
        if skew > duration {
            let message = format!("{skew} is longer than an epoch, which is {duration}");
            problems.at("max_epoch_skew", message).help("use a fraction of an epoch");
        }
    }

    fn check_waits(&self, danger_ok: bool, problems: &mut Problems) {
        for (key, value, safe_max) in [
            ("read_timeout", self.read_timeout, SAFE_MAX_WAIT),
            ("write_timeout", self.write_timeout, SAFE_MAX_WAIT),
            ("idle_timeout", self.idle_timeout, SAFE_MAX_IDLE),
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

    fn check_policy(&self, problems: &mut Problems) {
        if let Err(wrong) = PolicyId::new(&self.policy) {
            problems.at("policy", wrong.to_string());
        }
        for (index, key) in self.policy_keys.iter().enumerate() {
            if let Err(wrong) = key.parse::<PublicKey>() {
                problems.at(format!("policy_keys.{index}"), wrong.to_string());
            }
        }
        if self.policy_keys.is_empty() && !self.policy_files.is_empty() {
            problems.at("policy_files", "cannot be verified: no `policy_keys` are listed").help(
                "list the public keys that may sign policies; `omnigate policy keygen` creates a key pair",
            );
        }
        for (key, count) in
            [("policy_files", self.policy_files.len()), ("policy_keys", self.policy_keys.len())]
        {
            if count > MAX_LISTED {
                problems.at(key, format!("lists {count}, more than {MAX_LISTED}"));
            }
        }
    }

    fn check_account(&self, problems: &mut Problems) {
        if let Err(wrong) = AccountId::new(&self.pool_account) {
            problems.at("pool_account", wrong.to_string());
        }
    }

    fn check_archive(&self, problems: &mut Problems) {
        let url = &self.archive_url;
        let of_an_epoch = url.replace("{epoch}", "0");
        let is_address = of_an_epoch.parse::<http::Uri>().is_ok_and(|uri| uri.scheme().is_some());
        let is_good = url.is_empty() || is_address && of_an_epoch != *url;
        if !is_good {
            problems.at("archive_url", "is not a URL with `{epoch}` in it");
        }
    }

    fn check_nodes(&self, problems: &mut Problems) {
        if self.accounting_nodes.len() > MAX_LISTED {
            let message = format!("lists {}, more than {MAX_LISTED}", self.accounting_nodes.len());
            problems.at("accounting_nodes", message);
        }
        let mut seen = BTreeSet::new();
        for (index, node) in self.accounting_nodes.iter().enumerate() {
            let at = format!("accounting_nodes.{index}");
            match node.parse::<NodeId>() {
                Err(_) => {
                    problems.at(at, "is not a node id: write `b3:` and 64 lower-case hexadecimal digits");
                }
                Ok(id) if !seen.insert(id) => {
                    problems.at(at, "is listed twice");
                }
                Ok(_) => {}
            }
        }
    }

    /// Returns the windows of the epochs.
    #[must_use]
    pub fn windows(&self) -> Windows {
        Windows::new(self.epoch_duration.as_duration(), self.max_epoch_skew.as_duration())
    }

    /// The limits of the listener.
    #[must_use]
    pub fn http_limits(&self) -> HttpLimits {
        HttpLimits {
            max_conns: self.max_conns,
            max_conns_per_client: self.max_conns.div_ceil(4),
            read_timeout: self.read_timeout.as_duration(),
            write_timeout: self.write_timeout.as_duration(),
            idle_timeout: self.idle_timeout.as_duration(),
            ..HttpLimits::default()
        }
    }

    /// Whether the table asks for a listener that other machines reach.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(&self.listen, ListenAddr::Tcp(addr) if !addr.ip().to_canonical().is_loopback())
    }
}
