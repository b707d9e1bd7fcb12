//! What can go wrong with TLS. Loading errors name the file and the remedy; no message carries key material.

use std::{io, path::PathBuf, time::Duration};

use rustls::AlertDescription;

use crate::files::FileError;

/// Why TLS could not be set up. An operator's mistake in every case but [`TlsError::NoRandomness`]:
/// trying again helps only after something was repaired.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The file is not there.
    #[error("{} does not exist; check the path, or create the file", .path.display())]
    Missing {
        /// The path of the file.
        path: PathBuf,
    },
    /// The file is there and cannot be read.
    #[error("{} cannot be read: {source}; check its owner and mode", .path.display())]
    Unreadable {
        /// The path of the file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What is there is no regular file.
    #[error("{} cannot be read: {source}; point to a PEM file", .path.display())]
    NotRegular {
        /// The path that was tried.
        path: PathBuf,
        /// What is there instead.
        source: io::Error,
    },
    /// The file is far larger than any PEM file ought to be.
    #[error("{} is larger than {limit} bytes; point to a PEM file", .path.display())]
    TooLarge {
        /// The path of the file.
        path: PathBuf,
        /// The most that is read.
        limit: u64,
    },
    /// Others than the owner may use the key file.
    #[error("private key {} has mode {mode:04o} and is open to others than its owner; run: chmod 600 {}",
        .path.display(), .path.display())]
    KeyPermissions {
        /// The path of the file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// A PEM section is cut off or damaged.
    #[error("{} is damaged PEM; write the file anew", .path.display())]
    BadPem {
        /// The path of the file.
        path: PathBuf,
    },
    /// There is no certificate in the file.
    #[error("{} holds no certificate; it needs a PEM section CERTIFICATE, leaf first", .path.display())]
    NoCertificate {
        /// The path of the file.
        path: PathBuf,
    },
    /// A certificate in the file does not parse.
    #[error("{} holds a certificate that does not parse as X.509 v3; issue it anew", .path.display())]
    BadCertificate {
        /// The path of the file.
        path: PathBuf,
    },
    /// There is no private key in the file.
    #[error("{} holds no private key; it needs an unencrypted PEM section PRIVATE KEY, EC PRIVATE KEY or \
        RSA PRIVATE KEY", .path.display())]
    NoKey {
        /// The path of the file.
        path: PathBuf,
    },
    /// The private key is of no kind that can be used.
    #[error("private key {} cannot be used; supply {wanted}", .path.display())]
    UnsupportedKey {
        /// The path of the file.
        path: PathBuf,
        /// The kinds that can.
        wanted: &'static str,
    },
    /// The key is not that of the certificate.
    #[error("private key {} does not belong to the certificate in {}; supply the pair that was issued together",
        .key_path.display(), .cert_path.display())]
    KeyMismatch {
        /// The certificate chain.
        cert_path: PathBuf,
        /// The key.
        key_path: PathBuf,
    },
    /// There is no authority in the bundle.
    #[error("{} holds no authority; it needs at least one PEM section CERTIFICATE", .path.display())]
    EmptyCa {
        /// The bundle.
        path: PathBuf,
    },
    /// The file is no OCSP response, or one that says that the responder failed.
    #[error("{} is not a successful OCSP response in DER; fetch it anew from the authority", .path.display())]
    BadOcsp {
        /// The path of the file.
        path: PathBuf,
    },
    /// There is no revocation list in the bundle, or one that does not parse.
    #[error("{} holds no revocation list that can be read; it needs PEM sections X509 CRL", .path.display())]
    BadCrl {
        /// The bundle.
        path: PathBuf,
    },
    /// A server name that is no DNS name.
    #[error("\"{name}\" is not a DNS name; write it like www.example.org or *.example.org")]
    BadName {
        /// The name as written.
        name: String,
    },
    /// Two identities for one name.
    #[error("there are two certificates for the name \"{name}\"; keep one")]
    DuplicateName {
        /// The name, in lower case.
        name: String,
    },
    /// Clients that ask for the name would refuse the certificate.
    #[error("the certificate in {} is not valid for the name \"{name}\"; issue it with that name, or drop the entry",
        .path.display())]
    NameNotCovered {
        /// The name, in lower case.
        name: String,
        /// The certificate chain.
        path: PathBuf,
    },
    /// An ALPN name that cannot be put on the wire.
    #[error("an ALPN protocol name has {length} bytes; it needs 1 to 255")]
    BadAlpn {
        /// The length of the name.
        length: usize,
    },
    /// A key would overwrite a file.
    #[error("{} exists already and is not overwritten; move it away first", .path.display())]
    Exists {
        /// The path of the file.
        path: PathBuf,
    },
    /// The file cannot be written.
    #[error("{} cannot be written: {source}; check the directory and the free space", .path.display())]
    Unwritable {
        /// The path of the file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The system gave no random numbers.
    #[error("the system's random number source failed; check that getrandom(2) is permitted")]
    NoRandomness,
}

impl From<FileError> for TlsError {
    /// What a file is for is known here, so two of the messages say more.
    fn from(error: FileError) -> Self {
        match error {
            FileError::Missing { path } => Self::Missing { path },
            FileError::Unreadable { path, source } => Self::Unreadable { path, source },
            FileError::NotRegular { path, source } => Self::NotRegular { path, source },
            FileError::TooLarge { path, limit } => Self::TooLarge { path, limit },
            FileError::KeyPermissions { path, mode } => Self::KeyPermissions { path, mode },
            FileError::Exists { path } => Self::Exists { path },
            FileError::Unwritable { path, source } => Self::Unwritable { path, source },
        }
    }
}

/// Something an operator should repair soon, although the endpoint works.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsWarning {
    /// The leaf certificate is past its last day: clients will refuse it.
    #[error("the certificate in {} has expired; renew it and reload", .path.display())]
    Expired {
        /// The certificate chain.
        path: PathBuf,
    },
    /// The leaf certificate is before its first day: clients will refuse it.
    #[error("the certificate in {} is not valid yet; check the clock", .path.display())]
    NotYetValid {
        /// The certificate chain.
        path: PathBuf,
    },
}

/// Why a handshake did not complete.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The peer was too slow.
    #[error("the TLS handshake took longer than {limit:?}")]
    Timeout {
        /// How long it was given.
        limit: Duration,
    },
    /// The peer refused us and said why.
    #[error("the peer ended the TLS handshake with the alert {0:?}")]
    Alert(AlertDescription),
    /// We refused the peer: it broke the protocol, or its credentials do not do.
    #[error("the TLS handshake failed: {0}")]
    Protocol(rustls::Error),
    /// The name to dial is neither a DNS name nor an address.
    #[error("\"{0}\" is neither a DNS name nor an IP address")]
    BadServerName(String),
    /// The connection broke.
    #[error("the connection broke during the TLS handshake: {0}")]
    Io(io::Error),
}

/// Sorts what a TLS stream reports. In TLS 1.3 a server judges a client's credentials after the client's side of
/// the handshake is over; the client meets the refusal on its first read, and classifies it with this.
impl From<io::Error> for HandshakeError {
    fn from(error: io::Error) -> Self {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(rustls::Error::AlertReceived(alert)) => Self::Alert(*alert),
            Some(protocol) => Self::Protocol(protocol.clone()),
            None => Self::Io(error),
        }
    }
}
