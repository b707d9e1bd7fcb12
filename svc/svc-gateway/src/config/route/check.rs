//! What can be wrong with routes beyond their types.

use std::{collections::BTreeMap, rc::Rc};

use http::uri::PathAndQuery;
use ron_kernel::config::Problems;

use super::{Auth, ClaimWanted, Flaw, RouteConfig};
use crate::{
    config::{
        CompressConfig, CorsConfig, ForwardAuthConfig, RouteCacheConfig, RouteRateConfig, UpstreamConfig,
    },
    message::HeaderRules,
    redirect::Redirect,
    router::{
        Rewrite,
        host::HostPattern,
        narrowing::Narrowing,
        pattern::{MAX_PATTERNS, Pattern},
    },
};

/// Most entries of a list of addresses: each request is compared with all of them.
const MAX_NETWORKS: usize = 1024;

/// The port stands for any: what is wrong with a redirect does not depend on it.
const ANY_PORT: u16 = 443;

/// Tells what is wrong with `routes`, which go to `upstreams`.
pub(crate) fn check_routes(
    routes: &[RouteConfig],
    upstreams: &BTreeMap<String, UpstreamConfig>,
    problems: &mut Problems,
) {
    let (mut before, mut patterns) = (Earlier::default(), 0);
    for (index, route) in routes.iter().enumerate() {
        let at = |key: &str| format!("route[{index}].{key}");
        let (narrowing, mut flaws) = Narrowing::new(route);
        flaws.extend(check_path(&route.path));
        flaws.extend(route.check_messages(narrowing.path()));
        flaws.extend(route.check_target(narrowing.path()));
        patterns += narrowing.patterns();
        if patterns > MAX_PATTERNS && patterns - narrowing.patterns() <= MAX_PATTERNS {
            flaws.push(Flaw::new(
                "path",
                format!("is of a route with more than {MAX_PATTERNS} regular expressions before it"),
            ));
        }
        flaws.extend(route.check_respond());
        flaws.extend(route.check_access());
        flaws.extend(route.check_cache());
        flaws.extend(route.compress.iter().flat_map(CompressConfig::check));
        flaws.extend(route.cors.iter().flat_map(CorsConfig::check));
        flaws.extend(route.forward_auth.iter().flat_map(ForwardAuthConfig::check));
        flaws.extend(route.check_mirror());
        flaws.extend(route.rate.iter().flat_map(RouteRateConfig::check));
        for Flaw { key, message } in flaws {
            problems.at(at(&key), message);
        }
        check_upstreams(route, upstreams, at, problems);
        let path = route.path.trim_end_matches('/');
        if before.hide(path, &narrowing) {
            problems
                .at(at("path"), format!("`{}` is routed twice, and the first route takes it all", route.path))
                .help("narrow one of them by host, methods or headers");
        }
        before.add(path, narrowing);
    }
}

/// The routes before one, by path and host: only those that could hide a route are compared with it, because there may be
/// thousands.
#[derive(Default)]
struct Earlier<'r>(BTreeMap<(&'r str, Option<HostPattern>), Vec<Rc<Narrowing>>>);

impl<'r> Earlier<'r> {
    /// Whether one of them takes all that a later route on the same path would.
    fn hide(&self, path: &'r str, later: &Narrowing) -> bool {
        // One that hides it is for its first host, or is for any like it.
        let alike = self.0.get(&(path, later.hosts().first().cloned()));
        alike.is_some_and(|alike| alike.iter().any(|earlier| earlier.hides(later)))
    }

    fn add(&mut self, path: &'r str, narrowing: Narrowing) {
        let narrowing = Rc::new(narrowing);
        let hosts: Vec<_> = match narrowing.hosts() {
            [] => vec![None],
            hosts => hosts.iter().cloned().map(Some).collect(),
        };
        for host in hosts {
            self.0.entry((path, host)).or_default().push(Rc::clone(&narrowing));
        }
    }
}

fn check_upstreams(
    route: &RouteConfig,
    upstreams: &BTreeMap<String, UpstreamConfig>,
    at: impl Fn(&str) -> String,
    problems: &mut Problems,
) {
    let split = route.split.iter().enumerate();
    let named = split.map(|(index, share)| (format!("split[{index}].upstream"), share.upstream.as_str()));
    let only = (!route.upstream.is_empty()).then(|| ("upstream".to_owned(), route.upstream.as_str()));
    let decides = route.forward_auth.as_ref();
    let decides = decides.map(|auth| ("forward_auth.upstream".to_owned(), auth.upstream.as_str()));
    let copies = route.mirror.as_ref().map(|mirror| ("mirror.upstream".to_owned(), mirror.upstream.as_str()));
    for (key, name) in only.into_iter().chain(decides).chain(copies).chain(named) {
        check_upstream(name, upstreams, at(&key), problems);
    }
    let is_sticky =
        |(name, _): (&str, u16)| upstreams.get(name).is_some_and(|upstream| upstream.sticky.is_some());
    if route.cache.is_some() && route.shares().any(is_sticky) {
        let message =
            "is not for routes to an upstream with `sticky`: what fills the cache is nobody's request";
        problems.at(at("cache"), message);
    }
}

