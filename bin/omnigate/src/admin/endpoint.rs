//! The admin listener's endpoints: what each path is, which method it takes, who may ask.

use http::Method;

use crate::settings::Role;

/// An endpoint of the admin listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    Index,
    Metrics,
    Healthz,
    Readyz,
    Version,
    /// Everything that moves, once.
    Status,
    Topology,
    Events,
    Config,
    /// The console's page and the files it is made of.
    Console,
    /// What the console shows, each second.
    Live,
    Shutdown,
    /// Reads the configuration and the files that it names again.
    Reload,
    /// Ends a task as a crash would.
    Rehearse,
    OverlayPub,
    OverlaySub,
    OverlayPeers,
    OverlayTopics,
    OverlayLosses,
    OverlayStore,
    OverlayObject,
    OverlayOffer,
    /// The stored responses of the gateway.
    Cache,
    CachePurge,
    /// The rewarder's answers to those who look.
    Rewarder,
}

/// The callers that may use an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Audience {
    /// Everybody who reaches the socket; balancers have no token.
    Anyone,
    /// Callers with a token of the right role, or on this machine if no token is configured.
    Operator,
}

impl Endpoint {
    pub(super) const ALL: [Self; 25] = [
        Self::Index,
        Self::Metrics,
        Self::Healthz,
        Self::Readyz,
        Self::Version,
        Self::Status,
        Self::Topology,
        Self::Events,
        Self::Config,
        Self::Console,
        Self::Live,
        Self::Shutdown,
        Self::Reload,
        Self::Rehearse,
        Self::OverlayPub,
        Self::OverlaySub,
        Self::OverlayPeers,
        Self::OverlayTopics,
        Self::OverlayLosses,
        Self::OverlayStore,
        Self::OverlayObject,
        Self::OverlayOffer,
        Self::Cache,
        Self::CachePurge,
        Self::Rewarder,
    ];

