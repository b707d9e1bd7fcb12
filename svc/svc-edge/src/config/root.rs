//! One folder of static files, written as text or as a table.

use std::{borrow::Cow, path::PathBuf};

use ron_kernel::config::{PathSetting, Problems};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::two_forms::{TwoForms, two_forms};

/// What a folder is answered with.
const INDEX: &str = "index.html";

/// The longer way to write it.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    /// The path of the folder.
    #[schemars(with = "PathSetting")]
    path: PathBuf,
    /// Whether names that begin with a dot are served.
    #[serde(default)]
    dotfiles: bool,
    /// The file that is sent for a folder; empty for none.
    #[serde(default = "index")]
    index: String,
}

fn index() -> String {
    INDEX.to_owned()
}

/// One folder: `"./public"`, or `{ path = "./public", dotfiles = true }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootConfig {
    /// The path of the folder.
    pub path: PathBuf,
    /// Whether names that begin with a dot are served.
    pub dotfiles: bool,
    /// The file that is sent for a folder; empty for none.
    pub index: String,
}

impl RootConfig {
    /// The folder at `path`, without its dotfiles.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path, dotfiles: false, index: index() }
    }

    pub(super) fn check(&self, at: &str, problems: &mut Problems) {
        if self.path.as_os_str().is_empty() {
            problems
                .at(at, "must name a folder")
                .help("write \".\" for the folder of the configuration file");
        }
        if self.index.contains(['/', '\0']) {
            problems.at(format!("{at}.index"), "must be the name of a file in the folder itself");
        }
    }
}

impl TwoForms for RootConfig {
    type Table = Table;

    const IS_PATH: bool = true;

    const EXPECTED: &'static str = "a folder such as \"./public\", or a table with `path`";

    fn text(&self) -> Cow<'_, str> {
        self.path.to_string_lossy()
    }
}

impl From<String> for RootConfig {
    fn from(path: String) -> Self {
        Self::new(path.into())
    }
}

impl From<Table> for RootConfig {
    fn from(Table { path, dotfiles, index }: Table) -> Self {
        Self { path, dotfiles, index }
    }
}

impl From<RootConfig> for Table {
    fn from(RootConfig { path, dotfiles, index }: RootConfig) -> Self {
        Self { path, dotfiles, index }
    }
}

two_forms!(RootConfig);
