//! From the `[gateway.acme]` table to what the renewer works with.

use std::{collections::BTreeMap, path::Path, time::Duration};

use ron_transport::{
    client::Protocol,
    tls::{ClientTls, ClientTlsConfig, Inspected, Roots, ServerTlsConfig, SniIdentity, TlsError},
};

use super::store::{AcmeStoreError, Store};
use crate::{
    GatewayConfig,
    config::{AcmeConfig, TlsConfig},
};

/// Why certificates cannot be obtained as configured.
#[derive(Debug, thiserror::Error)]
pub enum AcmeError {
    /// A node that forgets everything would ask for new certificates at every start.
    #[error("acme: certificates are kept in node.data_dir, and node.amnesia is on; set node.amnesia = false")]
    Amnesia,
    /// There are no trusted root certificates.
    #[error("acme: the system's list of CA certificates was not found: set acme.ca_path")]
    NoRoots,
    /// The authorities cannot be used.
    #[error("acme.ca_path: {0}")]
    Roots(TlsError),
    /// The data folder cannot be used.
    #[error("acme: {0}")]
    Store(#[from] AcmeStoreError),
}

/// What the renewer works with, until the next reload.
#[derive(Clone, Debug)]
pub struct AcmeSettings {
    pub(super) config: AcmeConfig,
    /// The names to have certificates for, in lower case.
    pub(super) names: Vec<String>,
    pub(super) store: Store,
    /// Whom to trust to be the CA.
    pub(super) ca_tls: ClientTls,
    /// The certificates that were kept when this was loaded, by name.
    pub(super) kept: BTreeMap<String, Inspected>,
    /// Until when the CA is not asked, after failures of a process before this one, by name, as Unix time.
    pub(super) waits: BTreeMap<String, Duration>,
    tls: TlsConfig,
}

impl AcmeSettings {
    /// The settings as configured; `None` if no certificates are to be obtained. Looks for certificates that are kept, and
    /// passes over those that cannot be served. Blocking.
    ///
    /// # Errors
    /// [`AcmeError`].
    pub fn load(config: &GatewayConfig, data_dir: Option<&Path>) -> Result<Option<Self>, AcmeError> {
        if !config.has_acme() {
            return Ok(None);
        }
        let data_dir = data_dir.ok_or(AcmeError::Amnesia)?;
        let ca_tls = Self::check(config)?;
        let store = Store::open(data_dir, config.acme.directory_url())?;
        let mut kept = BTreeMap::new();
        let names = config.acme_names();
        for name in &names {
            match store.certificate(name) {
                Ok(certificate) => drop(kept.insert(name.clone(), certificate)),
                Err(TlsError::Missing { .. }) => {}
                Err(error) => tracing::warn!(name, %error, "a kept certificate cannot be used"),
            }
        }
        let waits = names.iter().filter_map(|name| Some((name.clone(), store.wait(name)?))).collect();
        let (acme, tls) = (config.acme.clone(), config.tls.clone());
        Ok(Some(Self { config: acme, names, store, ca_tls, kept, waits, tls }))
    }

    /// Makes sure that the CA could be asked, without writing anything. Blocking.
    ///
    /// # Errors
    /// [`AcmeError`].
    pub fn check(config: &GatewayConfig) -> Result<ClientTls, AcmeError> {
        let roots = Roots::named_or_system(&config.acme.ca_path).ok_or(AcmeError::NoRoots)?;
        let tls = ClientTlsConfig { alpn: Protocol::Http1.alpn(), ..ClientTlsConfig::new(roots) };
        ClientTls::load(&tls).map_err(AcmeError::Roots)
    }

    /// The listener's certificates: those that are configured, and those that are kept.
    pub(crate) fn server_config(&self) -> ServerTlsConfig {
        self.server_config_with(self.kept.keys())
    }

    /// The same with the kept ones of these names.
    pub(super) fn server_config_with<'a>(&self, names: impl Iterator<Item = &'a String>) -> ServerTlsConfig {
        let kept = |name: &String| SniIdentity {
            name: name.clone(),
            identity: self.store.identity(name),
            ocsp_path: None,
            is_renewed: true,
        };
        self.tls.server_config_beside(names.map(kept).collect())
    }

    /// How long before its end a certificate is renewed; `None` for a share of its lifetime.
    pub(super) fn renew_before(&self) -> Option<Duration> {
        Some(self.config.renew_before.as_duration()).filter(|before| !before.is_zero())
    }
}
