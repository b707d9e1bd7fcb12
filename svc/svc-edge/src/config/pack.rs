//! One tile pack, written as text or as a table.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

use ron_kernel::config::{PathSetting, Problems};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::two_forms::{TwoForms, two_forms};

/// A longer name is not one to write in a URL.
const NAME_MAX: usize = 63;

/// What a pack that is refused does to the readiness of the edge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RefusedPacks {
    /// It is listed. The edge is not ready only when all packs are refused.
    #[default]
    Report,
    /// The edge is not ready as long as one is refused.
    Down,
}

/// The longer way to write it.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    /// The file: PMTiles v3 or MBTiles.
    #[schemars(with = "PathSetting")]
    path: PathBuf,
    /// The pack's name in URLs; empty for the file name without its extension.
    #[serde(default)]
    name: String,
    /// The expected BLAKE3 hash of the file, `b3:` and 64 hex digits; empty to trust the file as it is at mount.
    #[serde(default)]
    b3: String,
    /// PEM file with the Ed25519 public key that must have signed the pack; the signature is in a file of the same
    /// name with `.sig` appended. Empty for none.
    #[serde(default)]
    #[schemars(with = "PathSetting")]
    signed_by: PathBuf,
}

/// One tile pack: `"./packs/world.pmtiles"`, or `{ path = "./packs/world.pmtiles", name = "world" }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackConfig {
    /// The path of the pack's file.
    pub path: PathBuf,
    name: String,
    /// What its bytes must hash to; empty to trust the file as it is found at mount.
    pub b3: String,
    /// The public key that must have signed it; empty for none.
    pub signed_by: PathBuf,
}

impl PackConfig {
    /// The pack in the file at `path`, by the file's name.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path, name: String::new(), b3: String::new(), signed_by: PathBuf::new() }
    }

    /// Returns the pack's name in URLs.
    #[must_use]
    pub fn name(&self) -> String {
        if self.name.is_empty() { stem(&self.path) } else { self.name.clone() }
    }

    pub(super) fn check(&self, at: &str, problems: &mut Problems) {
        if self.path.as_os_str().is_empty() {
            problems.at(at, "must name a file");
            return;
        }
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let name = self.name();
        if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(fits) {
            let help = format!(
                "give it one of 1 to {NAME_MAX} letters, digits, dashes and underscores: {{ path = \"…\", name = \"…\" }}"
            );
            problems.at(at, format!("`{name}` cannot name a pack in a URL")).help(help);
        }
        let is_hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        let is_id = self.b3.strip_prefix("b3:").is_some_and(|hex| hex.len() == 64 && hex.chars().all(is_hex));
        if !self.b3.is_empty() && !is_id {
            problems
                .at(format!("{at}.b3"), format!("`{}` is not a content id", self.b3))
                .help("write b3: and 64 hex digits, as `omnigate pack inspect` shows it");
        }
    }
}

/// A file's name without its ending.
fn stem(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

impl TwoForms for PackConfig {
    type Table = Table;

    const IS_PATH: bool = true;

    const EXPECTED: &'static str = "a file such as \"./packs/world.pmtiles\", or a table with `path`";

    fn text(&self) -> Cow<'_, str> {
        self.path.to_string_lossy()
    }
}

impl From<String> for PackConfig {
    fn from(path: String) -> Self {
        Self::new(path.into())
    }
}

impl From<Table> for PackConfig {
    fn from(Table { path, name, b3, signed_by }: Table) -> Self {
        Self { path, name, b3, signed_by }
    }
}

impl From<PackConfig> for Table {
    fn from(PackConfig { path, name, b3, signed_by }: PackConfig) -> Self {
        Self { path, name, b3, signed_by }
    }
}

two_forms!(PackConfig);
