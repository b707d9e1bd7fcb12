//! What the cache knows a request by.
//!
//! **The key** is the target as its server gets it: the scheme, the host in its normal form, and the path and query as they came,
//! without parameters that make no difference (see [`RouteCache::normalize`]). **The partition** is whatever
//! else the server is told that could change its answer and is no field of an ordinary client: the route, which decides where
//! requests go and how they are changed; the tenant; the client's certificate; and what a trusted proxy says of the request.
//! Fields of clients that would be believed only from a proxy are not passed on, so they need not be in either.

use std::{borrow::Cow, cell::RefCell, sync::Arc};

use http::{HeaderName, Method, header};
use http_body::Body as _;
use httpcache::{reuse::CONDITIONS, storage::Asked};
use httprules::{cache_control::RequestDirectives, host};
use ron_transport::{Request, deadline};

use super::RouteCache;
use crate::{
    client_addr::Client,
    message::{self, Field, Survey},
};

/// Longer targets are forwarded without a lookup.
const MAX_KEY: usize = 4096;

/// A request as the cache sees it.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(super) key: Arc<str>,
    pub(super) partition: Arc<[u8]>,
    pub(super) asked: Asked,
    pub(super) method: Method,
    /// Whether its client asks under conditions, or for a part.
    pub(super) is_conditional: bool,
    /// Whether its client says how long its server may take.
    pub(super) has_deadline: bool,
    /// Fields of the client that are not passed on.
    pub(super) removed: Vec<HeaderName>,
}

/// Who asks, as far as servers are told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Who<'a> {
    pub(super) client: &'a Client,
    pub(super) survey: &'a Survey,
    /// The tenant as servers are told.
    pub(super) tenant: Option<&'a [u8]>,
}

impl Ask {
    /// What the cache knows a request by; `None` for requests that are none of its business: other methods than GET and
    /// HEAD, those with a body, which would be part of what decides the answer, and those that change the protocol.
    pub(super) fn of(route: &RouteCache, who: &Who<'_>, request: &Request) -> Option<Self> {
        let (method, fields) = (request.method(), who.survey.fields);
        let is_plain = (*method == Method::GET || *method == Method::HEAD)
            && request.body().is_end_stream()
            && !fields.has(Field::Upgrade);
        if !is_plain {
            return None;
        }
        let headers = request.headers();
        let has_deadline = Field::DEADLINES.into_iter().any(|field| fields.has(field));
        let is_conditional = CONDITIONS.iter().any(|name| headers.contains_key(name));
        Some(Self {
            key: key(who.client.is_https, host(request), &target(request))?,
            partition: partition(route, who, request),
            asked: Asked {
                directives: RequestDirectives::of(headers),
                is_authorized: fields.has(Field::Authorization),
                has_cookie: fields.has(Field::Cookie),
                has_conditions: is_conditional || has_deadline,
            },
            method: method.clone(),
            is_conditional,
            has_deadline,
            removed: who.survey.removed().to_vec(),
        })
    }
}

/// The host that a request is for, as the client writes it.
pub(super) fn host(request: &Request) -> &str {
    let field = || request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let authority = request.uri().authority().map(|authority| authority.as_str());
    authority.or_else(field).unwrap_or_default()
}

/// The path and the query of a request as its server gets them: a whole URI may have a query without a path.
pub(super) fn target(request: &Request) -> Cow<'_, str> {
    match request.uri().path_and_query().map_or("/", |target| target.as_str()) {
        query if query.starts_with('?') => format!("/{query}").into(),
        target => target.into(),
    }
}

/// The key of a target, with the host in its normal form; `None` if it is too long.
pub(super) fn key(is_https: bool, host: &str, target: &str) -> Option<Arc<str>> {
    if host.len() + target.len() > MAX_KEY {
        return None;
    }
    // Every hit needs its key: it is put together in memory that each thread has for it.
    thread_local! {
        static KEY: RefCell<String> = const { RefCell::new(String::new()) };
    }
    KEY.with_borrow_mut(|key| {
        key.clear();
        key.extend([scheme(is_https), "://"]);
        key.push_str(host::normal(host, is_https).as_deref().unwrap_or(host));
        key.push_str(target);
        Some(Arc::from(key.as_str()))
    })
}

pub(super) const fn scheme(is_https: bool) -> &'static str {
    if is_https { "https" } else { "http" }
}

fn partition(route: &RouteCache, who: &Who<'_>, request: &Request) -> Arc<[u8]> {
    let certificate = who.client.certificate_field();
    if who.tenant.is_none() && certificate.is_none() && !who.client.is_believed() {
        return Arc::clone(&route.partition);
    }
    let mut text = route.partition.to_vec();
    // Each part with its length before it, so that no two lists of parts are the same text.
    let mut add = |kind: u8, part: &[u8]| {
        text.push(kind);
        text.extend_from_slice(&part.len().to_le_bytes());
        text.extend_from_slice(part);
    };
    if let Some(tenant) = who.tenant {
        add(b't', tenant);
    }
    if let Some(certificate) = certificate {
        add(b'c', certificate.as_bytes());
    }
    if who.client.is_believed() {
        for (name, value) in request.headers().iter().filter(|(name, _)| message::is_proxys_word(name)) {
            add(b'n', name.as_str().as_bytes());
            add(b'v', value.as_bytes());
        }
    }
    text.into()
}

/// Whether a server may be told another value of this field than its client sent, or than is compared: a response that
/// varies with such a field is not stored.
pub(super) fn is_rewritten(name: &HeaderName) -> bool {
    if deadline::FIELDS.contains(name) {
        return true;
    }
    match Field::of(name) {
        Some(Field::Host | Field::Cookie | Field::Authorization | Field::ForwardedProto | Field::Tenant) => {
            false
        }
        Some(_) => true,
        None => !message::is_plain(name),
    }
}
