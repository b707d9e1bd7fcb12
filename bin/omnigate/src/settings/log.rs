//! The `[log]` table.

use ron_kernel::{
    audit,
    config::{Checks, Problems, Table},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// What is written to standard error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LogConfig {
    /// One line of text per event, or one JSON object.
    pub(crate) format: LogFormat,
    /// The lowest level that is written: off, error, warn, info, debug or trace. `info,svc_gateway=debug` sets the
    /// level of one part. The audit trail (`audit`) is written at every level except `off`, unless it is named
    /// here, as in `warn,audit=off`.
    pub(crate) level: String,
}

/// The format of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogFormat {
    /// One line of text per event.
    #[default]
    Text,
    /// One JSON object per event.
    Json,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { format: LogFormat::default(), level: "info".to_owned() }
    }
}

impl Table for LogConfig {
    const NAME: &'static str = "log";
    const RESTART: &'static [&'static str] = &["format"];

    fn check(&self, _: &Checks, problems: &mut Problems) {
        if let Err(what) = self.filter() {
            problems.at("level", what).help(
                "write a level such as \"info\", or parts of their own as in \"info,svc_gateway=debug\"",
            );
        }
    }
}

impl LogConfig {
    /// The filter that `level` describes, or what is wrong with it.
    pub(crate) fn filter(&self) -> Result<EnvFilter, String> {
        let directives: Vec<&str> = self.level.split(',').map(str::trim).collect();
        // The filter's own parser takes a misspelt level for the name of a part, and then logs nothing.
        let names_a_level = |directive: &str| {
            directive.contains(['=', '[']) || LEVELS.contains(&directive.to_lowercase().as_str())
        };
        if let Some(stray) = directives.iter().find(|directive| !names_a_level(directive)) {
            return Err(format!("`{stray}` is not a level: use {}", LEVELS.join(", ")));
        }
        let filter = EnvFilter::builder().parse(directives.join(",")).map_err(|error| error.to_string())?;
        // The audit trail is written whatever the level, unless it is named itself or nothing is to be written.
        let settles_it =
            |directive: &&str| directive.starts_with(audit::TARGET) || directive.eq_ignore_ascii_case("off");
        let named = directives.iter().any(settles_it);
        let trail = format!("{}=info", audit::TARGET).parse();
        Ok(if named { filter } else { filter.add_directive(trail.map_err(|_| "no directive".to_owned())?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(level: &str) -> Result<EnvFilter, String> {
        let config = LogConfig { level: level.to_owned(), ..LogConfig::default() };
        config.filter()
    }

    #[test]
    fn levels_and_levels_of_parts_are_taken() {
        for level in ["info", "OFF", "warn, svc_gateway=debug", "info,ron_transport::serve=trace"] {
            assert!(filter(level).is_ok(), "{level}");
        }
    }

    #[test]
    fn a_misspelt_level_is_refused_and_not_taken_for_a_part() {
        for level in ["inof", "", "info,", "info,svc_gateway", "svc_gateway=loud"] {
            assert!(filter(level).is_err(), "{level}");
        }
    }
}
