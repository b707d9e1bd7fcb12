//! The origins that may be asked, and how: the compiled `allow` of the configuration.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::{Path, PathBuf},
    sync::Arc,
};

use ron_transport::{
    addr::Scheme,
    client::Protocol,
    tls::{ClientTls, ClientTlsConfig, Roots, TlsError},
};
use types::{Reason, Refusal};

use super::url::OriginUrl;
use crate::config::{AllowConfig, OriginEtag, OriginScheme};

/// The public authorities, where most systems keep them.
const SYSTEM_BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";

/// How the origins of one entry are asked.
#[derive(Debug)]
pub(super) struct Rule {
    /// The entry's host, as it is listed: what its origins are called together.
    pub(super) name: Arc<str>,
    pub(super) scheme: Scheme,
    pub(super) etag: OriginEtag,
    /// Whether they may be at private addresses.
    pub(super) private: bool,
    /// Whether long objects are sent while they are fetched.
    pub(super) stream: bool,
    /// Who vouches for them; `None` without TLS.
    pub(super) tls: Option<ClientTls>,
}

/// What holds at one host, or under one: a port if it is not the usual one, and the rule there.
type AtPorts = Vec<(Option<u16>, Arc<Rule>)>;

/// The origins that may be asked.
#[derive(Debug, Default)]
pub(super) struct Allow {
    exact: HashMap<Box<str>, AtPorts>,
    /// Those whose host ends so, with the dot.
    under: BTreeMap<Box<str>, AtPorts>,
    /// The names of all entries.
    pub(super) names: BTreeSet<Arc<str>>,
}

impl Allow {
    /// Compiles the list. Reads the bundles of authorities it names, and blocks for that.
    ///
    /// # Errors
    /// A bundle that cannot be used.
    pub(super) fn load(list: &[AllowConfig]) -> Result<Self, TlsError> {
        let mut allow = Self::default();
        let mut bundles = BTreeMap::new();
        for entry in list {
            let scheme = match entry.scheme {
                OriginScheme::Http => Scheme::Http,
                OriginScheme::Https => Scheme::Https,
            };
            let tls = match scheme {
                Scheme::Http => None,
                Scheme::Https => Some(authorities(&mut bundles, &entry.ca_path)?),
            };
            let name = entry.host.as_str().into();
            let rule = Arc::new(Rule {
                name,
                scheme,
                etag: entry.origin_etag,
                private: entry.private,
                stream: entry.stream,
                tls,
            });
            allow.names.insert(Arc::clone(&rule.name));
            let (host, port) = split_port(&entry.host);
            let port = port.filter(|port| *port != scheme.default_port());
            let at = match host.strip_prefix('*') {
                Some(suffix) => allow.under.entry(suffix.into()).or_default(),
                None => allow.exact.entry(host.into()).or_default(),
            };
            at.push((port, rule));
        }
        Ok(allow)
    }

    /// The object that what follows `/edge/assets/` names: a host, and a path with its query.
    ///
    /// # Errors
    /// The host is not on the list (`not_found` if it does not even look like one), or its path is none.
    pub(super) fn url(&self, asset: &str, query: Option<&str>) -> Result<OriginUrl, Refusal> {
        let (authority, path) = match asset.split_once('/') {
            Some((authority, _)) => (authority, &asset[authority.len()..]),
            None => (asset, "/"),
        };
        let authority = authority.to_ascii_lowercase();
        let (host, port) = split_port(&authority);
        match self.rule(host, port, None) {
            Some(rule) => OriginUrl::new(rule, host, port, path, query),
            None if asset.contains('/') && looks_like_a_host(host, port) => Err(refused(&authority)),
            None => Err(Refusal::new(Reason::NotFound, "no file and no origin has this name")),
        }
    }

