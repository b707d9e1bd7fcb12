//! An object of an origin that may be asked for it, by its one name.

use std::{fmt, sync::Arc};

use ron_transport::addr::Scheme;
use types::{Reason, Refusal};

use super::{
    allow::Rule,
    path::{self, MAX_LEN},
};

/// The URL of an object whose origin is on the list. Cheap to clone.
#[derive(Clone, Debug)]
pub struct OriginUrl {
    text: Arc<str>,
    rule: Arc<Rule>,
    host: (usize, usize),
    port: u16,
    /// Offset of the path in the text.
    path: usize,
}

impl OriginUrl {
    /// The object at a path, which begins with a slash. The host has been found on the list.
    pub(super) fn new(
        rule: &Arc<Rule>,
        host: &str,
        port: Option<u16>,
        path: &str,
        query: Option<&str>,
    ) -> Result<Self, Refusal> {
        let usual = rule.scheme.default_port();
        let port = port.unwrap_or(usual);
        let mut text = format!("{}://{host}", rule.scheme.as_str());
        let host = (text.len() - host.len(), text.len());
        if port != usual {
            text.push_str(&format!(":{port}"));
        }
        let begins = text.len();
        path::push_path(&mut text, path)?;
        if let Some(query) = query {
            text.push('?');
            path::push_query(&mut text, query)?;
        }
        if text.len() - begins > MAX_LEN {
            return Err(Refusal::new(Reason::Malformed, "the path is too long"));
        }
        Ok(Self { text: text.into(), rule: Arc::clone(rule), host, port, path: begins })
    }

    /// The object at a relative reference without a host, as a redirect of this one's origin gives it.
    pub(super) fn beside(&self, reference: &str) -> Result<Self, Refusal> {
        let (path, query) = match reference.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (reference, None),
        };
        let (own_path, own_query) = match self.path_and_query().split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (self.path_and_query(), None),
        };
        let scheme_like = path.split('/').next().is_some_and(|first| first.contains(':'));
        match path {
            _ if scheme_like => Err(Refusal::new(Reason::NotAllowed, "the origin redirects elsewhere")),
            "" => self.at(own_path, query.or(own_query)),
            _ if path.starts_with('/') => self.at(&path::resolved(path), query),
            _ => {
                let folder = own_path.rfind('/').map_or("", |last| &own_path[..last]);
                self.at(&path::resolved(&format!("{folder}/{path}")), query)
            }
        }
    }

    fn at(&self, path: &str, query: Option<&str>) -> Result<Self, Refusal> {
        Self::new(&self.rule, self.host(), Some(self.port), path, query)
    }

    /// All of it: the name that the object is known under.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the host of the URL, without a port.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.text[self.host.0..self.host.1]
    }

    /// Whether it is fetched over TLS.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.rule.scheme == Scheme::Https
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn key(&self) -> &Arc<str> {
        &self.text
    }

    pub(super) fn rule(&self) -> &Rule {
        &self.rule
    }

    /// Scheme, host and port: what a connection is for.
    pub(super) fn origin(&self) -> &str {
        &self.text[..self.path]
    }

    /// Host and port, as a request names them.
    pub(super) fn authority(&self) -> &str {
        &self.text[self.host.0..self.path]
    }

    pub(super) fn path_and_query(&self) -> &str {
        &self.text[self.path..]
    }
}

impl fmt::Display for OriginUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A query may hold a secret.
        f.write_str(self.text.split('?').next().unwrap_or_default())
    }
}
