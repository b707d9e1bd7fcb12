//! From PEM files to what rustls signs and verifies with. Blocking.

use std::{path::Path, sync::Arc, time::Duration};

use rustls::{
    CertificateError, Error, InconsistentKeys, RootCertStore,
    client::verify_server_cert_signed_by_trust_anchor, crypto::CryptoProvider, server::ParsedCertificate,
    sign::CertifiedKey,
};
use rustls_pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, UnixTime,
    pem::{self, PemObject},
};

use webpki::EndEntityCert;

use super::{
    IdentityFiles, Pq, RenewalId, Roots, TlsError, TlsWarning, der, provider::provider,
    resolver::check_covers,
};
use crate::files;

/// The most that is read from one file. A complete public CA bundle has about a quarter of it.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// How long before its end a certificate is warned of.
const EXPIRES_SOON_DAYS: u64 = 14;
const SECONDS_A_DAY: u64 = 24 * 60 * 60;
/// The most names of a certificate that are told.
const MAX_NAMES: usize = 32;

/// The most that is read from a bundle of revocation lists.
const MAX_CRL_BYTES: u64 = 16 * 1024 * 1024;

/// A certificate chain with its key, proven to belong together.
pub(super) struct Identity {
    pub(super) key: Arc<CertifiedKey>,
    pub(super) warning: Option<TlsWarning>,
    /// The last moment at which the leaf is valid, as Unix time; `None` if it says none that can be read.
    pub(super) not_after: Option<Duration>,
}

impl Identity {
    /// Logs what an operator should know about the certificate.
    pub(super) fn warn(&self) {
        if let Some(warning) = &self.warning {
            tracing::warn!("{warning}");
        }
    }
}

/// What is known of a certificate that lies in a file with its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspected {
    /// The first moment at which it is valid, as Unix time.
    pub not_before: Duration,
    /// The last moment at which it is valid, as Unix time.
    pub not_after: Duration,
    /// By what its authority knows it (RFC 9773); `None` if the certificate does not name its authority's key.
    pub renewal_id: Option<RenewalId>,
}

/// Reads a certificate and its key and checks that they can be served to clients that ask for `name`. Blocking.
///
/// # Errors
/// [`TlsError`].
pub fn inspect(files: &IdentityFiles, name: &str) -> Result<Inspected, TlsError> {
    let provider = provider(Pq::default());
    let identity = load(files, &provider)?;
    check_covers(&identity.key, &name.to_ascii_lowercase(), &files.cert_path)?;
    let bad = || TlsError::BadCertificate { path: files.cert_path.clone() };
    let not_before = not_before(&identity.key, &provider).ok_or_else(bad)?;
    let leaf = identity.key.cert.first().ok_or_else(bad)?;
    let renewal_id = RenewalId::of(leaf);
    Ok(Inspected { not_before, not_after: identity.not_after.ok_or_else(bad)?, renewal_id })
}

/// Reads and checks one identity, and the OCSP response that goes with it.
pub(super) fn load_stapled(
    source: &IdentityFiles,
    ocsp_path: Option<&Path>,
    provider: &CryptoProvider,
) -> Result<Identity, TlsError> {
    let mut identity = load(source, provider)?;
    if let Some(path) = ocsp_path {
        Arc::make_mut(&mut identity.key).ocsp = Some(ocsp_response(path)?);
    }
    Ok(identity)
}

/// The OCSP response of a file. Clients judge what it says; here it is only made sure that it is one.
fn ocsp_response(path: &Path) -> Result<Vec<u8>, TlsError> {
    let response = files::read_public(path, MAX_FILE_BYTES)?;
    // SEQUENCE { ENUMERATED 0 (successful), … }, with the length of all of it.
    let mut reader = der::Reader::new(&response);
    let is_successful = reader.read(der::SEQUENCE).is_some_and(|body| {
        let mut body = der::Reader::new(body);
        body.read(der::ENUMERATED) == Some(&[0])
    });
    if is_successful && reader.is_empty() {
        Ok(response)
    } else {
        Err(TlsError::BadOcsp { path: path.to_owned() })
    }
}

/// The revocation lists of a bundle, at least one.
pub(super) fn revocation_lists(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let bytes = files::read_public(path, MAX_CRL_BYTES)?;
    let lists: Vec<_> = CertificateRevocationListDer::pem_slice_iter(&bytes)
        .collect::<Result<_, _>>()
        .map_err(|_| TlsError::BadPem { path: path.to_owned() })?;
    if lists.is_empty() {
        return Err(TlsError::BadCrl { path: path.to_owned() });
    }
    Ok(lists)
}

