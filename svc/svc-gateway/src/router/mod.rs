//! Which route a request takes, and what the route says about it.

mod addresses;
pub(crate) mod host;
pub(crate) mod narrowing;
pub(crate) mod path;
pub(crate) mod pattern;
mod rewrite;
mod split;
mod table;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use http::{HeaderName, HeaderValue, Method};
use quota::Rate;
use ron_kernel::metrics::RouteMetrics;
use ron_transport::Request;
use types::{Reason, Refusal};

pub(crate) use rewrite::Rewrite;
pub(crate) use split::{Share, Split, place as turn_of};

use crate::{
    basic_auth::BasicAuth,
    browser::Browser,
    cache::RouteCache,
    caller::Credential,
    compress::Compress,
    config::{Auth, RateBy, RouteConfig},
    fleet::Allowance,
    forward_auth::ForwardAuth,
    jwt::ClaimRule,
    local::Local,
    message::{GuardedFields, HeaderRules, Survey},
    mirror::Mirror,
    respond::OwnAnswer,
    views::View,
};
use addresses::AddressRules;
use narrowing::Narrowing;
use table::{Asked, Lookup, Table};

/// Where requests go from one core, and what is done with them on the way.
#[derive(Debug)]
pub(crate) struct Route {
    prefix: String,
    narrowing: Narrowing,
    /// The name in metrics and the access log.
    pub(crate) label: Arc<str>,
    pub(crate) goes_to: GoesTo,
    /// What the gateway answers itself; `None` if it passes everything on.
    pub(crate) own_answer: Option<Box<OwnAnswer>>,
    pub(crate) metrics: RouteMetrics,
    pub(crate) auth: Auth,
    /// The addresses that it serves.
    pub(crate) addresses: AddressRules,
    /// What a token has to say.
    claims: Box<[ClaimRule]>,
    /// A timeout shorter than the upstream's.
    pub(crate) timeout: Option<Duration>,
    /// Instead of the gateway's.
    pub(crate) max_body_bytes: Option<u64>,
    /// Answers are long-lived and hold no slot.
    pub(crate) stream: bool,
    /// Protocols that clients may change to.
    pub(crate) upgrade: Box<[HeaderValue]>,
    pub(crate) rewrite: Option<Rewrite>,
    pub(crate) request_headers: HeaderRules,
    /// Fields that a client must not imitate: those that the request's rules are about, that name its tenant, or that any
    /// route is chosen by.
    pub(crate) guarded: Arc<GuardedFields>,
    pub(crate) response_headers: HeaderRules,
    /// What is said about stored responses; `None` if there are none.
    pub(crate) cache: Option<RouteCache>,
    /// What is compressed; `None` for nothing.
    pub(crate) compress: Option<Compress>,
    /// The users that may pass; `None` for everybody.
    pub(crate) basic_auth: Option<Box<BasicAuth>>,
    /// Who decides about its requests; `None` for nobody beside the gateway.
    pub(crate) forward_auth: Option<Box<ForwardAuth>>,
    /// What browsers are told; `None` for nothing.
    pub(crate) browser: Option<Box<Browser>>,
    /// Who gets copies of its requests; `None` for nobody.
    pub(crate) mirror: Option<Box<Mirror>>,
    /// How many requests it takes; `None` for any number.
    pub(crate) rate: Option<RouteRate>,
}

/// How many requests a route takes, and whose are counted together.
#[derive(Clone, Debug)]
pub(crate) struct RouteRate {
    pub(crate) rate: Rate,
    pub(crate) by: RateBy,
    /// The allowance of clients that there is no more room for. Of this route alone: on another one, with a quicker rate, what
    /// it takes would be owed for longer.
    pub(crate) other: Arc<Allowance>,
}

/// Who answers the requests of a route.
#[derive(Debug)]
pub(crate) enum GoesTo {
    /// One of these upstreams, by weight.
    Upstreams(Split),
    /// A service in this process.
    Local(Local),
    /// Several, each a part of the answer.
    View(Arc<View>),
    /// Nobody: the gateway answers all of them itself.
    Nobody,
}

/// What decides about requests beside a route's own settings.
#[derive(Debug)]
pub(crate) struct Guards<'a> {
    /// Fields that name tenants or choose a route, whichever.
    pub(crate) deciding_fields: &'a [HeaderName],
    /// Fields that tell servers who a client is, on whichever route.
    pub(crate) identity_fields: &'a [HeaderName],
    /// The users that may pass.
    pub(crate) basic_auth: Option<BasicAuth>,
}

