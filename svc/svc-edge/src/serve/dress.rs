//! The fields that responses have because of what is configured: caching, protection, other sites.

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{
        ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
        ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, CACHE_CONTROL, ORIGIN, REFERRER_POLICY,
        STRICT_TRANSPORT_SECURITY, VARY, X_CONTENT_TYPE_OPTIONS,
    },
};

use crate::{CacheControlConfig, CorsConfig};

/// A year: browsers that came over TLS come over TLS.
const HSTS: HeaderValue = HeaderValue::from_static("max-age=31536000");
const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");
const NO_REFERRER: HeaderValue = HeaderValue::from_static("no-referrer");
/// What a page of another site may read of a response, beside its body.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "Accept-Ranges, Age, Cache-Status, Content-Encoding, Content-Length, Content-Range, ETag",
);
/// The request fields that pages of other sites may send.
const ALLOWED: HeaderValue = HeaderValue::from_static(
    "Cache-Control, If-Match, If-Modified-Since, If-None-Match, If-Range, Prefer, Range",
);
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD");
/// How long browsers may cache a preflight response: a day.
const PREFLIGHT_MAX_AGE: HeaderValue = HeaderValue::from_static("86400");
const BY_ORIGIN: HeaderValue = HeaderValue::from_static("Origin");
const ANY: HeaderValue = HeaderValue::from_static("*");

/// What kind of thing is served, as far as caching is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Static files and raw packs.
    Asset,
    /// Tiles and TileJSON.
    Tile,
    /// Objects by content id.
    Object,
    /// Objects of origins, which say so themselves.
    Filled,
    /// What changes from one moment to the next: to be asked for again.
    Live,
}

/// The fields, made once for each configuration.
#[derive(Debug)]
pub(crate) struct Dress {
    assets: Option<HeaderValue>,
    tiles: Option<HeaderValue>,
    objects: Option<HeaderValue>,
    cors: Cors,
}

#[derive(Debug)]
enum Cors {
    Nobody,
    Anybody,
    These(Box<[HeaderValue]>),
}

impl Dress {
    pub(crate) fn new(cache: &CacheControlConfig, cors: &CorsConfig) -> Self {
        let value = |text: &str| HeaderValue::from_str(text).ok().filter(|value| !value.is_empty());
        let sites = &cors.allow_origins;
        let cors = match () {
            () if sites.is_empty() => Cors::Nobody,
            () if sites.iter().any(|site| site == "*") => Cors::Anybody,
            () => Cors::These(sites.iter().filter_map(|site| value(site)).collect()),
        };
        Self { assets: value(&cache.assets), tiles: value(&cache.tiles), objects: value(&cache.cas), cors }
    }

    /// Says how long a response may be kept.
    pub(crate) fn cache(&self, class: Class, response: &mut HeaderMap) {
        let value = match class {
            Class::Asset => self.assets.clone(),
            Class::Tile => self.tiles.clone(),
            Class::Object => self.objects.clone(),
            Class::Filled => None,
            Class::Live => Some(HeaderValue::from_static("no-cache")),
        };
        if let Some(value) = value {
            response.insert(CACHE_CONTROL, value);
        }
    }

    /// Adds what every response has, refusals too.
    pub(crate) fn protect(&self, request: &HeaderMap, tls: bool, response: &mut HeaderMap) {
        response.insert(X_CONTENT_TYPE_OPTIONS, NOSNIFF);
        response.insert(REFERRER_POLICY, NO_REFERRER);
        if tls {
            response.insert(STRICT_TRANSPORT_SECURITY, HSTS);
        }
        if matches!(self.cors, Cors::These(_)) {
            add(response, VARY, BY_ORIGIN);
        }
        if let Some(site) = self.allowed(request) {
            response.insert(ACCESS_CONTROL_ALLOW_ORIGIN, site);
            response.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        }
    }

    /// Adds what a browser asks for before it lets a page of another site ask.
    pub(crate) fn preflight(&self, request: &HeaderMap, response: &mut HeaderMap) {
        if self.allowed(request).is_some() {
            response.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
            response.insert(ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED);
            response.insert(ACCESS_CONTROL_MAX_AGE, PREFLIGHT_MAX_AGE);
        }
    }

    /// Who may read the response, if the request is from a page that may. What everybody may read says so to everybody: a cache
    /// on the way, such as the browser's, gives a page what was asked for without an `Origin`.
    fn allowed(&self, request: &HeaderMap) -> Option<HeaderValue> {
        match &self.cors {
            Cors::Nobody => None,
            Cors::Anybody => Some(ANY),
            Cors::These(sites) => {
                let origin = request.get(ORIGIN)?;
                sites.iter().find(|site| *site == origin).cloned()
            }
        }
    }
}

/// Adds to a list that may be there already.
fn add(response: &mut HeaderMap, name: HeaderName, value: HeaderValue) {
    response.append(name, value);
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn dress(sites: &[&str]) -> Dress {
        let cors = CorsConfig { allow_origins: sites.iter().map(|&site| site.to_owned()).collect() };
        Dress::new(&CacheControlConfig::default(), &cors)
    }

    fn told(dress: &Dress, origin: Option<&str>) -> HeaderMap {
        let mut request = HeaderMap::new();
        if let Some(origin) = origin {
            request.insert(ORIGIN, origin.parse().unwrap());
        }
        let mut response = HeaderMap::new();
        dress.protect(&request, false, &mut response);
        dress.preflight(&request, &mut response);
        response
    }

    #[test]
    fn other_sites_are_denied_unless_they_are_listed() {
        let site = "https://map.example";
        for (sites, origin, allowed) in [
            (&[][..], Some(site), None),
            (&["*"], Some(site), Some("*")),
            (&["*"], None, Some("*")),
            (&[site], Some(site), Some(site)),
            (&["https://other.example", site], Some(site), Some(site)),
            (&[site], Some("https://map.example.evil"), None),
            (&[site], Some("null"), None),
            (&[site], None, None),
        ] {
            let told = told(&dress(sites), origin);
            let value = told.get(ACCESS_CONTROL_ALLOW_ORIGIN).map(|value| value.to_str().unwrap());
            assert_eq!(value, allowed, "{sites:?} {origin:?}");
            assert_eq!(
                told.contains_key(ACCESS_CONTROL_ALLOW_METHODS),
                allowed.is_some(),
                "{sites:?} {origin:?}"
            );
            let by_origin = !sites.is_empty() && sites != ["*"];
            assert_eq!(told.contains_key(VARY), by_origin, "{sites:?} {origin:?}");
        }
    }

    #[test]
    fn only_over_tls_are_browsers_told_to_stay_there() {
        for tls in [false, true] {
            let mut response = HeaderMap::new();
            dress(&[]).protect(&HeaderMap::new(), tls, &mut response);
            assert_eq!(response.contains_key(STRICT_TRANSPORT_SECURITY), tls);
            assert_eq!(response[X_CONTENT_TYPE_OPTIONS], "nosniff");
        }
    }

    #[test]
    fn an_empty_cache_control_says_nothing() {
        let cache = CacheControlConfig { assets: String::new(), ..CacheControlConfig::default() };
        let dress = Dress::new(&cache, &CorsConfig::default());
        let mut response = HeaderMap::new();
        dress.cache(Class::Asset, &mut response);
        assert!(response.is_empty());
        dress.cache(Class::Object, &mut response);
        assert_eq!(response[CACHE_CONTROL], "public, max-age=31536000, immutable");
    }
}