    /// Its path, which is also its name in metrics.
    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::Index => "/",
            Self::Metrics => "/metrics",
            Self::Healthz => "/healthz",
            Self::Readyz => "/readyz",
            Self::Version => "/version",
            Self::Status => "/status",
            Self::Topology => "/topology",
            Self::Events => "/events",
            Self::Config => "/config",
            Self::Console => "/console",
            Self::Live => "/console/live",
            Self::Shutdown => "/shutdown",
            Self::Reload => "/reload",
            Self::Rehearse => "/rehearse/{task}",
            Self::OverlayPub => "/overlay/pub/{topic}",
            Self::OverlaySub => "/overlay/sub/{topic}",
            Self::OverlayPeers => "/overlay/peers",
            Self::OverlayTopics => "/overlay/topics",
            Self::OverlayLosses => "/overlay/losses",
            Self::OverlayStore => "/overlay/objects",
            Self::OverlayObject => "/overlay/objects/{id}",
            Self::OverlayOffer => "/overlay/offer/{id}",
            Self::Cache => "/cache",
            Self::CachePurge => "/cache/purge",
            Self::Rewarder => "/rewarder/{path}",
        }
    }

    const fn about(self) -> &'static str {
        match self {
            Self::Index => "this list",
            Self::Metrics => "metrics, as OpenMetrics or Prometheus text",
            Self::Healthz => "200 as long as the process runs",
            Self::Readyz => {
                "200 while requests are welcome, else 503 with the reasons; /readyz/{service} for one"
            }
            Self::Version => "version and build",
            Self::Status => {
                "services, upstreams with their last errors, certificates, routes and tenants, once"
            }
            Self::Topology => "what the node is made of, and how it is doing",
            Self::Events => "what happens to the node, as server-sent events",
            Self::Config => "every setting and where it comes from, secrets hidden",
            Self::Console => "the console, for a browser",
            Self::Live => "the numbers the console shows, each second, as server-sent events",
            Self::Shutdown => "drain and stop; needs the header `X-Omnigate: 1`",
            Self::Reload => {
                "read the configuration and the files it names again; answers once it is in force or refused; needs the \
                 header `X-Omnigate: 1`"
            }
            Self::Rehearse => {
                "end a task, named as service/task, as a crash would; needs `admin.rehearse` and the header `X-Omnigate: 1`"
            }
            Self::OverlayPub => "publish the body in a topic; needs the header `X-Omnigate: 1`",
            Self::OverlaySub => "what is published in a topic, as server-sent events; gaps are named",
            Self::OverlayPeers => "the overlay's peers",
            Self::OverlayTopics => {
                "topics this node takes part in: publications that came, and that are missing"
            }
            Self::OverlayLosses => {
                "publications that were given up or are missing here, and why; ?after=N for those behind the Nth"
            }
            Self::OverlayStore => "keep the body as an object; needs the header `X-Omnigate: 1`",
            Self::OverlayObject => "an object of this node or its peers",
            Self::OverlayOffer => {
                "hand an object to the peer ?to=, told as server-sent events; needs the header `X-Omnigate: 1`"
            }
            Self::Cache => "what the gateway has stored; ?url= for the stored responses of a URL",
            Self::CachePurge => {
                "remove stored responses by URL, prefix or tag; needs the header `X-Omnigate: 1`"
            }
            Self::Rewarder => {
                "what the rewarder answers there: epochs, proofs, files, policies; to look at alone"
            }
        }
    }

    /// The role that the caller needs, if the endpoint is not public.
    pub(super) fn role(self) -> Role {
        if self.allow() == "POST" { Role::Operate } else { Role::Read }
    }

    /// Whether, without a token, it is only for root and the node's own user: it changes the node itself. What applications do
    /// through the node may come often, and to find out a caller's user takes longer the more sockets the machine has.
    pub(super) const fn is_for_owners(self) -> bool {
        matches!(self, Self::Shutdown | Self::Reload | Self::Rehearse | Self::CachePurge)
    }

    /// The methods it takes, as the `Allow` header lists them.
    pub(super) const fn allow(self) -> &'static str {
        match self {
            Self::Shutdown
            | Self::Reload
            | Self::Rehearse
            | Self::OverlayPub
            | Self::OverlayStore
            | Self::OverlayOffer
            | Self::CachePurge => "POST",
            _ => "GET, HEAD",
        }
    }

    /// Whether it takes a method.
    pub(super) fn takes(self, method: &Method) -> bool {
        match self {
            _ if self.allow() == "POST" => method == Method::POST,
            _ => method == Method::GET || method == Method::HEAD,
        }
    }

    /// Returns the callers that may use the endpoint.
    pub(super) const fn audience(self) -> Audience {
        match self {
            // The console's files hold nothing of the node: it asks for the token and then for the numbers.
            Self::Healthz | Self::Readyz | Self::Console => Audience::Anyone,
            _ => Audience::Operator,
        }
    }

    /// The endpoint at a path, and what follows it: the service's name behind `/readyz/`, the console's file, a topic, or an
    /// object.
    pub(super) fn find(path: &str) -> Option<(Self, Option<&str>)> {
        if let Some(endpoint) = Self::ALL.into_iter().find(|endpoint| endpoint.path() == path) {
            return Some((endpoint, None));
        }
        let below = [
            (Self::Readyz, "/readyz/"),
            (Self::Console, "/console/"),
            (Self::Rehearse, "/rehearse/"),
            (Self::OverlayPub, "/overlay/pub/"),
            (Self::OverlaySub, "/overlay/sub/"),
            (Self::OverlayObject, "/overlay/objects/"),
            (Self::OverlayOffer, "/overlay/offer/"),
            (Self::Rewarder, "/rewarder/"),
        ];
        below.into_iter().find_map(|(endpoint, prefix)| Some((endpoint, Some(path.strip_prefix(prefix)?))))
    }

    /// The endpoints for people.
    pub(super) fn index() -> String {
        let line = |e: Self| {
            let method = if e.allow() == "POST" { "POST" } else { "GET" };
            format!("{method:<5}{:<21}{}\n", e.path(), e.about())
        };
        format!("The admin listener of an Omnigate node.\n\n{}", Self::ALL.map(line).concat())
    }

    /// The paths in one line, for somebody who asked for another.
    pub(super) fn paths() -> String {
        Self::ALL.map(Self::path).join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a page is read")]
    fn the_runbook_has_every_endpoint() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");
        let page = std::fs::read_to_string(page).unwrap();
        for endpoint in Endpoint::ALL {
            let (path, post) = (endpoint.path(), endpoint.allow() == "POST");
            let shown = if post { format!("`POST {path}`") } else { format!("`{path}") };
            let listed = |line: &str| line.starts_with('|') && line.contains(&shown);
            assert!(page.lines().any(listed), "docs/operations.md says nothing of {shown}");
        }
    }

    #[test]
    fn every_endpoint_is_found_at_its_path_and_only_there() {
        for endpoint in Endpoint::ALL {
            assert_eq!(Endpoint::find(endpoint.path()).map(|(found, _)| found), Some(endpoint));
        }
        assert_eq!(Endpoint::find("/readyz/gateway"), Some((Endpoint::Readyz, Some("gateway"))));
        assert_eq!(Endpoint::find("/console/app.js"), Some((Endpoint::Console, Some("app.js"))));
        assert_eq!(Endpoint::find("/overlay/sub/a/b"), Some((Endpoint::OverlaySub, Some("a/b"))));
        for path in ["", "/metrics/", "/healthz/x", "/nothing", "//", "*"] {
            assert_eq!(Endpoint::find(path), None, "{path}");
        }
    }
}
