//! Sending clients elsewhere: from the clear to HTTPS, or to another origin.

mod place;

use std::sync::Arc;

use arc_swap::ArcSwap;
use http::{HeaderValue, StatusCode, Uri, header::LOCATION};
use ron_kernel::{Scope, topology::TaskSpec};
use ron_transport::{
    Body, Conn, ConnInfo, Request, Response, Service,
    addr::ListenAddr,
    caps::ClientKey,
    inherit::Inherited,
    listen::{BindError, BindOptions, Listener},
    proxy_protocol::TrustedSources,
    serve::{HttpServer, LISTENER, ListenPlan, Roles},
    stream::Peer,
};
use types::{Reason, Refusal};

use crate::{
    GatewayConfig,
    acme::Answers,
    client_addr::Client,
    config::{Flaw, RedirectConfig},
    message::Survey,
    policy::{Policies, Policy},
    quotas,
    router::{path, pattern::Pattern},
    shared::Shared,
};
use place::{Place, sound_host};

/// The port that goes without saying.
const HTTPS_PORT: u16 = 443;

/// The redirect of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Redirect {
    to: To,
    status: StatusCode,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum To {
    /// The same host over HTTPS, on this port.
    Https(u16),
    /// A URL or a path that the route names.
    Place(Place),
}

impl Redirect {
    /// From the clear to HTTPS on `port`, for good and with the method kept.
    pub(crate) fn to_https(port: u16) -> Self {
        Self { to: To::Https(port), status: StatusCode::PERMANENT_REDIRECT }
    }

    /// A redirect as configured for a route with this path and this pattern of whole paths, where HTTPS is served on
    /// `https_port`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn new(
        config: &RedirectConfig,
        route: (&str, Option<&Pattern>),
        https_port: u16,
    ) -> Result<Self, Flaw> {
        let status = match config.status {
            301 | 302 | 307 | 308 => StatusCode::from_u16(config.status),
            _ => return Err(Flaw::new("redirect.status", "must be 301, 302, 307 or 308")),
        };
        let status = status.map_err(|error| Flaw::new("redirect.status", error.to_string()))?;
        let place = |text| Place::parse(text, route).map_err(|message| Flaw::new("redirect.to", message));
        let to = if config.to == "https" { To::Https(https_port) } else { To::Place(place(&config.to)?) };
        Ok(Self { to, status })
    }

    /// Whether only requests without TLS are redirected.
    pub(crate) fn spares_https(&self) -> bool {
        matches!(self.to, To::Https(_))
    }

    /// The answer to a request as it came; `None` if it is where it should be.
    ///
    /// # Errors
    /// `malformed` if the request does not say which host it is for.
    pub(crate) fn answer(&self, request: &Request, is_https: bool) -> Result<Option<Response>, Refusal> {
        if is_https && self.spares_https() {
            return Ok(None);
        }
        let malformed = || Refusal::new(Reason::Malformed, "the request has no Host or path to redirect by");
        let place = match &self.to {
            To::Place(place) => place.of(request.uri(), request.headers()).ok_or_else(malformed)?,
            To::Https(port) => {
                let name = sound_host(request.uri(), request.headers()).ok_or_else(malformed)?;
                let port = if *port == HTTPS_PORT { String::new() } else { format!(":{port}") };
                format!("https://{name}{port}{}", path_of(request.uri()))
            }
        };
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.status;
        let place = HeaderValue::try_from(place).map_err(|_| malformed())?;
        response.headers_mut().insert(LOCATION, place);
        Ok(Some(response))
    }
}

/// The redirect listener's handler on one core: everybody is sent to HTTPS, as often as their address may ask. An authority
/// that checks a name finds its answer, however often it asks.
#[derive(Debug)]
pub(crate) struct ToHttps {
    answers: Answers,
    policy: Arc<ArcSwap<Policy>>,
    shared: Arc<Shared>,
}

impl Service for ToHttps {
    type PerConn = ();

    async fn call(&self, conn: &Arc<Conn<()>>, request: Request) -> Result<Response, Refusal> {
        if let Some(answer) = self.answers.answer(&request) {
            return Ok(answer);
        }
        let (mut survey, now) = (Survey::of(&request), self.shared.clock.now());
        let policy = self.policy.load();
        let client = Client::of(conn, request.headers(), &survey, &policy.trusted_proxies);
        let allowance = self.shared.client(client.key, now);
        policy.rates.charge_client(&allowance, now).map_err(|used_up| {
            quotas::cut_off_floods(conn, client.key, &policy, &self.shared, now);
            used_up.refusal()
        })?;
        survey.check(&request)?;
        path::check(request.uri().path()).map_err(|why| Refusal::new(Reason::Malformed, why))?;
        policy.to_https.answer(&request, false)?.ok_or_else(|| Reason::Internal.into())
    }

    fn turns_away(&self, peer: &Peer) -> bool {
        self.shared.floods.turns_away(ClientKey::of(peer), self.shared.clock.now())
    }

    fn speaks_for_many(&self, peer: &Peer) -> bool {
        self.policy.load().trusted_proxies.trusts(peer)
    }

