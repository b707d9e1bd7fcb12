//! What a configuration names that cannot work as things are: said by `omnigate check`, and by a node that starts.
//!
//! None of it is refused: a pack may be mounted later, and a node without routes still has its admin listener.

use std::path::Path;

use ron_kernel::config::{Origin, Snapshot};
use ron_transport::addr::ListenAddr;
use svc_edge::EdgeConfig;
use svc_gateway::{AcmeChallenge, AuthConfig, GatewayConfig};

/// Something that cannot work.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The setting that is to blame.
    pub(crate) path: String,
    /// The description of the problem.
    pub(crate) message: String,
    /// What the operator can do about it.
    pub(crate) help: &'static str,
    /// Whether a node that nobody has configured yet looks like that.
    pub(crate) is_usual: bool,
    /// Where the setting comes from; [`Origin::Default`] if nobody set it.
    origin: Origin,
}

impl Finding {
    /// As `check` prints it.
    pub(crate) fn render(&self) -> String {
        let place = match &self.origin {
            Origin::Default => String::new(),
            Origin::File { file, line } => format!("\n--> {file}:{line}"),
            other => format!("\n--> {other}"),
        };
        format!("warning: `{}`: {}{place}\n = help: {}", self.path, self.message, self.help)
    }
}

/// Whether somebody has set something of the gateway.
pub(crate) fn has_gateway_settings(config: &Snapshot) -> bool {
    config.entries().any(|(path, _, origin)| path.starts_with("gateway.") && *origin != Origin::Default)
}

/// Everything that cannot work. Looks at files, and opens none.
pub(crate) fn findings(config: &Snapshot) -> Vec<Finding> {
    let mut found = Findings { config, all: Vec::new() };
    found.edge(&config.get::<EdgeConfig>());
    found.gateway(&config.get::<GatewayConfig>());
    found.auth(&config.get::<AuthConfig>());
    found.all
}

struct Findings<'c> {
    config: &'c Snapshot,
    all: Vec<Finding>,
}

impl Findings<'_> {
    fn add(&mut self, path: String, message: String, help: &'static str) {
        let origin = self.config.origin(&path);
        self.all.push(Finding { path, message, help, is_usual: false, origin });
    }

    fn edge(&mut self, edge: &EdgeConfig) {
        if !edge.enabled {
            return;
        }
        for (index, pack) in edge.packs.iter().enumerate() {
            if !pack.path.exists() {
                let message = format!("there is no file {}", pack.path.display());
                self.add(format!("edge.packs[{index}]"), message, "the pack is served once it is there");
            }
        }
        for (index, root) in edge.roots.iter().enumerate() {
            if !root.path.is_dir() {
                let is_file = root.path.exists();
                let what = if is_file { "is not a folder" } else { "does not exist" };
                let message = format!("{} {what}", root.path.display());
                self.add(
                    format!("edge.roots[{index}]"),
                    message,
                    "name a folder whose files are to be served",
                );
            }
        }
    }

    fn gateway(&mut self, gateway: &GatewayConfig) {
        if !gateway.enabled {
            return;
        }
        if gateway.route.is_empty() && gateway.view.is_empty() {
            self.all.push(Finding {
                path: "gateway.route".to_owned(),
                message: "there is no route, so every request is answered 404".to_owned(),
                help: "add a [[gateway.route]], or start with `omnigate gateway --to http://127.0.0.1:3000`",
                is_usual: true,
                origin: Origin::Default,
            });
        }
        self.passwords(gateway);
        self.certificates(gateway);
        if gateway.redirect_http.is_some() && !gateway.has_tls() {
            self.add(
                "gateway.redirect_http".to_owned(),
                "clients are sent to HTTPS, which this gateway does not speak".to_owned(),
                "set gateway.tls.cert_path and key_path, unless a proxy in front terminates TLS",
            );
        }
    }

    /// Names that certificates are obtained for and that no route answers, and a challenge that no CA can reach.
    fn certificates(&mut self, gateway: &GatewayConfig) {
        if !gateway.has_acme() {
            return;
        }
        for (index, name) in gateway.acme.names.iter().enumerate() {
            if !gateway.has_route_for(name) {
                self.add(
                    format!("gateway.acme.names[{index}]"),
                    format!("no route has the host {name}, so its clients are answered 404"),
                    "add the name to a route's `host`, or remove it here",
                );
            }
        }
        let (path, addr, port) = match gateway.acme.challenge {
            AcmeChallenge::Http01 => ("gateway.redirect_http", gateway.redirect_http.as_ref(), 80),
            AcmeChallenge::TlsAlpn01 => ("gateway.listen", Some(&gateway.listen), 443),
            AcmeChallenge::Dns01 => return,
        };
        if let Some(ListenAddr::Tcp(addr)) = addr
            && addr.ip().is_loopback()
        {
            self.add(
                path.to_owned(),
                format!("no CA reaches {addr} to check the names of gateway.acme; it asks on port {port}"),
                "listen on 0.0.0.0, unless something on this machine passes that port on",
            );
        }
    }

    /// Passwords that anybody on the way could read.
    fn passwords(&mut self, gateway: &GatewayConfig) {
        let is_open = match &gateway.listen {
            ListenAddr::Tcp(addr) => !addr.ip().is_loopback(),
            _ => false,
        };
        if !is_open || gateway.has_tls() || !gateway.trusted_proxies.is_empty() {
            return;
        }
        for (index, route) in gateway.route.iter().enumerate() {
            if route.basic_auth.is_some() {
                self.add(
                    format!("gateway.route[{index}].basic_auth"),
                    "passwords cross the network in the clear".to_owned(),
                    "set gateway.tls.cert_path and key_path, or list the proxy that terminates TLS in trusted_proxies",
                );
            }
        }
    }

    fn auth(&mut self, auth: &AuthConfig) {
        let own = ("auth.jwks_url".to_owned(), auth.jwks_url.as_str());
        let issuers = auth.issuer.iter().enumerate();
        let issuers =
            issuers.map(|(at, issuer)| (format!("auth.issuer[{at}].jwks_url"), issuer.jwks_url.as_str()));
        for (path, url) in std::iter::once(own).chain(issuers) {
            let Some(file) = url.strip_prefix("file:") else { continue };
            let file = Path::new(file.strip_prefix("//").unwrap_or(file));
            if !file.is_file() {
                let message = format!("there is no file {}", file.display());
                self.add(path, message, "no JWT is accepted before the file is there");
            }
        }
    }
}
