//! Fields in which servers are told who a client is: those that `basic_auth` and `forward_auth` write.
//!
//! A server that believes such a field on one route believes it on all of them. So no client may send it on any route.

use http::{HeaderName, header};

use crate::config::RouteConfig;

/// Whether clients ordinarily send this field themselves, so that other routes cannot remove it.
pub(crate) fn is_clients_own(name: &HeaderName) -> bool {
    const CLIENTS_OWN: [HeaderName; 10] = [
        header::ACCEPT,
        header::ACCEPT_ENCODING,
        header::ACCEPT_LANGUAGE,
        header::AUTHORIZATION,
        header::CACHE_CONTROL,
        header::COOKIE,
        header::ORIGIN,
        header::RANGE,
        header::REFERER,
        header::USER_AGENT,
    ];
    CLIENTS_OWN.contains(name)
}

/// Returns the fields by which any of the routes tells its server who the client is, each once.
pub(crate) fn fields<'c>(routes: impl Iterator<Item = &'c RouteConfig>) -> Vec<HeaderName> {
    let mut names: Vec<HeaderName> = routes
        .flat_map(|route| {
            let copied = route.forward_auth.iter().flat_map(|auth| &auth.copy_headers);
            copied.chain(route.basic_auth.iter().map(|basic| &basic.user_header))
        })
        .filter_map(|name| name.parse().ok())
        .filter(|name| !is_clients_own(name))
        .collect();
    names.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    names.dedup();
    names
}
