//! Servers that are known by the fingerprint of their certificate, whoever signed it.

use std::{fmt, str::FromStr, sync::Arc};

use aws_lc_rs::{
    constant_time::verify_slices_are_equal,
    digest::{SHA256, SHA256_OUTPUT_LEN, digest},
};
use rustls::{CertificateError, Error, OtherError};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::CertificateRule;

/// The SHA-256 of a certificate in DER.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; SHA256_OUTPUT_LEN]);

impl Fingerprint {
    /// The fingerprint of a certificate.
    #[must_use]
    pub fn of(certificate: &CertificateDer<'_>) -> Self {
        let mut bytes = [0; SHA256_OUTPUT_LEN];
        bytes.copy_from_slice(digest(&SHA256, certificate).as_ref());
        Self(bytes)
    }
}

/// A text that is no fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "is no SHA-256 fingerprint: write its 64 hexadecimal digits, with or without colons, as \
     `openssl x509 -noout -fingerprint -sha256 -in cert.pem` prints them"
)]
pub struct NoFingerprint;

impl FromStr for Fingerprint {
    type Err = NoFingerprint;

    /// Reads 64 hexadecimal digits, in pairs that colons may separate, perhaps with `sha256:` before them.
    fn from_str(text: &str) -> Result<Self, NoFingerprint> {
        let digits = match text.split_at_checked("sha256:".len()) {
            Some((name, digits)) if name.eq_ignore_ascii_case("sha256:") => digits,
            _ => text,
        };
        let separated = digits.contains(':');
        let pairs: Vec<&str> = if separated {
            digits.split(':').collect()
        } else {
            (0..digits.len())
                .step_by(2)
                .map(|at| digits.get(at..at + 2))
                .collect::<Option<_>>()
                .ok_or(NoFingerprint)?
        };
        let byte = |pair: &&str| {
            let is_pair = pair.len() == 2 && pair.bytes().all(|digit| digit.is_ascii_hexdigit());
            u8::from_str_radix(pair, 16).ok().filter(|_| is_pair)
        };
        let bytes: Vec<u8> = pairs.iter().map(byte).collect::<Option<_>>().ok_or(NoFingerprint)?;
        bytes.try_into().map(Self).map_err(|_| NoFingerprint)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// Accepts the certificates with these fingerprints, and no others. Neither their names nor their dates count.
#[derive(Debug)]
pub(super) struct Pinned(pub(super) Box<[Fingerprint]>);

impl CertificateRule for Pinned {
    fn judge(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<(), Error> {
        let met = Fingerprint::of(end_entity);
        let is_met = |pin: &Fingerprint| verify_slices_are_equal(&pin.0, &met.0).is_ok();
        // All are compared, whichever it is.
        if self.0.iter().filter(|pin| is_met(pin)).count() > 0 {
            return Ok(());
        }
        let other = OtherError(Arc::new(NotPinned(met)));
        Err(Error::InvalidCertificate(CertificateError::Other(other)))
    }
}

/// A certificate that is not among those that are expected.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("its fingerprint is {0}, which `tls.pin` does not have")]
pub(super) struct NotPinned(Fingerprint);

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const DIGITS: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn a_fingerprint_is_read_as_tools_write_it() {
        let empty = Fingerprint::of(&CertificateDer::from(Vec::new()));
        let pairs: Vec<_> = (0..32).map(|at| &DIGITS[2 * at..2 * at + 2]).collect();
        for text in [
            DIGITS.to_owned(),
            DIGITS.to_uppercase(),
            pairs.join(":").to_uppercase(),
            format!("sha256:{DIGITS}"),
            format!("SHA256:{}", pairs.join(":")),
            empty.to_string(),
        ] {
            assert_eq!(text.parse(), Ok(empty), "{text}");
        }
    }

    #[test]
    fn what_is_no_fingerprint_is_refused() {
        let wrong = [
            String::new(),
            DIGITS[..62].to_owned(),
            DIGITS[..63].to_owned(),
            format!("{DIGITS}00"),
            format!("sha1:{DIGITS}"),
            format!("+{}", &DIGITS[1..]),
            format!("{}é", &DIGITS[..62]),
            DIGITS.replace("e3b0", "e3:b:0"),
            format!("{DIGITS}:"),
        ];
        for text in wrong {
            assert_eq!(text.parse::<Fingerprint>(), Err(NoFingerprint), "{text}");
        }
        assert_ne!(DIGITS.parse::<Fingerprint>().unwrap(), Fingerprint([0; 32]));
    }
}