    /// The object that the origin of another says it is at.
    ///
    /// # Errors
    /// It is not on the list, or not a place at all.
    pub(super) fn redirected(&self, from: &OriginUrl, location: &str) -> Result<OriginUrl, Refusal> {
        let location = location.split('#').next().unwrap_or_default();
        let (scheme, rest) = match location.split_once("://") {
            Some((scheme, rest)) if !scheme.contains(['/', '?']) => (Some(scheme), rest),
            _ => match location.strip_prefix("//") {
                Some(rest) => (Some(from.rule().scheme.as_str()), rest),
                None => return from.beside(location),
            },
        };
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        let behind = &rest[authority.len()..];
        let authority = authority.to_ascii_lowercase();
        let (host, port) = split_port(&authority);
        let rule = self.rule(host, port, scheme).ok_or_else(|| refused(&authority))?;
        let (path, query) = match behind.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (behind, None),
        };
        let path = super::path::resolved(if path.is_empty() { "/" } else { path });
        OriginUrl::new(rule, host, port, &path, query)
    }

    /// The rule for a host, whose scheme is the given one if any is given. The host itself goes before what it is under.
    fn rule(&self, host: &str, port: Option<u16>, scheme: Option<&str>) -> Option<&Arc<Rule>> {
        let here = self.exact.get(host).into_iter();
        let is_under = |suffix: &str| host.len() > suffix.len() && host.ends_with(suffix) && is_name(host);
        let above = self.under.iter().filter(|(suffix, _)| is_under(suffix)).map(|(_, at)| at);
        let mut all = here.chain(above).flatten();
        all.find(|(at, rule)| applies(*at, rule, port, scheme)).map(|(_, rule)| rule)
    }
}

/// Whether a rule holds at this port, where the usual one is as good as none, and for this scheme if one is named.
fn applies(at: Option<u16>, rule: &Rule, port: Option<u16>, scheme: Option<&str>) -> bool {
    let port = port.filter(|port| *port != rule.scheme.default_port());
    at == port && scheme.is_none_or(|scheme| scheme.eq_ignore_ascii_case(rule.scheme.as_str()))
}

/// Whom to trust for origins of this bundle; the system's if it is empty. Each bundle is read once.
fn authorities(bundles: &mut BTreeMap<PathBuf, ClientTls>, path: &Path) -> Result<ClientTls, TlsError> {
    let path = if path.as_os_str().is_empty() { Path::new(SYSTEM_BUNDLE) } else { path };
    if let Some(tls) = bundles.get(path) {
        return Ok(tls.clone());
    }
    let roots = Roots::File(path.to_owned());
    let tls =
        ClientTls::load(&ClientTlsConfig { alpn: Protocol::Auto.alpn(), ..ClientTlsConfig::new(roots) })?;
    bundles.insert(path.to_owned(), tls.clone());
    Ok(tls)
}

/// The host and the port behind it. What is no port is left where it is, and then names no host.
fn split_port(authority: &str) -> (&str, Option<u16>) {
    let port = |text: &str| text.parse().ok().filter(|port| *port != 0 && !text.starts_with(['0', '+']));
    match authority.rsplit_once(':') {
        Some((host, text)) => port(text).map_or((authority, None), |port| (host, Some(port))),
        None => (authority, None),
    }
}

/// Whether somebody meant a host by it rather than a folder: it has a port, is an address, or ends like a name.
fn looks_like_a_host(text: &str, port: Option<u16>) -> bool {
    let ends_like_a_name =
        |last: &str| last.len() >= 2 && last.bytes().all(|byte| byte.is_ascii_alphabetic());
    let named = text.trim_end_matches('.').rsplit_once('.').is_some_and(|(_, last)| ends_like_a_name(last));
    named || port.is_some() || text.contains(['@', ':']) || text.parse::<std::net::IpAddr>().is_ok()
}

/// Whether a host can be a DNS name, label by label.
fn is_name(host: &str) -> bool {
    let label = |label: &str| {
        let plain = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        (1..=63).contains(&label.len()) && plain && !label.starts_with('-') && !label.ends_with('-')
    };
    host.len() <= 253 && host.split('.').all(label)
}

