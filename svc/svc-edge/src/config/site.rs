//! The `[edge.site]` table: the folders as a website.

use ron_kernel::config::Problems;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The folders of `roots` as a website at `/`, beside `/edge/`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SiteConfig {
    /// Whether the files of `roots` are also served at `/`.
    pub enabled: bool,
    /// Whether `/about` serves `about.html` if there is no file `about`.
    pub clean_urls: bool,
    /// The file that is sent with status 200 for pages that do not exist, such as `index.html` for a single-page
    /// application; empty for none. Paths whose last segment has a dot are files, not pages.
    pub fallback: String,
    /// The file that is sent with status 404 for paths that do not exist, if there is such a file of up to 1 MiB;
    /// empty for none.
    pub not_found: String,
}

impl Default for SiteConfig {
    fn default() -> Self {
        Self { enabled: false, clean_urls: true, fallback: String::new(), not_found: "404.html".to_owned() }
    }
}

impl SiteConfig {
    pub(super) fn check(&self, has_roots: bool, problems: &mut Problems) {
        if self.enabled && !has_roots {
            problems.warn("site.enabled", "serves nothing, because `roots` names no folder");
        }
        for (key, file) in [("site.fallback", &self.fallback), ("site.not_found", &self.not_found)] {
            let leads_elsewhere =
                file.split('/').any(|segment| matches!(segment, "." | "..")) || file.contains(['\\', '\0']);
            if file.starts_with('/') || file.ends_with('/') || leads_elsewhere {
                problems
                    .at(key, format!("`{file}` is not a file below the folders"))
                    .help("write its path in the folder, such as index.html or errors/404.html");
            }
        }
    }
}
