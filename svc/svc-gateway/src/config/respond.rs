//! `respond = { … }` of routes: a response that is the same for everybody.

use http::HeaderValue;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::route::Flaw;

/// Longest body of a fixed response.
const MAX_BODY: usize = 64 * 1024;

/// A response that the gateway gives itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RespondConfig {
    /// The status, from 200 to 599 without redirects.
    #[serde(default = "ok")]
    pub status: u16,
    /// The body, 64 KiB at most.
    #[serde(default)]
    pub body: String,
    /// The media type of the body.
    #[serde(default = "plain_text")]
    pub content_type: String,
}

fn ok() -> u16 {
    200
}

fn plain_text() -> String {
    "text/plain; charset=utf-8".to_owned()
}

impl RespondConfig {
    /// What is wrong with it.
    pub(crate) fn check(&self) -> Vec<Flaw> {
        let mut flaws = Vec::new();
        let mut flaw = |key: &str, message: String| flaws.push(Flaw::new(format!("respond.{key}"), message));
        match self.status {
            204 | 205 if !self.body.is_empty() => {
                flaw("body", format!("must be empty: a response with status {} has none", self.status));
            }
            200..300 | 400..600 => {}
            300..400 => flaw("status", "must not be that of a redirect: use `redirect`".to_owned()),
            _ => flaw("status", "must be from 200 to 599".to_owned()),
        }
        if self.status == 206 {
            flaw("status", "206 answers requests for a part of something".to_owned());
        }
        if self.body.len() > MAX_BODY {
            flaw(
                "body",
                format!("has more than {MAX_BODY} bytes: serve it from a folder with `service = \"edge\"`"),
            );
        }
        let is_value = self.content_type.parse::<HeaderValue>().is_ok_and(|value| value.to_str().is_ok());
        if !is_value || !self.content_type.contains('/') {
            flaw("content_type", format!("`{}` is not a media type such as text/html", self.content_type));
        }
        flaws
    }
}
