//! Throwaway authorities and identities for tests. Every function panics when it fails: a test then fails
//! with the reason.

#![expect(clippy::disallowed_methods, reason = "tests prepare their files before anything runs")]

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SanType,
    SerialNumber, date_time_ymd,
};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion, crypto::CryptoProvider};
use rustls_pki_types::{CertificateDer, pem::PemObject};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};

use super::{ClientTls, HandshakeError, IdentityFiles, Roots, ServerTls, TlsStream};

/// Ample for a handshake on a loaded machine.
pub const HANDSHAKE_LIMIT: Duration = Duration::from_secs(60);

/// A self-signed certificate authority for tests.
#[derive(Debug)]
pub struct TestCa {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate with its key, both as PEM text.
#[derive(Clone)]
pub struct TestIdentity {
    /// The leaf certificate, in PEM.
    pub cert_pem: String,
    /// The private key, in PEM.
    pub key_pem: String,
}

/// Both ends of a handshake in memory: the server's, then the client's.
pub type BothEnds =
    (Result<TlsStream<DuplexStream>, HandshakeError>, Result<TlsStream<DuplexStream>, HandshakeError>);

impl TestCa {
    /// An authority with a name of its own.
    pub fn new(name: &str) -> Self {
        let mut params = named_params(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key for the authority");
        Self { issuer: CertifiedIssuer::self_signed(params, key).expect("a certificate for the authority") }
    }

    /// Returns the authority's certificate, in PEM.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// The authority's certificate as the roots of a dialer.
    pub fn roots(&self) -> Roots {
        Roots::Pem(self.pem().into_bytes())
    }

    /// A dialer straight from rustls, for what ours cannot be told to do.
    pub fn rustls_client(
        &self,
        provider: CryptoProvider,
        versions: &[&'static SupportedProtocolVersion],
    ) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).expect("an authority is a root");
        ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(versions)
            .expect("versions that the provider can speak")
            .with_root_certificates(roots)
            .with_no_client_auth()
    }

    /// Writes the authority's certificate to `dir` as `<stem>.ca.pem`.
    pub fn write(&self, dir: &Path, stem: &str) -> PathBuf {
        write_file(dir, &format!("{stem}.ca.pem"), &self.pem(), 0o644)
    }

    /// A server with these DNS names and IP addresses.
    pub fn server(&self, names: &[&str]) -> TestIdentity {
        self.sign(server_params(names))
    }

    /// A server whose certificate ran out long ago.
    pub fn expired_server(&self, names: &[&str]) -> TestIdentity {
        let mut params = server_params(names);
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(2001, 1, 1);
        self.sign(params)
    }

    /// A server whose certificate ends at this Unix time.
    pub fn server_until(&self, names: &[&str], not_after: Duration) -> TestIdentity {
        let mut params = server_params(names);
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(1970, 1, 1) + Duration::from_secs(not_after.as_secs());
        self.sign(params)
    }

    /// A server that shows a certificate of an authority as its own.
    pub fn as_server(&self, names: &[&str]) -> TestIdentity {
        let mut params = server_params(names);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        self.sign(params)
    }

    /// A server whose certificate begins in the far future.
    pub fn future_server(&self, names: &[&str]) -> TestIdentity {
        let mut params = server_params(names);
        params.not_before = date_time_ymd(3000, 1, 1);
        self.sign(params)
    }

    /// Issues a client certificate.
    pub fn client(&self, name: &str) -> TestIdentity {
        self.client_with(name, &[name], &[])
    }

    /// A client with this common name, these DNS names and these URIs.
    pub fn client_with(&self, common_name: &str, names: &[&str], uris: &[&str]) -> TestIdentity {
        self.sign(client_params(common_name, names, uris))
    }

    /// A client, and a list on which its authority revokes it, as PEM text.
    pub fn revoked_client(&self, name: &str) -> (TestIdentity, String) {
        let mut params = client_params(name, &[name], &[]);
        params.serial_number = Some(SerialNumber::from(4242_u64));
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(3000, 1, 1),
            crl_number: SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: vec![RevokedCertParams {
                serial_number: SerialNumber::from(4242_u64),
                revocation_time: date_time_ymd(2020, 1, 1),
                reason_code: None,
                invalidity_date: None,
            }],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&self.issuer).expect("a list").pem().expect("a list as text");
        (self.sign(params), list)
    }

    fn sign(&self, params: CertificateParams) -> TestIdentity {
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        TestIdentity { cert_pem: certificate.pem(), key_pem: key.serialize_pem() }
    }
}

impl TestIdentity {
    /// The certificate as a peer sees it.
    pub fn leaf(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.cert_pem.as_bytes()).expect("PEM that was just made")
    }

    /// This certificate with the key of another, which does not fit.
    pub fn with_key_of(&self, other: &Self) -> Self {
        Self { cert_pem: self.cert_pem.clone(), key_pem: other.key_pem.clone() }
    }

    /// Writes `<stem>.cert.pem` (mode 0644) and `<stem>.key.pem` (mode 0600) to `dir`, over what was there.
    pub fn write(&self, dir: &Path, stem: &str) -> IdentityFiles {
        IdentityFiles {
            cert_path: write_file(dir, &format!("{stem}.cert.pem"), &self.cert_pem, 0o644),
            key_path: write_file(dir, &format!("{stem}.key.pem"), &self.key_pem, 0o600),
        }
    }
}

/// Writes `text` to `dir/name` with `mode`, over what was there.
pub fn write_file(dir: &Path, name: &str, text: &str, mode: u32) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, text).expect("a file in the test's directory");
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode for the test's file");
    path
}

/// Lets both sides shake hands in memory; gives what the server got, and what the client got.
///
/// Cancel safe: both sides are dropped.
pub async fn handshake(server: &ServerTls, client: &ClientTls, server_name: &str) -> BothEnds {
    let (near, far) = tokio::io::duplex(64 * 1024);
    tokio::join!(server.accept(near, HANDSHAKE_LIMIT), client.connect(far, server_name, HANDSHAKE_LIMIT))
}

/// Sends a word from `client` to `server` and one back, and fails as the streams do.
///
/// Not cancel safe: a word may be left in flight.
pub async fn talk<A, B>(server: &mut A, client: &mut B) -> io::Result<()>
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    say(client, server, b"from the client").await?;
    say(server, client, b"from the server").await
}

async fn say<A, B>(from: &mut A, to: &mut B, word: &[u8]) -> io::Result<()>
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    from.write_all(word).await?;
    from.flush().await?;
    let mut heard = vec![0; word.len()];
    to.read_exact(&mut heard).await?;
    assert_eq!(heard, word, "a word must arrive as it was sent");
    Ok(())
}

fn client_params(common_name: &str, names: &[&str], uris: &[&str]) -> CertificateParams {
    let mut params = named_params(common_name, names);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    for uri in uris {
        params.subject_alt_names.push(SanType::URI((*uri).try_into().expect("ASCII")));
    }
    params
}

fn server_params(names: &[&str]) -> CertificateParams {
    let mut params = named_params(names.first().copied().unwrap_or("nameless"), names);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params
}

fn named_params(common_name: &str, names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("names that fit in a certificate");
    params.distinguished_name.push(DnType::CommonName, common_name);
    params
}
