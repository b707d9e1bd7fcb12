//! What to ask and whom: `https://host/path`.

use std::{fmt, str::FromStr};

use http::{Uri, uri::PathAndQuery};

use super::{Endpoint, EndpointError, Host, Scheme, Target};

/// A URL of something on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpUrl {
    /// The server of the URL.
    pub endpoint: Endpoint,
    /// The path and query of the URL.
    pub path: PathAndQuery,
}

/// Why a text is no such URL. No variant repeats credentials or a query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HttpUrlError {
    /// Not of a known form.
    #[error("write https://host/path or http://host/path")]
    Form,
    /// Credentials in the URL: they would be shown wherever the configuration is.
    #[error("a URL cannot carry credentials before `@`: remove them")]
    UserInfo,
    /// The server's address cannot be dialled.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
}

impl HttpUrl {
    /// Whether somebody on the way could read and change what is said.
    #[must_use]
    pub fn is_exposed(&self) -> bool {
        self.endpoint.scheme() == Scheme::Http && !is_local(self.endpoint.target())
    }
}

fn is_local(target: &Target) -> bool {
    match target {
        Target::Unix(_) => true,
        Target::Tcp { host: Host::Ip(ip), .. } => ip.is_loopback(),
        Target::Tcp { host: Host::Name(name), .. } => name == "localhost",
    }
}

impl FromStr for HttpUrl {
    type Err = HttpUrlError;

    fn from_str(text: &str) -> Result<Self, HttpUrlError> {
        let uri: Uri = text.parse().map_err(|_| HttpUrlError::Form)?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(HttpUrlError::Form);
        };
        // First of all, so that no later message can repeat a password.
        if authority.as_str().contains('@') {
            return Err(HttpUrlError::UserInfo);
        }
        let endpoint = format!("{scheme}://{authority}").parse()?;
        let path = uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        Ok(Self { endpoint, path })
    }
}

impl fmt::Display for HttpUrl {
    /// Without the query, which may hold a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.endpoint, self.path.path())
    }
}
