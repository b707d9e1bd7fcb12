//! By what an authority knows a certificate that it issued (RFC 9773, section 4.1).

use super::der::{Reader, SEQUENCE};

const INTEGER: u8 = 0x02;
const OCTET_STRING: u8 = 0x04;
const OBJECT_ID: u8 = 0x06;
/// The version and the extensions of a certificate.
const TAGGED_0: u8 = 0xa0;
const TAGGED_3: u8 = 0xa3;
/// The key identifier in the extension that names the authority's key.
const KEY_IDENTIFIER: u8 = 0x80;
/// The identifier of the extension that names the authority's key, 2.5.29.35.
const AUTHORITY_KEY: [u8; 3] = [0x55, 0x1d, 0x23];

/// The two parts of a certificate's identifier, as they stand in the certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenewalId {
    /// The identifier of the authority's key.
    pub authority_key: Vec<u8>,
    /// The content of the serial number, with the zero that keeps it positive.
    pub serial: Vec<u8>,
}

impl RenewalId {
    /// Reads a certificate in DER; `None` if it does not name its authority's key, or is none.
    #[must_use]
    pub fn of(certificate: &[u8]) -> Option<Self> {
        let mut certificate = Reader::new(Reader::new(certificate).read(SEQUENCE)?);
        let mut signed = Reader::new(certificate.read(SEQUENCE)?);
        let serial = match signed.any()? {
            (TAGGED_0, _) => signed.read(INTEGER)?,
            (INTEGER, serial) => serial,
            _ => return None,
        };
        while let Some((tag, content)) = signed.any() {
            if tag == TAGGED_3 {
                let authority_key = authority_key(Reader::new(content).read(SEQUENCE)?)?;
                return Some(Self { authority_key: authority_key.to_vec(), serial: serial.to_vec() });
            }
        }
        None
    }
}

/// The identifier of the authority's key among the extensions.
fn authority_key(extensions: &[u8]) -> Option<&[u8]> {
    let mut extensions = Reader::new(extensions);
    loop {
        let mut extension = Reader::new(extensions.read(SEQUENCE)?);
        if extension.read(OBJECT_ID)? != AUTHORITY_KEY {
            continue;
        }
        // A mark that the extension is critical may come before its value.
        let value = loop {
            match extension.any()? {
                (OCTET_STRING, value) => break value,
                _ => continue,
            }
        };
        return Reader::new(Reader::new(value).read(SEQUENCE)?).read(KEY_IDENTIFIER);
    }
}

#[cfg(all(test, feature = "testkit"))]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use rcgen::{CertificateParams, CertifiedIssuer, KeyPair, SerialNumber};

    use super::*;

    fn issued(names_authority: bool) -> Vec<u8> {
        let key = || KeyPair::generate().unwrap();
        let issuer = CertifiedIssuer::self_signed(CertificateParams::default(), key()).unwrap();
        let mut params = CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
        params.serial_number = Some(SerialNumber::from(vec![0x87, 0x65]));
        params.use_authority_key_identifier_extension = names_authority;
        params.signed_by(&key(), &issuer).unwrap().der().to_vec()
    }

    #[test]
    fn a_certificate_is_known_by_its_authority_and_its_serial_number() {
        let leaf = issued(true);
        let id = RenewalId::of(&leaf).unwrap();
        assert_eq!((id.serial, id.authority_key.len()), (vec![0, 0x87, 0x65], 20));
        assert_eq!(RenewalId::of(&issued(false)), None);
        for end in 0..leaf.len() {
            assert_eq!(RenewalId::of(&leaf[..end]), None, "{end} bytes");
        }
    }
}
