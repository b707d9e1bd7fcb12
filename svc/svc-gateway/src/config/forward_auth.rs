//! `forward_auth = { … }` of routes: a server of yours decides who may pass.

use std::time::Duration;

use http::{HeaderName, uri::PathAndQuery};
use ron_kernel::config::HumanDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::route::Flaw;

/// Most fields that are copied.
const MAX_FIELDS: usize = 32;

/// A server that is asked about each request before it is passed on. A status from 200 to 299 lets it pass; any other answer
/// goes to the client as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForwardAuthConfig {
    /// The upstream of the authorization server.
    pub upstream: String,
    /// The path that is requested, with a query if the server needs one.
    #[serde(default = "root")]
    pub path: String,
    /// Fields of the authorization server's response that are added to the request, such as `x-user`; 32 at most.
    /// Fields with these names that the client sends are removed.
    #[serde(default)]
    pub copy_headers: Vec<String>,
    /// Timeout of the authorization server; then the request is answered 504.
    #[serde(default = "five_seconds")]
    pub timeout: HumanDuration,
}

fn root() -> String {
    "/".to_owned()
}

fn five_seconds() -> HumanDuration {
    Duration::from_secs(5).into()
}

impl ForwardAuthConfig {
    /// What is wrong with it, except that there may be no such upstream.
    pub(crate) fn check(&self) -> Vec<Flaw> {
        let mut flaws = Vec::new();
        let mut flaw =
            |key: &str, message: String| flaws.push(Flaw::new(format!("forward_auth.{key}"), message));
        if !self.path.starts_with('/') || self.path.parse::<PathAndQuery>().is_err() {
            flaw("path", format!("`{}` is not a path: write one such as /verify", self.path));
        }
        if self.timeout.as_duration().is_zero() {
            flaw("timeout", "must be longer than nothing".to_owned());
        }
        if self.copy_headers.len() > MAX_FIELDS {
            flaw("copy_headers", format!("has more than {MAX_FIELDS} entries"));
        }
        for name in &self.copy_headers {
            match name.parse::<HeaderName>() {
                Ok(field) if !is_fixed(&field) => {}
                _ => flaw("copy_headers", format!("`{name}` is not a field that can be copied")),
            }
        }
        flaws
    }
}

/// Whether a field frames or routes a message, or is written by the gateway itself.
pub(super) fn is_fixed(name: &HeaderName) -> bool {
    const FIXED: [&str; 19] = [
        "connection",
        "content-length",
        "content-type",
        "expect",
        "forwarded",
        "grpc-timeout",
        "host",
        "http2-settings",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "x-forwarded-for",
        "x-forwarded-proto",
        "request-timeout",
        "x-omnigate-tenant",
        "x-request-timeout-ms",
    ];
    FIXED.contains(&name.as_str())
}