/// Reads and checks one identity.
pub(super) fn load(source: &IdentityFiles, provider: &CryptoProvider) -> Result<Identity, TlsError> {
    let cert_path = &source.cert_path;
    let chain = certificates(&files::read_public(cert_path, MAX_FILE_BYTES)?, cert_path)?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate { path: cert_path.clone() });
    }
    let key_path = &source.key_path;
    let key = parsed_key(&files::read_shared_key(key_path, MAX_FILE_BYTES)?, key_path)?;
    let key = provider.key_provider.load_private_key(key).map_err(|_| TlsError::UnsupportedKey {
        path: key_path.clone(),
        wanted: "an ECDSA, Ed25519 or RSA key",
    })?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => {}
        Err(Error::InconsistentKeys(_)) => {
            return Err(TlsError::KeyMismatch {
                cert_path: cert_path.clone(),
                key_path: source.key_path.clone(),
            });
        }
        Err(_) => {
            return Err(TlsError::BadCertificate { path: cert_path.clone() });
        }
    }
    let now = UnixTime::now();
    let not_after = not_after(&certified, provider);
    let warning = validity_warning(&certified, cert_path, (now, not_after), provider);
    Ok(Identity { key: Arc::new(certified), warning, not_after })
}

/// The private key of a file that its owner alone may read.
pub(super) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    parsed_key(&files::read_private(path, MAX_FILE_BYTES)?, path)
}

fn parsed_key(pem: &[u8], path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    // PEM errors quote what they met; none of that may leave here.
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsError::NoKey { path: path.to_owned() },
        _ => TlsError::BadPem { path: path.to_owned() },
    })
}

/// The authorities of a bundle, at least one.
pub(super) fn roots(source: &Roots) -> Result<Arc<RootCertStore>, TlsError> {
    match source {
        Roots::File(path) => roots_from_pem(&files::read_public(path, MAX_FILE_BYTES)?, path),
        Roots::Pem(bytes) => roots_from_pem(bytes, Path::new("the inline CA bundle")),
        Roots::Pinned(_) => Err(TlsError::EmptyCa { path: "the list of pinned certificates".into() }),
    }
}

fn roots_from_pem(bytes: &[u8], origin: &Path) -> Result<Arc<RootCertStore>, TlsError> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(bytes, origin)? {
        store.add(certificate).map_err(|_| TlsError::BadCertificate { path: origin.to_owned() })?;
    }
    if store.is_empty() {
        return Err(TlsError::EmptyCa { path: origin.to_owned() });
    }
    Ok(Arc::new(store))
}

fn certificates(bytes: &[u8], origin: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    CertificateDer::pem_slice_iter(bytes)
        .collect::<Result<_, _>>()
        .map_err(|_| TlsError::BadPem { path: origin.to_owned() })
}

/// Looks at the dates of the leaf without a certificate parser of our own: path building checks them before it
/// looks for an issuer, so that against no authority at all a certificate in its time has an unknown issuer,
/// and any other one says what is wrong with its time.
fn validity_warning(
    key: &CertifiedKey,
    path: &Path,
    (now, not_after): (UnixTime, Option<Duration>),
    provider: &CryptoProvider,
) -> Option<TlsWarning> {
    match verdict_at(now, key, provider) {
        Some(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            return Some(TlsWarning::Expired { path: path.to_owned() });
        }
        Some(CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. }) => {
            return Some(TlsWarning::NotYetValid { path: path.to_owned() });
        }
        _ => {}
    }
    let left = not_after?.saturating_sub(Duration::from_secs(now.as_secs()));
    let days = left.as_secs() / SECONDS_A_DAY;
    (days < EXPIRES_SOON_DAYS).then(|| TlsWarning::ExpiresSoon { path: path.to_owned(), days })
}

/// When the leaf expires: what is said of it at the end of time.
fn not_after(key: &CertifiedKey, provider: &CryptoProvider) -> Option<Duration> {
    let end_of_time = UnixTime::since_unix_epoch(Duration::from_secs(u64::MAX));
    match verdict_at(end_of_time, key, provider)? {
        CertificateError::ExpiredContext { not_after, .. } => Some(Duration::from_secs(not_after.as_secs())),
        _ => None,
    }
}

/// When the leaf begins to be valid: what is said of it at the beginning of time.
fn not_before(key: &CertifiedKey, provider: &CryptoProvider) -> Option<Duration> {
    match verdict_at(UnixTime::since_unix_epoch(Duration::ZERO), key, provider)? {
        CertificateError::NotValidYetContext { not_before, .. } => {
            Some(Duration::from_secs(not_before.as_secs()))
        }
        _ => None,
    }
}

/// What is wrong with the leaf at a moment, judged against no authority at all.
fn verdict_at(at: UnixTime, key: &CertifiedKey, provider: &CryptoProvider) -> Option<CertificateError> {
    let leaf = ParsedCertificate::try_from(key.end_entity_cert().ok()?).ok()?;
    let algorithms = provider.signature_verification_algorithms.all;
    match verify_server_cert_signed_by_trust_anchor(&leaf, &RootCertStore::empty(), &[], at, algorithms) {
        Err(Error::InvalidCertificate(error)) => Some(error),
        _ => None,
    }
}

/// The names that a certificate is for, as far as they are DNS names.
pub(super) fn dns_names(key: &CertifiedKey) -> Vec<String> {
    let Some(leaf) = key.cert.first() else { return Vec::new() };
    EndEntityCert::try_from(leaf).map_or_else(
        |_| Vec::new(),
        |leaf| leaf.valid_dns_names().take(MAX_NAMES).map(str::to_owned).collect(),
    )
}
