//! The `[gateway.access_log]` table.

use std::path::PathBuf;

use ron_kernel::config::{PathSetting, Problems};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A line for each request, without credentials and query strings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AccessLogConfig {
    /// Whether the access log is written.
    pub enabled: bool,
    /// The file that lines are appended to; it is reopened at every reload. Empty for standard output.
    #[schemars(with = "PathSetting")]
    pub path: PathBuf,
    /// `json`, `text`, or the `common` or `combined` log format of other servers.
    pub format: AccessFormat,
    /// The share of requests that are logged, from 0 to 1.
    pub sample: f64,
}

/// The format of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AccessFormat {
    /// An object per line.
    #[default]
    Json,
    /// Fields separated by spaces.
    Text,
    /// The common log format: client, user, time, request line, status, bytes.
    Common,
    /// The common log format, then the referrer and the user agent.
    Combined,
}

impl Default for AccessLogConfig {
    fn default() -> Self {
        Self { enabled: false, path: PathBuf::new(), format: AccessFormat::default(), sample: 1.0 }
    }
}

impl AccessLogConfig {
    pub(super) fn check(&self, problems: &mut Problems) {
        if !(0.0..=1.0).contains(&self.sample) {
            problems.at("access_log.sample", "must be between 0 and 1");
        }
    }
}
