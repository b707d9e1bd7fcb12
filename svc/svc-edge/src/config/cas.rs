//! The `[edge.cas]` table: where filled objects are kept.

use std::path::{Path, PathBuf};

use ron_kernel::config::{ByteSize, Problems};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A larger RAM tier than this needs `danger_ok`.
const SAFE_MAX_RAM: ByteSize = ByteSize::gib(64);
/// What a store of files is written as.
const FILE_SCHEME: &str = "file:";

/// The store of fetched objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CasConfig {
    /// `file:` and a folder; empty for `cas` in `node.data_dir`. With `node.amnesia` nothing is written to disk,
    /// and objects are only in `ram_bytes`.
    #[schemars(extend("x-path" = ["file:"]))]
    pub url: String,
    /// The maximum size of the folder; the least recently used objects are evicted.
    pub max_bytes: ByteSize,
    /// RAM for hot objects, which are served without disk access.
    pub ram_bytes: ByteSize,
}

impl Default for CasConfig {
    fn default() -> Self {
        Self { url: String::new(), max_bytes: ByteSize::gib(10), ram_bytes: ByteSize::mib(256) }
    }
}

impl CasConfig {
    pub(super) fn check(&self, danger_ok: bool, problems: &mut Problems) {
        let folder = self.url.strip_prefix(FILE_SCHEME).unwrap_or(&self.url);
        if !self.url.is_empty() && (folder.is_empty() || folder.len() == self.url.len()) {
            problems
                .at("cas.url", format!("`{}` is not a store", self.url))
                .help("write file: and a folder, such as file:./data/cas");
        }
        if self.max_bytes.as_u64() == 0 {
            problems.at("cas.max_bytes", "must be at least 1");
        }
        problems.guard("cas.ram_bytes", self.ram_bytes, SAFE_MAX_RAM, danger_ok);
    }

    /// The folder of the store on a node whose data is in `data_dir`.
    #[must_use]
    pub fn folder(&self, data_dir: &Path) -> PathBuf {
        match self.url.strip_prefix(FILE_SCHEME) {
            Some(folder) => folder.into(),
            None => data_dir.join("cas"),
        }
    }
}
