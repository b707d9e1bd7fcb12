//! What can go wrong with TLS. Loading errors name the file and the remedy; no message carries key material.

use std::{io, path::PathBuf, time::Duration};

use rustls::{AlertDescription, CertificateError, InvalidMessage, OtherError};

use super::pin::NotPinned;
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
        /// The error of the operating system.
        source: io::Error,
    },
    /// What is there is no regular file.
    #[error("{} cannot be read: {source}; point to a PEM file", .path.display())]
    NotRegular {
        /// The path that was tried.
        path: PathBuf,
        /// The error that describes the file that was found instead.
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
    /// Others may use the key file than its owner and, if it belongs to a certificate, a group of this process.
    #[error("private key {} has mode {mode:04o} and is open to others than its owner; run: chmod 600 {}",
        .path.display(), .path.display())]
    KeyPermissions {
        /// The path of the file.
        path: PathBuf,
        /// The permission bits of the file.
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
        /// The path of the certificate chain.
        cert_path: PathBuf,
        /// The path of the private key.
        key_path: PathBuf,
    },
    /// There is no authority in the bundle.
    #[error("{} holds no authority; it needs at least one PEM section CERTIFICATE", .path.display())]
    EmptyCa {
        /// The path of the bundle.
        path: PathBuf,
    },
    /// The file is no OCSP response, or one that says that the responder failed.
    #[error("{} is not a successful OCSP response in DER; fetch it again from the CA", .path.display())]
    BadOcsp {
        /// The path of the file.
        path: PathBuf,
    },
    /// There is no revocation list in the bundle, or one that does not parse.
    #[error("{} holds no revocation list that can be read; it needs PEM sections X509 CRL", .path.display())]
    BadCrl {
        /// The path of the bundle.
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
        /// The path of the certificate chain.
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
        /// The error of the operating system.
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
        /// The path of the certificate chain.
        path: PathBuf,
    },
    /// The leaf certificate expires within two weeks.
    #[error("the certificate in {} expires in {}; renew it and reload", .path.display(), in_days(*.days))]
    ExpiresSoon {
        /// The path of the certificate chain.
        path: PathBuf,
        /// Number of whole days that are left.
        days: u64,
    },
    /// The leaf certificate is before its first day: clients will refuse it.
    #[error("the certificate in {} is not valid yet; check the clock", .path.display())]
    NotYetValid {
        /// The path of the certificate chain.
        path: PathBuf,
    },
}

fn in_days(days: u64) -> String {
    match days {
        0 => "less than a day".to_owned(),
        1 => "a day".to_owned(),
        days => format!("{days} days"),
    }
}

/// Why a handshake did not complete.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The peer was too slow.
    #[error("the TLS handshake took longer than {limit:?}")]
    Timeout {
        /// The timeout of the handshake.
        limit: Duration,
    },
    /// The peer refused us and said why.
    #[error("the peer ended the TLS handshake with the alert {0:?}")]
    Alert(AlertDescription),
    /// We refused the peer: it broke the protocol, or its credentials do not do.
    #[error("the TLS handshake failed: {}", in_words(.0))]
    Protocol(rustls::Error),
    /// The name to dial is neither a DNS name nor an address.
    #[error("\"{0}\" is neither a DNS name nor an IP address")]
    BadServerName(String),
    /// The peer was an authority that looked for the answer to its challenge (RFC 8737), and got it. There is nothing more to
    /// say on the connection.
    #[error("the peer's challenge for a certificate was answered")]
    Challenge,
    /// The connection broke during the handshake.
    #[error("the connection broke during the TLS handshake: {0}")]
    Io(io::Error),
}

/// What is wrong with the peer. Of a certificate it is said which check it did not pass: the library's words are for those
/// who know its types, and some of them change every second.
fn in_words(error: &rustls::Error) -> String {
    if let rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) = error {
        return "what the peer sent is not TLS: it may speak plain HTTP".to_owned();
    }
    let rustls::Error::InvalidCertificate(check) = error else { return error.to_string() };
    let what = match check {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "it has expired".to_owned(),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet".to_owned()
        }
        CertificateError::UnknownIssuer => {
            "no authority that is trusted here has signed it (`ca_path` lists them)".to_owned()
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let names = if presented.is_empty() { "no name".to_owned() } else { presented.join(", ") };
            format!("it is not for the name {:?} but for {names}", expected.to_str())
        }
        CertificateError::Revoked => "it was revoked".to_owned(),
        CertificateError::BadSignature => "its signature is wrong".to_owned(),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "it was not issued for this side of TLS".to_owned()
        }
        CertificateError::Other(other) if is_authority(other) => {
            "it is the certificate of an authority, which cannot be a server's or client's own; issue one without `CA:TRUE`"
                .to_owned()
        }
        CertificateError::Other(other) => {
            other.0.downcast_ref::<NotPinned>().map_or_else(|| check.to_string(), NotPinned::to_string)
        }
        other => other.to_string(),
    };
    format!("the peer's certificate is refused: {what}")
}

/// Whether an authority's certificate was shown as the peer's own.
fn is_authority(error: &OtherError) -> bool {
    matches!(error.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
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