fn refused(authority: &str) -> Refusal {
    // As much of it as helps: it is repeated to whoever sent it.
    let shown: String = authority.chars().take(100).collect();
    Refusal::new(Reason::NotAllowed, format!("{shown} is not on the list of origins"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(host: &str, scheme: OriginScheme) -> AllowConfig {
        AllowConfig { scheme, ..AllowConfig::new(host) }
    }

    fn allow(hosts: &[&str]) -> Allow {
        let list: Vec<_> = hosts.iter().map(|host| entry(host, OriginScheme::Http)).collect();
        Allow::load(&list).expect("no bundle is needed in the clear")
    }

    fn text(allow: &Allow, asset: &str) -> Result<String, Reason> {
        allow.url(asset, None).map(|url| url.text().to_owned()).map_err(|refusal| refusal.reason)
    }

    #[test]
    fn only_hosts_on_the_list_are_asked() {
        let allow = allow(&["tiles.example.org", "10.0.0.7:8000", "*.cdn.example"]);
        for (asset, url) in [
            ("tiles.example.org/a/b.png", "http://tiles.example.org/a/b.png"),
            ("Tiles.Example.ORG/A", "http://tiles.example.org/A"),
            ("tiles.example.org:80/a", "http://tiles.example.org/a"),
            ("tiles.example.org", "http://tiles.example.org/"),
            ("10.0.0.7:8000/x", "http://10.0.0.7:8000/x"),
            ("a.cdn.example/x", "http://a.cdn.example/x"),
            ("a.b.cdn.example/x", "http://a.b.cdn.example/x"),
        ] {
            assert_eq!(text(&allow, asset).as_deref(), Ok(url), "{asset}");
        }
        for asset in [
            "example.org/a",
            "xtiles.example.org/a",
            "tiles.example.org.evil.example/a",
            "tiles.example.org./a",
            "tiles.example.org:8080/a",
            "tiles.example.org:080/a",
            "user@tiles.example.org/a",
            "10.0.0.7/x",
            "10.0.0.7:8001/x",
            "cdn.example/x",
            ".cdn.example/x",
            "-.cdn.example/x",
            "evil.example%2f.cdn.example/x",
            "a.cdn.example:81/x",
            "localhost:9600/metrics",
        ] {
            assert_eq!(text(&allow, asset), Err(Reason::NotAllowed), "{asset}");
        }
        for asset in ["css/site.css", "site.css", "v1.2/site.css", "", "/", "a.b./"] {
            assert_eq!(text(&allow, asset), Err(Reason::NotFound), "{asset}");
        }
        assert_eq!(text(&allow, "tiles.example.org/../a"), Err(Reason::Malformed));
    }

    #[test]
    fn a_query_is_part_of_the_name() {
        let allow = allow(&["a.example"]);
        let url = allow.url("a.example/x", Some("v=%41")).expect("it is on the list");
        assert_eq!((url.text(), url.path_and_query()), ("http://a.example/x?v=A", "/x?v=A"));
    }

    #[test]
    fn a_redirect_stays_on_the_list_and_on_its_scheme() {
        let allow = allow(&["a.example", "b.example:81", "*.c.example"]);
        let from = allow.url("a.example/x/y", Some("q=1")).expect("it is on the list");
        let to = |location: &str| {
            let url = allow.redirected(&from, location);
            url.map(|url| url.text().to_owned()).map_err(|refusal| refusal.reason)
        };
        for (location, url) in [
            ("/z", "http://a.example/z"),
            ("z?w", "http://a.example/x/z?w"),
            ("../z/.", "http://a.example/z/"),
            ("?w", "http://a.example/x/y?w"),
            ("", "http://a.example/x/y?q=1"),
            ("#f", "http://a.example/x/y?q=1"),
            ("//b.example:81/z", "http://b.example:81/z"),
            ("http://a.example", "http://a.example/"),
            ("HTTP://A.example:80/z#f", "http://a.example/z"),
            ("http://d.c.example?w", "http://d.c.example/?w"),
            ("/z?u=http://evil.example/", "http://a.example/z?u=http://evil.example/"),
        ] {
            assert_eq!(to(location).as_deref(), Ok(url), "{location}");
        }
        for location in [
            "http://evil.example/",
            "//evil.example/",
            "https://a.example/",
            "ftp://a.example/",
            "http://b.example/",
            "http://a.example@evil.example/",
            "http://127.0.0.1/",
            "http://[::1]/",
        ] {
            assert_eq!(to(location), Err(Reason::NotAllowed), "{location}");
        }
        assert_eq!(to("/%2e%2e/z"), Err(Reason::Malformed));
        assert_eq!(to("/a\\b"), Err(Reason::Malformed));
    }

    #[test]
    fn a_bundle_that_cannot_be_read_is_reported() {
        let list = [AllowConfig { ca_path: "/nowhere/ca.pem".into(), ..AllowConfig::new("a.example") }];
        assert!(Allow::load(&list).is_err());
    }
}
