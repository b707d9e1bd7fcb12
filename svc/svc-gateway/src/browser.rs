//! What browsers are told by routes with `cors` or `security_headers`: which pages of other sites may use the route, and how
//! to protect their users.

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
    header::{
        ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
        ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
        ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, STRICT_TRANSPORT_SECURITY,
        VARY,
    },
};
use ron_transport::{Body, Request, Response};

use crate::config::{CorsConfig, RouteConfig, SecurityHeaders};

/// The fields of a preset, by name.
type Fields = &'static [(&'static str, &'static str)];

const BASIC: Fields = &[
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "SAMEORIGIN"),
    ("referrer-policy", "strict-origin-when-cross-origin"),
];
const STRICT: Fields = &[
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    (
        "content-security-policy",
        "default-src 'self'; object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'",
    ),
    ("cross-origin-opener-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
];
const A_YEAR: HeaderValue = HeaderValue::from_static("max-age=31536000");
const TWO_YEARS: HeaderValue = HeaderValue::from_static("max-age=63072000; includeSubDomains");

/// The CORS and security fields of a route.
#[derive(Debug)]
pub(crate) struct Browser {
    cors: Option<Cors>,
    fields: Vec<(HeaderName, HeaderValue)>,
    /// For how long only HTTPS is to be used; told over TLS alone.
    only_https: Option<HeaderValue>,
}

#[derive(Debug)]
struct Cors {
    /// The allowed origins; empty for all.
    origins: Box<[HeaderValue]>,
    methods: HeaderValue,
    /// `None` for those that are asked for.
    headers: Option<HeaderValue>,
    expose: Option<HeaderValue>,
    credentials: bool,
    max_age: HeaderValue,
}

/// The site that a request comes from.
#[derive(Debug)]
pub(crate) enum Site {
    /// Not a page of another site, or of one that may not.
    None,
    /// One that may, or any where all may: what is said in `Access-Control-Allow-Origin`.
    May(HeaderValue),
}

impl Browser {
    /// What a route tells; `None` if it is nothing.
    pub(crate) fn new(config: &RouteConfig) -> Option<Self> {
        let (fields, only_https) = match config.security_headers {
            SecurityHeaders::Off => (&[][..], None),
            SecurityHeaders::Basic => (BASIC, Some(A_YEAR)),
            SecurityHeaders::Strict => (STRICT, Some(TWO_YEARS)),
        };
        let cors = config.cors.as_ref().map(Cors::new);
        if cors.is_none() && only_https.is_none() {
            return None;
        }
        let field = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        Some(Self { cors, fields: fields.iter().map(field).collect(), only_https })
    }

    /// The site of a request, if there are rules about sites.
    pub(crate) fn site(&self, request: &HeaderMap) -> Site {
        self.cors.as_ref().and_then(|cors| cors.allowed(request)).map_or(Site::None, Site::May)
    }

    /// The answer to a browser that asks what a page of another site may do; `None` if it does not ask, or there are no rules
    /// about sites.
    pub(crate) fn preflight(&self, request: &Request) -> Option<Response> {
        let (cors, headers) = (self.cors.as_ref()?, request.headers());
        let asks = request.method() == Method::OPTIONS
            && headers.contains_key(ORIGIN)
            && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        if !asks {
            return None;
        }
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        if cors.allowed(headers).is_some() {
            let told = response.headers_mut();
            told.insert(ACCESS_CONTROL_ALLOW_METHODS, cors.methods.clone());
            let wanted =
                cors.headers.clone().or_else(|| headers.get(ACCESS_CONTROL_REQUEST_HEADERS).cloned());
            told.extend(wanted.map(|wanted| (ACCESS_CONTROL_ALLOW_HEADERS, wanted)));
            told.insert(ACCESS_CONTROL_MAX_AGE, cors.max_age.clone());
        }
        Some(response)
    }

    /// Adds the browser fields to a response of the route, from any source.
    pub(crate) fn dress(&self, site: Site, is_https: bool, response: &mut HeaderMap) {
        for (name, value) in &self.fields {
            response.entry(name).or_insert_with(|| value.clone());
        }
        if let Some(only_https) = self.only_https.as_ref().filter(|_| is_https) {
            response.entry(STRICT_TRANSPORT_SECURITY).or_insert_with(|| only_https.clone());
        }
        if let Some(cors) = &self.cors {
            cors.dress(site, response);
        }
    }
}

impl Cors {
    fn new(config: &CorsConfig) -> Self {
        let is_any = config.allow_origins.iter().any(|origin| origin == "*");
        // What the configuration's check refuses is left out.
        let list = |names: &[String]| HeaderValue::try_from(names.join(", ")).ok();
        let origins =
            config.allow_origins.iter().filter(|_| !is_any).filter_map(|origin| origin.parse().ok());
        let asked_for = config.allow_headers.iter().any(|name| name == "*");
        Self {
            origins: origins.collect(),
            methods: list(&config.allow_methods).unwrap_or(HeaderValue::from_static("")),
            headers: if asked_for { None } else { list(&config.allow_headers) },
            expose: list(&config.expose_headers).filter(|value| !value.is_empty()),
            credentials: config.allow_credentials,
            max_age: HeaderValue::from(config.max_age.as_duration().as_secs()),
        }
    }

    /// What is said of the site of a request, if it may. What all sites may read says so to everybody: a cache on the way, such as
    /// the browser's, gives a page what was asked for without an `Origin`.
    fn allowed(&self, request: &HeaderMap) -> Option<HeaderValue> {
        if self.origins.is_empty() {
            return Some(HeaderValue::from_static("*"));
        }
        let origin = request.get(ORIGIN)?;
        self.origins.iter().find(|known| *known == origin).cloned()
    }

    fn dress(&self, site: Site, response: &mut HeaderMap) {
        for name in
            [ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_EXPOSE_HEADERS]
        {
            response.remove(name);
        }
        if !self.origins.is_empty() {
            response.append(VARY, HeaderValue::from_static("origin"));
        }
        let Site::May(origin) = site else { return };
        response.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        if self.credentials {
            response.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        }
        response.extend(self.expose.clone().map(|expose| (ACCESS_CONTROL_EXPOSE_HEADERS, expose)));
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use http::header::{CONTENT_SECURITY_POLICY, X_FRAME_OPTIONS};

    use super::*;

    fn cors(origins: &[&str]) -> CorsConfig {
        let allow_origins = origins.iter().map(|&origin| origin.to_owned()).collect();
        CorsConfig { allow_origins, ..CorsConfig::default() }
    }

    fn browser(cors: Option<CorsConfig>, security_headers: SecurityHeaders) -> Option<Browser> {
        Browser::new(&RouteConfig { cors, security_headers, ..RouteConfig::default() })
    }

    fn from(origin: &str) -> HeaderMap {
        HeaderMap::from_iter([(ORIGIN, origin.parse().unwrap())])
    }

    fn told(browser: &Browser, request: &HeaderMap, mut response: HeaderMap) -> HeaderMap {
        browser.dress(browser.site(request), true, &mut response);
        response
    }

    #[test]
    fn a_route_without_rules_tells_nothing() {
        assert!(browser(None, SecurityHeaders::Off).is_none());
    }

    #[test]
    fn only_listed_sites_are_allowed_and_the_servers_own_opinion_is_replaced() {
        let browser =
            browser(Some(cors(&["https://a.test", "https://b.test"])), SecurityHeaders::Off).unwrap();
        let servers = || HeaderMap::from_iter([(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"))]);
        assert_eq!(
            told(&browser, &from("https://b.test"), servers())[ACCESS_CONTROL_ALLOW_ORIGIN],
            "https://b.test"
        );
        for other in ["https://evil.test", "https://a.test.evil.test", "null", "http://a.test"] {
            let response = told(&browser, &from(other), servers());
            assert!(!response.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN), "{other}");
            assert_eq!(response[VARY], "origin", "{other}");
        }
        assert!(!told(&browser, &HeaderMap::new(), servers()).contains_key(ACCESS_CONTROL_ALLOW_ORIGIN));
    }

    #[test]
    fn what_every_site_may_read_says_so_to_everybody() {
        let browser = browser(Some(cors(&["*"])), SecurityHeaders::Off).unwrap();
        for request in [HeaderMap::new(), from("https://a.test")] {
            let response = told(&browser, &request, HeaderMap::new());
            assert_eq!(response[ACCESS_CONTROL_ALLOW_ORIGIN], "*");
            assert!(!response.contains_key(VARY));
        }
    }

    #[test]
    fn a_preflight_is_answered_and_other_requests_are_not() {
        let browser = browser(Some(cors(&["https://a.test"])), SecurityHeaders::Off).unwrap();
        let ask = |method: Method, fields: &[(&str, &str)]| {
            let mut request = http::Request::builder().method(method);
            for (name, value) in fields {
                request = request.header(*name, *value);
            }
            browser.preflight(&request.body(Body::empty()).unwrap())
        };
        let wanted = ("access-control-request-method", "PUT");
        let answer = ask(Method::OPTIONS, &[("origin", "https://a.test"), wanted]).unwrap();
        assert_eq!(answer.status(), 204);
        assert!(answer.headers()[ACCESS_CONTROL_ALLOW_METHODS].to_str().unwrap().contains("PUT"));
        assert_eq!(answer.headers()[ACCESS_CONTROL_MAX_AGE], "600");
        let refused = ask(Method::OPTIONS, &[("origin", "https://evil.test"), wanted]).unwrap();
        assert!(!refused.headers().contains_key(ACCESS_CONTROL_ALLOW_METHODS));
        assert!(ask(Method::OPTIONS, &[("origin", "https://a.test")]).is_none());
        assert!(ask(Method::GET, &[("origin", "https://a.test"), wanted]).is_none());
    }

    #[test]
    fn a_preset_leaves_what_the_server_says_itself() {
        let strict = browser(None, SecurityHeaders::Strict).unwrap();
        let own =
            HeaderMap::from_iter([(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src *"))]);
        let response = told(&strict, &HeaderMap::new(), own);
        assert_eq!(response[CONTENT_SECURITY_POLICY], "default-src *");
        assert_eq!(response[X_FRAME_OPTIONS], "DENY");
        assert_eq!(response[STRICT_TRANSPORT_SECURITY], TWO_YEARS);
        let mut in_the_clear = HeaderMap::new();
        strict.dress(Site::None, false, &mut in_the_clear);
        assert!(!in_the_clear.contains_key(STRICT_TRANSPORT_SECURITY));
    }
}
