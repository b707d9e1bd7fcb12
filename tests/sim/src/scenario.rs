//! What is simulated: scenarios as they are written in TOML, with their defaults.

use std::time::Duration;

use gossip::Settings;
use serde::Deserialize;

/// The scenarios of a file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenarios {
    /// Each with a name of its own.
    pub scenario: Vec<Scenario>,
}

/// A network, what is published in it, and what goes wrong.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scenario {
    /// What it is called on the command line.
    pub name: String,
    /// How many seeds the suite tries; the full proof tries ten times as many.
    pub seeds: u64,
    /// Nodes of the network.
    pub nodes: usize,
    /// Links of each node, in a random connected regular graph.
    pub degree: usize,
    /// How many nodes publish.
    pub senders: usize,
    /// How many publications there are, after those that form the tree.
    pub messages: usize,
    /// How many publications come before, to form the tree; they count for everything but redundancy and hops.
    pub warm_up: usize,
    /// Bytes of a body.
    pub body: usize,
    /// Time between two publications, in milliseconds.
    pub interval_ms: u64,
    /// Publications that come at once.
    pub burst: usize,
    /// A link's latency is between these, in milliseconds.
    pub latency_ms: (u64, u64),
    /// The part of all frames that vanish, of any kind.
    pub loss: f64,
    /// How many times some link breaks and comes back.
    pub resets: usize,
    /// How many times the network falls into two parts for a while.
    pub partitions: usize,
    /// The longest time the network stays in two parts, in milliseconds.
    pub partition_ms: u64,
    /// How many nodes crash for good.
    pub crashes: usize,
    /// How many nodes crash and come back, having forgotten everything.
    pub restarts: usize,
    /// How many nodes read slowly.
    pub slow: usize,
    /// How long a slow node takes for a frame, in milliseconds.
    pub slow_ms: u64,
    /// Publications kept by each node.
    pub cache: usize,
    /// How many numbers of a publisher each node tells apart.
    pub window: Option<usize>,
    /// How many publications of one publisher each node asks for at once.
    pub pull_batch: Option<usize>,
    /// How long a missing publication is looked for, in milliseconds.
    pub patience_ms: u64,
    /// From so many links on copies are forgiven.
    pub forgive_hops: Option<u8>,
    /// One frame in so many is really encoded and decoded.
    pub encode_every: u64,
    /// What the suite holds the scenario to, besides its accounts.
    pub bounds: Bounds,
}

/// What a scenario without faults has to keep.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Bounds {
    /// Everything is delivered everywhere.
    pub all_delivered: bool,
    /// Everything that was accepted is delivered everywhere, whatever went wrong meanwhile: nothing is only named.
    pub no_gaps: bool,
    /// The most copies received beyond the first, per delivery.
    pub redundancy: Option<f64>,
    /// The most links that the last delivery of a publication came over, in the mean over publications.
    pub hops: Option<f64>,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            name: String::new(),
            seeds: 1,
            nodes: 20,
            degree: 5,
            senders: 1,
            messages: 40,
            warm_up: 10,
            body: 64,
            interval_ms: 100,
            burst: 1,
            latency_ms: (5, 50),
            loss: 0.0,
            resets: 0,
            partitions: 0,
            partition_ms: 8000,
            crashes: 0,
            restarts: 0,
            slow: 0,
            slow_ms: 30,
            cache: 8192,
            window: None,
            pull_batch: None,
            patience_ms: 4000,
            forgive_hops: None,
            encode_every: 1,
            bounds: Bounds::default(),
        }
    }
}

impl Scenario {
    /// When the last publication is due.
    #[must_use]
    pub fn publishing_time(&self) -> Duration {
        let rounds = (self.messages + self.warm_up).div_ceil(self.burst.max(1));
        Duration::from_millis(self.interval_ms) * u32::try_from(rounds).unwrap_or(u32::MAX)
    }

    /// The engine's settings: those of the product, but for what the scenario narrows.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let product = Settings::default();
        Settings {
            cache_messages: self.cache,
            dedupe_window: self.window.unwrap_or(product.dedupe_window),
            history: self.window.map_or(product.history, |window| product.history.min(window as u64 / 4)),
            pull_batch: self.pull_batch.unwrap_or(product.pull_batch),
            patience: Duration::from_millis(self.patience_ms),
            forgive_hops: self.forgive_hops.unwrap_or(product.forgive_hops),
            ..product
        }
    }
}

/// The scenarios of the suite.
///
/// # Panics
/// If the file is not what it should be.
#[must_use]
pub fn suite() -> Vec<Scenario> {
    read(include_str!("../scenarios/suite.toml")).expect("the suite's own file")
}

/// The scenarios of a file's text.
///
/// # Errors
/// What is wrong with it.
pub fn read(text: &str) -> Result<Vec<Scenario>, toml::de::Error> {
    toml::from_str(text).map(|scenarios: Scenarios| scenarios.scenario)
}