impl Route {
    /// A route as configured. What the configuration's check refuses is left out.
    pub(crate) fn new(
        config: &RouteConfig,
        Guards { deciding_fields, identity_fields, basic_auth }: Guards<'_>,
        goes_to: GoesTo,
        own_answer: Option<OwnAnswer>,
        cache: Option<RouteCache>,
        metrics: RouteMetrics,
    ) -> Self {
        let (narrowing, request_headers) =
            (Narrowing::new(config).0, HeaderRules::new(&config.request_headers).0);
        let rewrite = Rewrite::of(config, narrowing.path()).ok().flatten();
        let is_view = matches!(goes_to, GoesTo::View(_));
        let narrowing = if is_view { narrowing.of_whole_path() } else { narrowing };
        let forward_auth = config.forward_auth.as_ref().map(|auth| Box::new(ForwardAuth::new(auth)));
        let decided = forward_auth.iter().flat_map(|auth| auth.guarded());
        let named = basic_auth.iter().flat_map(BasicAuth::guarded);
        let guarded = request_headers.guarded().chain(deciding_fields).chain(decided).chain(named);
        let guarded = GuardedFields::new(guarded, identity_fields.into());
        Self {
            guarded: Arc::new(guarded),
            prefix: config.path.clone(),
            narrowing,
            label: config.label().into(),
            goes_to,
            own_answer: own_answer.map(Box::new),
            metrics,
            auth: config.auth,
            addresses: AddressRules::new(config),
            claims: config.require_claims.iter().map(|(claim, wanted)| wanted.rule(claim)).collect(),
            timeout: config.timeout.map(|timeout| timeout.as_duration()),
            max_body_bytes: config.max_body_bytes.map(|size| size.as_u64()),
            stream: config.stream,
            upgrade: config.upgrade.iter().filter_map(|name| name.parse().ok()).collect(),
            rewrite,
            request_headers,
            response_headers: HeaderRules::new(&config.response_headers).0,
            cache,
            compress: config.compress.as_ref().map(Compress::new),
            basic_auth: basic_auth.map(Box::new),
            forward_auth,
            browser: Browser::new(config).map(Box::new),
            mirror: None,
            rate: config
                .rate
                .as_ref()
                .and_then(|rate| Some(RouteRate { rate: rate.rate()?, by: rate.by, other: Arc::default() })),
        }
    }

    /// The same route, with copies of its requests sent on.
    pub(crate) fn with_mirror(self, mirror: Option<Mirror>) -> Self {
        Self { mirror: mirror.map(Box::new), ..self }
    }

    /// Whether a request with this method needs a credential.
    pub(crate) fn wants_credential(&self, method: &Method) -> bool {
        match self.auth {
            _ if !self.claims.is_empty() => true,
            Auth::None => false,
            Auth::Mutations => {
                !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE)
            }
            Auth::Always => true,
        }
    }

    /// Decides whether a credential that was judged has the claims that this route asks for.
    ///
    /// # Errors
    /// `forbidden` for one that has not; only a JWT has any.
    pub(crate) fn check_claims(&self, credential: &Credential) -> Result<(), Refusal> {
        let is_met = |rule: &ClaimRule| matches!(credential, Credential::Jwt(claims) if claims.meets(rule));
        match self.claims.iter().find(|rule| !is_met(rule)) {
            None => Ok(()),
            Some(rule) => {
                let detail = format!("the token's claim `{}` is not what this route asks for", rule.claim());
                Err(Refusal::new(Reason::Forbidden, detail))
            }
        }
    }
}

/// All routes of one core. Cores have copies of their own, because a reference count that all of them change costs more
/// than everything else here.
#[derive(Debug, Default)]
pub(crate) struct Router {
    routes: Vec<Arc<Route>>,
    table: Table,
}

/// Why a request has no route.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Miss {
    /// Servers disagree about where its path leads.
    Ambiguous(&'static str),
    /// Routes are chosen by a field that has several values, or that servers do not get.
    UnclearField(HeaderName),
    /// It takes too long to compare it with the regular expressions of routes.
    TooCostly,
    /// There is none for its path.
    NotFound,
    /// There are some for its path, but only for these methods: the value of `Allow`.
    MethodNotAllowed(HeaderValue),
}

impl Router {
    pub(crate) fn new(routes: Vec<Arc<Route>>) -> Self {
        let table = Table::new(routes.iter().map(|route| (route.prefix.as_str(), route.narrowing.clone())));
        Self { routes, table }
    }

    /// The route of a request as it came, of which `survey` was made.
    pub(crate) fn find(&self, request: &Request, survey: &Survey) -> Result<&Arc<Route>, Miss> {
        let path = request.uri().path();
        path::check(path).map_err(Miss::Ambiguous)?;
        if let Some(name) = self.table.unclear_field(path, request.headers(), |name| survey.dooms(name)) {
            return Err(Miss::UnclearField(name.clone()));
        }
        let wanted_host = || host::of(request.uri(), request.headers());
        let asked = Asked {
            path,
            host: if self.table.wants_host { wanted_host() } else { None },
            method: request.method(),
            headers: request.headers(),
        };
        match self.table.find(&asked) {
            Lookup::Found(index) => Ok(&self.routes[index]),
            Lookup::MethodNotAllowed(allow) => Err(Miss::MethodNotAllowed(allow)),
            Lookup::NotFound => Err(Miss::NotFound),
            Lookup::TooCostly => Err(Miss::TooCostly),
        }
    }

    pub(crate) fn routes(&self) -> &[Arc<Route>] {
        &self.routes
    }
}

impl Miss {
    /// The answer's `Allow`, if it needs one.
    pub(crate) fn allow(&self) -> Option<&HeaderValue> {
        match self {
            Self::MethodNotAllowed(allow) => Some(allow),
            Self::Ambiguous(_) | Self::UnclearField(_) | Self::TooCostly | Self::NotFound => None,
        }
    }

    /// Returns the refusal for the client.
    pub(crate) fn refusal(&self, path: &str) -> Refusal {
        match self {
            Self::Ambiguous(why) => Refusal::new(Reason::Malformed, *why),
            Self::UnclearField(name) => Refusal::new(
                Reason::Malformed,
                format!("{name} decides about the route: it is said once, and not named by Connection"),
            ),
            Self::TooCostly => Refusal::new(
                Reason::Malformed,
                "the path or a field is too long to be compared with the expressions of routes",
            ),
            Self::NotFound => Refusal::new(
                Reason::NotFound,
                format!("no route matches {path}; routes are [[gateway.route]] in the configuration"),
            ),
            Self::MethodNotAllowed(allow) => {
                let methods = allow.to_str().unwrap_or_default();
                Refusal::new(Reason::MethodNotAllowed, format!("{path} is served for {methods} only"))
            }
        }
    }
}