/// Tells at `path` if there is no upstream of that name, and which there are.
pub(crate) fn check_upstream(
    name: &str,
    upstreams: &BTreeMap<String, UpstreamConfig>,
    path: String,
    problems: &mut Problems,
) {
    if upstreams.contains_key(name) {
        return;
    }
    let known: Vec<_> = upstreams.keys().map(String::as_str).collect();
    let help = if known.is_empty() {
        format!("add [gateway.upstream.{name}] with its endpoints")
    } else {
        format!("known upstreams: {}", known.join(", "))
    };
    problems.at(path, format!("there is no upstream `{name}`")).help(help);
}

/// A prefix is written in one way only, because requests are compared with it in that way.
fn check_path(path: &str) -> Option<Flaw> {
    let message = if !path.starts_with('/') {
        "must begin with `/`"
    } else if path.contains("//") {
        "must not have empty segments: several slashes in a request count as one"
    } else if path.split('/').any(|segment| segment == "." || segment == "..") {
        "must not have `.` or `..` segments: requests with them are refused"
    } else if path.contains(['%', '\\', ';', '?', '#']) {
        "must be written plainly: without `%`, `\\`, `;`, `?` and `#`"
    } else {
        return None;
    };
    Some(Flaw::new("path", message))
}

impl RouteConfig {
    /// What is wrong with where it leads.
    fn check_target(&self, pattern: Option<&Pattern>) -> Vec<Flaw> {
        let mut flaws = Vec::new();
        let is_passed_on = self.shares().next().is_some() || !self.service.is_empty();
        let goes_on = is_passed_on || self.respond.is_some();
        if is_passed_on && self.respond.is_some() {
            flaws.push(Flaw::new("respond", "takes the place of an upstream: set one of them"));
        }
        if !self.service.is_empty() && self.shares().next().is_some() {
            flaws.push(Flaw::new("service", "takes the place of an upstream: set one of them"));
        }
        if !self.upstream.is_empty() && !self.split.is_empty() {
            flaws.push(Flaw::new("split", "takes the place of `upstream`: set one of them"));
        } else if !self.split.is_empty() && self.split.iter().all(|share| share.weight == 0) {
            flaws.push(Flaw::new("split", "must give some upstream a weight above 0"));
        }
        match self.redirect.as_ref().map(|redirect| Redirect::new(redirect, (&self.path, pattern), ANY_PORT))
        {
            None if !goes_on => flaws
                .push(Flaw::new("upstream", "must name an upstream, or `service` a service in this process")),
            Some(Err(flaw)) => flaws.push(flaw),
            Some(Ok(redirect)) if redirect.spares_https() && !goes_on => {
                flaws.push(Flaw::new("upstream", "must name an upstream for those who come over HTTPS"));
            }
            Some(Ok(redirect)) if !redirect.spares_https() && goes_on => {
                let message = "sends everybody elsewhere: the upstream is not used, nor is `respond`";
                flaws.push(Flaw::new("redirect.to", message));
            }
            None | Some(Ok(_)) => {}
        }
        flaws
    }

    /// What is wrong with answering its requests here.
    fn check_respond(&self) -> Vec<Flaw> {
        let Some(respond) = &self.respond else { return Vec::new() };
        let mut flaws = respond.check();
        let unused = [
            ("auth", self.auth != Auth::None),
            ("require_claims", !self.require_claims.is_empty()),
            ("basic_auth", self.basic_auth.is_some()),
            ("forward_auth", self.forward_auth.is_some()),
            ("compress", self.compress.is_some()),
        ];
        for (key, _) in unused.into_iter().filter(|(_, is_set)| *is_set) {
            flaws.push(Flaw::new(key, "has no effect with `respond`, which answers everybody before that"));
        }
        flaws
    }

