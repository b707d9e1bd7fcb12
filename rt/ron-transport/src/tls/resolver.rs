//! Which identity a client is shown, by the server name it asked for.

use std::{collections::HashMap, path::Path, sync::Arc};

use rustls::{
    client::verify_server_name,
    server::{ClientHello, ParsedCertificate, ResolvesServerCert},
    sign::CertifiedKey,
};
use rustls_pki_types::{DnsName, ServerName};

use super::TlsError;

/// The identities of one listener. Its size is that of the configuration; clients cannot grow it.
#[derive(Debug)]
pub(super) struct Identities {
    default: Option<Arc<CertifiedKey>>,
    exact: HashMap<String, Arc<CertifiedKey>>,
    /// The certificates of wildcard names, by the part after `*.`
    wildcard: HashMap<String, Arc<CertifiedKey>>,
}

impl Identities {
    /// Shows `default` to everybody, if there is one.
    pub(super) fn new(default: Option<Arc<CertifiedKey>>) -> Self {
        Self { default, exact: HashMap::new(), wildcard: HashMap::new() }
    }

    /// Shows `key`, read from `path`, to clients that ask for `name`.
    pub(super) fn add(&mut self, name: &str, key: Arc<CertifiedKey>, path: &Path) -> Result<(), TlsError> {
        let name = name.to_ascii_lowercase();
        check_covers(&key, &name, path)?;
        let suffix = name.strip_prefix("*.");
        let replaced = match suffix {
            Some(suffix) => self.wildcard.insert(suffix.to_owned(), key),
            None => self.exact.insert(name.clone(), key),
        };
        if replaced.is_some() { Err(TlsError::DuplicateName { name }) } else { Ok(()) }
    }

    fn named(&self, name: &str) -> Option<&Arc<CertifiedKey>> {
        self.exact.get(name).or_else(|| self.wildcard.get(name.split_once('.')?.1))
    }
}

/// Makes sure that clients that ask for `name`, in lower case, accept the certificate.
pub(super) fn check_covers(key: &CertifiedKey, name: &str, path: &Path) -> Result<(), TlsError> {
    // A wildcard certificate covers any first label; one stands for all.
    let sample = name.strip_prefix("*.").map_or_else(|| name.to_owned(), |suffix| format!("any.{suffix}"));
    // Clients never send the dot of the root, so a name with one would never be met.
    let dns = DnsName::try_from(sample)
        .ok()
        .filter(|_| !name.ends_with('.'))
        .ok_or_else(|| TlsError::BadName { name: name.to_owned() })?;
    let covered = key
        .end_entity_cert()
        .and_then(ParsedCertificate::try_from)
        .and_then(|leaf| verify_server_name(&leaf, &ServerName::DnsName(dns)));
    covered.map_err(|_| TlsError::NameNotCovered { name: name.to_owned(), path: path.to_owned() })
}

impl ResolvesServerCert for Identities {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let named = hello.server_name().and_then(|name| self.named(name));
        named.or(self.default.as_ref()).map(Arc::clone)
    }
}
