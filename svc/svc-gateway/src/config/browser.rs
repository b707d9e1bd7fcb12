//! `cors = { … }` and `security_headers` of routes: what browsers are told.

use std::time::Duration;

use http::{HeaderName, Method, Uri};
use ron_kernel::config::HumanDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::route::Flaw;

/// Most entries of each list: each request is compared with all of them.
const MAX_ENTRIES: usize = 256;

/// Which pages of other sites may use a route (CORS). The gateway answers preflight requests itself, and what the server says
/// about it is replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CorsConfig {
    /// Sites, such as `https://app.example.org`, or `*` for all; 256 at most.
    pub allow_origins: Vec<String>,
    /// Methods that these pages may use.
    pub allow_methods: Vec<String>,
    /// Fields that these pages may send, besides the few that are always allowed; `*` for those that the browser
    /// asks for.
    pub allow_headers: Vec<String>,
    /// Response fields that these pages may read, besides the few that are always allowed.
    pub expose_headers: Vec<String>,
    /// Whether browsers may send cookies and other credentials. Cannot be combined with `*`.
    pub allow_credentials: bool,
    /// How long browsers may cache the preflight response.
    pub max_age: HumanDuration,
}

impl Default for CorsConfig {
    fn default() -> Self {
        let list = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Self {
            allow_origins: Vec::new(),
            allow_methods: list(&["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]),
            allow_headers: list(&["authorization", "content-type"]),
            expose_headers: Vec::new(),
            allow_credentials: false,
            max_age: Duration::from_secs(600).into(),
        }
    }
}

/// Response fields that make browsers protect their users, unless the server sends them: `off`, `basic` or
/// `strict`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SecurityHeaders {
    /// No security fields are added.
    #[default]
    Off,
    /// What hardly any site minds: no guessing of types, frames of the same site alone, no paths in `Referer` to other sites,
    /// and over TLS a year of HTTPS alone.
    Basic,
    /// Everything from the same site alone: scripts, frames, forms; no `Referer`, no camera, microphone or place; over TLS two
    /// years of HTTPS alone, subdomains included. Try it before you use it.
    Strict,
}

impl CorsConfig {
    /// Returns the problems of the settings.
    pub(crate) fn check(&self) -> Vec<Flaw> {
        let mut flaws = Vec::new();
        let mut flaw = |key: &str, message: String| flaws.push(Flaw { key: format!("cors.{key}"), message });
        if self.allow_origins.is_empty() {
            flaw("allow_origins", "must name at least one site".to_owned());
        }
        if let Some(wrong) = self.allow_origins.iter().find(|origin| *origin != "*" && !is_origin(origin)) {
            let message =
                format!("`{wrong}` is not a site: write scheme and host, such as https://app.example.org");
            flaw("allow_origins", message);
        }
        if self.allow_credentials && self.allow_origins.iter().any(|origin| origin == "*") {
            flaw(
                "allow_credentials",
                "would give every site what your users may see: name the sites".to_owned(),
            );
        }
        if let Some(wrong) =
            self.allow_methods.iter().find(|name| Method::from_bytes(name.as_bytes()).is_err())
        {
            flaw("allow_methods", format!("`{wrong}` is not a method"));
        }
        let is_field = |name: &String| name == "*" || HeaderName::from_bytes(name.as_bytes()).is_ok();
        for (key, names) in [("allow_headers", &self.allow_headers), ("expose_headers", &self.expose_headers)]
        {
            if let Some(wrong) = names.iter().find(|name| !is_field(name)) {
                flaw(key, format!("`{wrong}` is not the name of a header field"));
            }
        }
        let lists = [&self.allow_origins, &self.allow_methods, &self.allow_headers, &self.expose_headers];
        if lists.iter().any(|list| list.len() > MAX_ENTRIES) {
            flaw("allow_origins", format!("no list may have more than {MAX_ENTRIES} entries"));
        }
        flaws
    }
}

/// Whether a text is what browsers send as `Origin`.
fn is_origin(text: &str) -> bool {
    let Ok(uri) = text.parse::<Uri>() else { return false };
    let is_bare = uri.path() == "/" && uri.query().is_none() && !text.ends_with('/') && !text.contains('@');
    // Browsers leave a scheme's own port out, and there are no patterns: such a site would never match.
    let own_port = if uri.scheme_str() == Some("https") { 443 } else { 80 };
    let can_match = !text.contains('*') && uri.port_u16() != Some(own_port);
    let is_lower = text == text.to_ascii_lowercase();
    uri.scheme().is_some() && uri.authority().is_some() && is_bare && is_lower && can_match
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_is_a_scheme_and_a_host_as_browsers_write_it() {
        for right in ["https://app.example.org", "http://localhost:5173", "https://[::1]:8443"] {
            assert!(is_origin(right), "{right}");
        }
        for wrong in [
            "app.example.org",
            "https://a.b/",
            "https://a.b/c",
            "https://A.b",
            "https://u@a.b",
            "null",
            "",
            "https://*.a.b",
            "https://a.b:443",
            "http://a.b:80",
        ] {
            assert!(!is_origin(wrong), "{wrong}");
        }
    }
}