    /// What is wrong with copying its requests.
    fn check_mirror(&self) -> Vec<Flaw> {
        let Some(mirror) = &self.mirror else { return Vec::new() };
        let mut flaws = mirror.check();
        if self.shares().any(|(name, _)| name == mirror.upstream) {
            let message = "must be another upstream: copies would take the connections of the requests";
            flaws.push(Flaw::new("mirror.upstream", message));
        }
        let is_passed_on = self.shares().next().is_some() || !self.service.is_empty();
        if !is_passed_on || self.cache.is_some() || self.stream {
            let message = "is for routes to an upstream or a service, without `cache` and `stream`";
            flaws.push(Flaw::new("mirror", message));
        }
        flaws
    }

    /// What is wrong with storing its responses.
    pub(crate) fn check_cache(&self) -> Vec<Flaw> {
        let mut flaws = Vec::new();
        if self.cache.is_some() && self.shares().next().is_none() {
            flaws.push(Flaw::new("cache", "is for routes to an upstream"));
        }
        if let Some(flaw) = self.cache.as_ref().and_then(RouteCacheConfig::flaw) {
            flaws.push(Flaw::new("cache.ignore_query", flaw));
        }
        if self.cache.is_some() && self.forward_auth.is_some() {
            let message =
                "is not for routes with `forward_auth`: a stored response would answer without asking";
            flaws.push(Flaw::new("cache", message));
        }
        if self.cache.is_some() && self.stream {
            flaws.push(Flaw::new("cache", "is not for routes with `stream`, whose answers have no end"));
        }
        flaws
    }

    /// What is wrong with whom it is for.
    pub(crate) fn check_access(&self) -> Vec<Flaw> {
        let mut flaws = Vec::new();
        for (key, list) in [("allow_from", &self.allow_from), ("deny_from", &self.deny_from)] {
            if list.len() > MAX_NETWORKS {
                flaws.push(Flaw::new(key, format!("has more than {MAX_NETWORKS} entries")));
            }
        }
        if let Some(basic) = &self.basic_auth {
            flaws.extend(basic.check());
            if self.auth != Auth::None || !self.require_claims.is_empty() {
                let message = "reads `Authorization`, as `auth` and `require_claims` do: set one of them";
                flaws.push(Flaw::new("basic_auth", message));
            }
            if self.cache.is_some() && !basic.user_header.is_empty() {
                let message =
                    "is not for routes with `cache`: what is stored for one user would answer others";
                flaws.push(Flaw::new("basic_auth.user_header", message));
            }
        }
        for (claim, wanted) in &self.require_claims {
            let has_values = match wanted {
                ClaimWanted::One(value) => !value.is_empty(),
                ClaimWanted::AnyOf(values) => {
                    !values.is_empty() && values.iter().all(|value| !value.is_empty())
                }
            };
            let key = format!("require_claims.{claim}");
            if claim.is_empty() || claim == "/" {
                flaws.push(Flaw::new(key, "must name a claim"));
            } else if !has_values {
                flaws.push(Flaw::new(key, "must name a value, or several of which one is enough"));
            }
        }
        flaws
    }

    /// What is wrong with the changes it makes.
    fn check_messages(&self, pattern: Option<&Pattern>) -> Vec<Flaw> {
        let mut flaws = Vec::new();
        if self.strip_prefix && !self.rewrite.is_empty() {
            flaws.push(Flaw::new("rewrite", "does what `strip_prefix` does: set one of them"));
        }
        let is_path = self.rewrite.starts_with('/') && self.rewrite.parse::<PathAndQuery>().is_ok();
        if !self.rewrite.is_empty() && (!is_path || self.rewrite.contains(['?', '#'])) {
            flaws.push(Flaw::new("rewrite", "must be a path that begins with `/`"));
        }
        if let Err(message) = Rewrite::of(self, pattern) {
            flaws.push(Flaw::new("rewrite", message));
        }
        if self.timeout.is_some_and(|timeout| timeout.as_duration().is_zero()) {
            flaws.push(Flaw::new("timeout", "must be longer than nothing"));
        }
        for (index, protocol) in self.upgrade.iter().enumerate() {
            let is_token =
                protocol.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._/".contains(&byte));
            let key = format!("upgrade[{index}]");
            if protocol.is_empty() || !is_token {
                flaws.push(Flaw::new(key, "must be the name of a protocol, such as `websocket`"));
            } else if protocol.to_ascii_lowercase().starts_with("h2") {
                flaws.push(Flaw::new(
                    key,
                    "would let clients past every rule of the gateway, as one long request",
                ));
            }
        }
        let rules =
            [("request_headers", &self.request_headers), ("response_headers", &self.response_headers)];
        for (table, config) in rules {
            let told = HeaderRules::new(config).1;
            flaws.extend(
                told.into_iter().map(|flaw| Flaw::new(format!("{table}.{}", flaw.key), flaw.message)),
            );
        }
        flaws
    }
}
