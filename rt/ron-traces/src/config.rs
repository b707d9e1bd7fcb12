//! The `[traces]` table.

use std::{path::PathBuf, time::Duration};

use ron_kernel::config::{Checks, HumanDuration, PathSetting, Problems, Secret, Table};
use ron_transport::addr::HttpUrl;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longer than this, and a collector that hangs would cost spans that another attempt could have saved.
const MAX_TIMEOUT: Duration = Duration::from_secs(60);

/// Export of request spans with OTLP over HTTP. Needs a build with the feature `otlp`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TracesConfig {
    /// The collector, such as `http://127.0.0.1:4318/v1/traces`; empty to export nothing.
    pub url: String,
    /// PEM bundle of the CA certificates for the collector's certificate; empty for the system's.
    #[schemars(with = "PathSetting")]
    pub ca_path: PathBuf,
    /// The value of the `Authorization` field that is sent to the collector.
    pub authorization: Option<Secret>,
    /// The share of new traces that are recorded, from 0 to 1. A trace that a client has started is recorded if the
    /// client asks for it.
    pub sample: f64,
    /// Timeout for sending a batch to the collector; 60s at most.
    pub timeout: HumanDuration,
}

impl Default for TracesConfig {
    fn default() -> Self {
        Self {
            url: String::new(),
            ca_path: PathBuf::new(),
            authorization: None,
            sample: 1.0,
            timeout: HumanDuration::from_secs(5),
        }
    }
}

impl Table for TracesConfig {
    const NAME: &'static str = "traces";
    const RESTART: &'static [&'static str] = &["url", "ca_path", "authorization", "timeout"];

    fn check(&self, _: &Checks, problems: &mut Problems) {
        if !(0.0..=1.0).contains(&self.sample) {
            problems.at("sample", "must be between 0 and 1");
        }
        let timeout = self.timeout.as_duration();
        if timeout.is_zero() || timeout > MAX_TIMEOUT {
            problems.at("timeout", "must be more than 0 and 60s at most");
        }
        let header = self.authorization.as_ref().map(|secret| http::HeaderValue::from_str(secret.expose()));
        if header.is_some_and(|value| value.is_err()) {
            problems.at("authorization", "cannot be sent in a header field");
        }
        if !self.url.is_empty() {
            self.check_url(problems);
        }
    }
}

impl TracesConfig {
    /// Never repeats the URL, which may hold a password by mistake.
    fn check_url(&self, problems: &mut Problems) {
        match self.url.parse::<HttpUrl>() {
            Err(error) => {
                problems.at("url", "is not the URL of a collector").help(error.to_string());
            }
            Ok(url) if url.is_exposed() && self.authorization.is_some() => {
                let why = "anybody on the way could read what `authorization` says";
                problems.at("url", why).help("use https://");
            }
            Ok(_) if !crate::AVAILABLE => {
                let why = "this program was built without the export of traces";
                problems.at("url", why).help("build it with `cargo build --release --features otlp`");
            }
            Ok(_) => {}
        }
    }
}
