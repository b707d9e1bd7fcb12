//! Where an issuer publishes its keys: `https://id.example/keys.json`, or `file:/etc/omnigate/keys.json`.

use std::{fmt, path::PathBuf, str::FromStr};

use ron_transport::addr::{EndpointError, HttpUrl, HttpUrlError, Scheme};

/// Where a key set is had from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JwksSource {
    /// A key set on a server.
    Http(HttpUrl),
    /// A file, for tests and for nodes without a network.
    File(PathBuf),
}

/// Why a text names no key set. No variant repeats credentials or a query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// Not a URL of a known form.
    #[error("write https://host/path, http://host/path or file:/path")]
    Form,
    /// Credentials in the URL: they would be shown wherever the configuration is.
    #[error("a key set's URL cannot carry credentials before `@`: remove them")]
    UserInfo,
    /// A file whose path depends on where the program was started.
    #[error("a key set's file needs an absolute path: file:/path")]
    RelativePath,
    /// The server's address cannot be dialled.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
}

impl JwksSource {
    /// How the server is spoken to; `None` for a file.
    #[must_use]
    pub fn scheme(&self) -> Option<Scheme> {
        match self {
            Self::Http(url) => Some(url.endpoint.scheme()),
            Self::File(_) => None,
        }
    }

    /// Whether somebody on the way could put keys of their own in place of the issuer's.
    #[must_use]
    pub fn is_exposed(&self) -> bool {
        match self {
            Self::File(_) => false,
            Self::Http(url) => url.is_exposed(),
        }
    }
}

impl FromStr for JwksSource {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, SourceError> {
        if let Some(path) = text.strip_prefix("file:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return if path.starts_with('/') {
                Ok(Self::File(path.into()))
            } else {
                Err(SourceError::RelativePath)
            };
        }
        text.parse().map(Self::Http).map_err(|error| match error {
            HttpUrlError::Form => SourceError::Form,
            HttpUrlError::UserInfo => SourceError::UserInfo,
            HttpUrlError::Endpoint(error) => SourceError::Endpoint(error),
        })
    }
}

impl fmt::Display for JwksSource {
    /// Without the query, which may hold a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(url) => url.fmt(f),
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<String, SourceError> {
        text.parse().map(|source: JwksSource| source.to_string())
    }

    #[test]
    fn servers_and_files_can_be_named() {
        for (text, shown) in [
            ("https://id.example/keys.json", "https://id.example:443/keys.json"),
            ("http://127.0.0.1:9000", "http://127.0.0.1:9000/"),
            ("https://id.example/keys?token=secret", "https://id.example:443/keys"),
            ("file:/etc/keys.json", "file:/etc/keys.json"),
            ("file:///etc/keys.json", "file:/etc/keys.json"),
        ] {
            assert_eq!(parse(text).as_deref(), Ok(shown), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_without_repeating_it() {
        for text in ["", "keys.json", "/keys.json", "https://", "https:///keys"] {
            assert_eq!(parse(text), Err(SourceError::Form), "{text}");
        }
        assert_eq!(parse("file:keys.json"), Err(SourceError::RelativePath));
        assert_eq!(parse("https://me:secret@id.example/"), Err(SourceError::UserInfo));
        assert!(matches!(parse("ftp://id.example/keys"), Err(SourceError::Endpoint(_))));
    }

    #[test]
    fn only_what_crosses_a_network_in_the_clear_is_exposed() {
        for (text, exposed) in [
            ("http://id.example/", true),
            ("http://10.0.0.1/", true),
            ("http://localhost/", false),
            ("http://127.0.0.1:80/", false),
            ("http://[::1]/", false),
            ("https://id.example/", false),
            ("file:/keys", false),
        ] {
            assert_eq!(text.parse::<JwksSource>().unwrap().is_exposed(), exposed, "{text}");
        }
    }
}
