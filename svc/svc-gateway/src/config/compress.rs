//! `compress = { … }` of routes: which responses are compressed, and how.

use ron_kernel::config::ByteSize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::route::Flaw;

/// What is compressed unless the operator says otherwise: text. Pictures, video and fonts are compressed already.
const TYPES: [&str; 11] = [
    "text/html",
    "text/css",
    "text/plain",
    "text/xml",
    "text/javascript",
    "text/markdown",
    "application/javascript",
    "application/json",
    "application/xml",
    "application/wasm",
    "image/svg+xml",
];
/// Most entries of `types`: each response is compared with all of them.
const MAX_TYPES: usize = 64;

/// That responses of a route are compressed for clients that take it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CompressConfig {
    /// The codings in order of preference; the client's weights in `Accept-Encoding` take precedence.
    pub codings: Vec<CompressCoding>,
    /// Media types, such as `text/html`, or `text/*` for all of a kind; types that end in `+json` or `+xml` count as
    /// `application/json` and `application/xml`. 64 at most.
    pub types: Vec<String>,
    /// Responses with a smaller `Content-Length` are not compressed.
    pub min_bytes: ByteSize,
}

/// A content coding for responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CompressCoding {
    /// Zstandard; 2 MiB of `limits.buffer_memory` for each response in progress.
    Zstd,
    /// gzip, which every client knows; 320 KiB of `limits.buffer_memory` for each response in progress.
    Gzip,
}

impl Default for CompressConfig {
    fn default() -> Self {
        Self {
            codings: vec![CompressCoding::Zstd, CompressCoding::Gzip],
            types: TYPES.map(str::to_owned).into(),
            min_bytes: ByteSize::kib(1),
        }
    }
}

impl CompressConfig {
    /// Returns the problems of the settings.
    pub(crate) fn check(&self) -> Vec<Flaw> {
        let mut flaws = Vec::new();
        let mut flaw = |key: &str, message: String| {
            flaws.push(Flaw { key: format!("compress.{key}"), message });
        };
        if self.codings.is_empty() {
            flaw("codings", "must name at least one coding".to_owned());
        }
        if self.types.is_empty() || self.types.len() > MAX_TYPES {
            flaw("types", format!("must name 1 to {MAX_TYPES} media types"));
        }
        let is_type = |name: &str| {
            let parts = name.split_once('/');
            let is_token = |part: &str| {
                !part.is_empty()
                    && part.bytes().all(|b| b.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?=".contains(&b))
            };
            parts.is_some_and(|(kind, sub)| is_token(kind) && is_token(sub) && kind != "*")
        };
        if let Some(wrong) = self.types.iter().find(|name| !is_type(name)) {
            flaw("types", format!("`{wrong}` is not a media type: write one such as text/html or text/*"));
        }
        flaws
    }
}