    fn refuse_head(&self, conn: &Conn<()>, refusal: Refusal) -> Refusal {
        quotas::charge_for_head(conn, &self.policy.load(), &self.shared, refusal)
    }

    fn flooded(&self, conn: &Conn<()>) {
        quotas::count_flood(conn, &self.policy.load(), &self.shared);
    }

    fn wasted_connection(&self, conn: &ConnInfo) {
        let (client, now) = (ClientKey::of(&conn.peer), self.shared.clock.now());
        quotas::cut_off_floods(conn, client, &self.policy.load(), &self.shared, now);
    }
}

/// The redirect listener's accept loop.
pub(crate) const REDIRECT_LISTENER: TaskSpec = TaskSpec {
    name: "redirect_listener",
    doc: "accepts connections without TLS and redirects them to HTTPS",
    ..LISTENER
};

/// Starts the redirect listener, if there is to be one.
pub(crate) fn listener(
    scope: &Scope,
    config: &GatewayConfig,
    inherited: &mut Inherited,
    policies: &Policies,
    shared: &Arc<Shared>,
    answers: &Answers,
) -> Result<Option<HttpServer<ToHttps>>, BindError> {
    let Some(addr) = &config.redirect_http else { return Ok(None) };
    let plan = listen_plan(config, Some(inherited.listen(addr, BindOptions::default())?));
    let roles = Roles { listener: &REDIRECT_LISTENER, ..Roles::default() };
    Ok(Some(HttpServer::start(scope, roles, plan, |core| ToHttps {
        answers: answers.clone(),
        policy: Arc::clone(&policies[core]),
        shared: Arc::clone(shared),
    })))
}

/// What the redirect listener follows; without a socket it keeps its own.
pub(crate) fn listen_plan(config: &GatewayConfig, listener: Option<Listener>) -> ListenPlan {
    let proxy_protocol = TrustedSources::new(config.proxy_protocol.clone());
    ListenPlan { listener, tls: None, proxy_protocol, limits: config.limits() }
}

/// Where clients find HTTPS: here, or at the proxy that terminates TLS in front of us.
pub(crate) fn https_port(config: &GatewayConfig) -> u16 {
    match &config.listen {
        ListenAddr::Tcp(addr) if config.has_tls() => addr.port(),
        _ => HTTPS_PORT,
    }
}

/// Path and query; never without the slash at the beginning, or the origin would go on in them.
fn path_of(uri: &Uri) -> &str {
    uri.path_and_query().map(|path| path.as_str()).filter(|path| path.starts_with('/')).unwrap_or("/")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn asked(uri: &str, host: &str) -> Request {
        http::Request::builder().uri(uri).header("host", host).body(Body::empty()).unwrap()
    }

    fn location(redirect: &Redirect, uri: &str, host: &str) -> String {
        let answer = redirect.answer(&asked(uri, host), false).unwrap().unwrap();
        answer.headers()[LOCATION].to_str().unwrap().to_owned()
    }

    #[test]
    fn whoever_comes_in_the_clear_is_sent_to_the_same_place_over_https() {
        for (port, uri, host, expected) in [
            (443, "/a?b=c", "x.example", "https://x.example/a?b=c"),
            (443, "/", "x.example:80", "https://x.example/"),
            (8443, "/a", "[::1]:80", "https://[::1]:8443/a"),
            (443, "http://y.example/z", "x.example", "https://y.example/z"),
            (443, "//evil.example/", "x.example", "https://x.example//evil.example/"),
            (443, "*", "x.example", "https://x.example/"),
        ] {
            assert_eq!(location(&Redirect::to_https(port), uri, host), expected);
        }
        let redirect = Redirect::to_https(443);
        assert_eq!(redirect.answer(&asked("/", "x"), false).unwrap().unwrap().status(), 308);
        assert!(redirect.answer(&asked("/", "x"), true).unwrap().is_none());
    }

    #[test]
    fn a_host_that_is_none_is_not_sent_anywhere() {
        for host in ["", "a/b", "a@b", "a b", "a\\b", "a?b", "a#b"] {
            let refused = Redirect::to_https(443).answer(&asked("/", host), false).unwrap_err();
            assert_eq!(refused.reason, Reason::Malformed, "{host}");
        }
    }

    #[test]
    fn another_origin_takes_everybody() {
        let config = RedirectConfig { to: "https://www.example.org/".into(), status: 302 };
        let redirect = Redirect::new(&config, ("/", None), 443).unwrap();
        let answer = redirect.answer(&asked("/a?b", "old.example"), true).unwrap().unwrap();
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()[LOCATION]),
            (302, &"https://www.example.org/a?b".parse().unwrap())
        );
    }

    #[test]
    fn what_leads_nowhere_is_told() {
        let at =
            |to: &str, status| Redirect::new(&RedirectConfig { to: to.into(), status }, ("/", None), 443);
        assert_eq!(at("www.example.org", 308).unwrap_err().key, "redirect.to");
        for status in [200, 300, 303, 304, 309] {
            assert_eq!(at("https", status).unwrap_err().key, "redirect.status", "{status}");
        }
    }
}
