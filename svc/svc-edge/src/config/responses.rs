//! The tables that say how responses are made: `[edge.tiles]`, `[edge.cache_control]`, `[edge.cors]`.

use http::HeaderValue;
use ron_kernel::config::Problems;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// More origins than this are better told by `*`.
const MAX_ORIGINS: usize = 256;

/// The answer to a tile that a pack does not have, inside the pack's zoom levels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EmptyTile {
    /// 204: maps draw nothing there and do not complain.
    #[default]
    NoContent,
    /// The status 404 `not_found`.
    NotFound,
}

/// Responses to requests for tiles.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TilesConfig {
    /// The response for a tile that a pack does not have: `no_content` (204) or `not_found` (404).
    pub empty: EmptyTile,
    /// The base of the URLs in TileJSON, such as `https://tiles.example.org`; empty for the host that the client
    /// requested, which a proxy in between may have rewritten.
    pub public_url: String,
}

impl TilesConfig {
    pub(super) fn check(&self, problems: &mut Problems) {
        let url = self.public_url.trim_end_matches('/');
        if !url.is_empty() && !is_origin(url) {
            problems
                .at("tiles.public_url", format!("`{url}` is not where a server could be"))
                .help("write scheme and host, and no path: https://tiles.example.org");
        }
    }
}

/// What responses say about how long they may be kept, as `Cache-Control`; empty to say nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CacheControlConfig {
    /// Static files and raw packs.
    pub assets: String,
    /// Tiles and TileJSON.
    pub tiles: String,
    /// Objects requested by their content id, which never change.
    pub cas: String,
}

impl Default for CacheControlConfig {
    fn default() -> Self {
        Self {
            assets: "public, max-age=60".to_owned(),
            tiles: "public, max-age=60, stale-while-revalidate=600".to_owned(),
            cas: "public, max-age=31536000, immutable".to_owned(),
        }
    }
}

impl CacheControlConfig {
    pub(super) fn check(&self, problems: &mut Problems) {
        for (key, value) in [("assets", &self.assets), ("tiles", &self.tiles), ("cas", &self.cas)] {
            if HeaderValue::from_str(value).is_err() {
                problems.at(format!("cache_control.{key}"), "cannot be sent in a header field");
            }
        }
    }
}

/// Which pages of other sites may read what is served. Without an entry: none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CorsConfig {
    /// The sites, such as `https://map.example.org`; `*` for all.
    pub allow_origins: Vec<String>,
}

impl CorsConfig {
    pub(super) fn check(&self, problems: &mut Problems) {
        let origins = &self.allow_origins;
        if origins.len() > MAX_ORIGINS {
            problems
                .at("cors.allow_origins", format!("names {} sites, more than {MAX_ORIGINS}", origins.len()));
        }
        for (index, origin) in origins.iter().enumerate() {
            if origin != "*" && !is_origin(origin) {
                problems
                    .at(format!("cors.allow_origins.{index}"), format!("`{origin}` is not a site's origin"))
                    .help("write scheme and host, and no path: https://map.example.org");
            }
        }
    }
}

/// Whether a text is what a browser sends as `Origin`.
fn is_origin(text: &str) -> bool {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let fits =
        |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '-' | ':' | '[' | ']');
    host.is_some_and(|host| !host.is_empty() && host.chars().all(fits))
}
