//! Answers to the challenge of an authority in the TLS handshake (TLS-ALPN-01, RFC 8737).

use std::{collections::BTreeMap, fmt, sync::Arc};

use arc_swap::ArcSwap;
use rustls::{
    ServerConfig,
    server::ClientHello,
    sign::{CertifiedKey, SingleCertAndKey},
};
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer};

use super::{
    MinVersion, Pq,
    provider::{provider, versions},
};

/// The application protocol that an authority speaks to check a name.
pub const ACME_TLS: &[u8] = b"acme-tls/1";

/// The challenges that a listener answers, by the name that is checked. Clones share them. Without any, handshakes cost
/// nothing more than usual.
#[derive(Clone, Default)]
pub struct AlpnChallenges(Arc<ArcSwap<BTreeMap<String, Arc<ServerConfig>>>>);

impl AlpnChallenges {
    /// Shows this certificate to an authority that checks `name`, from now on.
    ///
    /// # Errors
    /// [`rustls::Error`] if the key cannot be used.
    pub fn put(
        &self,
        name: &str,
        certificate: CertificateDer<'static>,
        key: PrivatePkcs8KeyDer<'static>,
    ) -> Result<(), rustls::Error> {
        let pq = Pq::default();
        let provider = provider(pq);
        let key = provider.key_provider.load_private_key(key.into())?;
        // Not compared with its key, because the library does not read what RFC 8737 has in it.
        let proof = SingleCertAndKey::from(CertifiedKey::new(vec![certificate], key));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions(MinVersion::Tls12, pq))?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(proof));
        config.alpn_protocols = vec![ACME_TLS.to_vec()];
        let (name, config) = (name.to_ascii_lowercase(), Arc::new(config));
        self.change(|all| all.insert(name.clone(), Arc::clone(&config)));
        Ok(())
    }

    /// Answers no more challenges for `name`.
    pub fn remove(&self, name: &str) {
        self.change(|all| all.remove(&name.to_ascii_lowercase()));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.load().is_empty()
    }

    /// What a client is shown that speaks nothing but the authorities' protocol and asks for a name that is being checked.
    pub(super) fn proof_for(&self, hello: &ClientHello<'_>) -> Option<Arc<ServerConfig>> {
        let mut protocols = hello.alpn()?;
        let is_authority = protocols.next() == Some(ACME_TLS) && protocols.next().is_none();
        let name = hello.server_name().filter(|_| is_authority)?;
        self.0.load().get(&name.to_ascii_lowercase()).cloned()
    }

    fn change<T>(&self, change: impl Fn(&mut BTreeMap<String, Arc<ServerConfig>>) -> T) {
        self.0.rcu(|all| {
            let mut all = BTreeMap::clone(all);
            change(&mut all);
            all
        });
    }
}

impl fmt::Debug for AlpnChallenges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.load().keys()).finish()
    }
}
