//! Who a client's verified certificate says that it is, in the forms that tenants and servers need.
//!
//! The names come from the library that verified the certificate. Only the subject is read here, because that library
//! does not decode it.

use std::{fmt::Write as _, sync::Arc};

use aws_lc_rs::digest::{SHA256, digest};
use http::HeaderValue;
use rustls_pki_types::CertificateDer;
use webpki::EndEntityCert;

use super::der::{OBJECT_ID, Reader, SEQUENCE, SET};

/// The longest that servers are told; names beyond are left out.
const MAX_FIELD: usize = 4096;

/// What is known of a client's certificate. Made once for each connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate(Arc<Known>);

#[derive(Debug, PartialEq, Eq)]
struct Known {
    name: Option<String>,
    field: HeaderValue,
}

impl ClientCertificate {
    /// Reads a certificate that was verified; `None` if it cannot be read.
    #[must_use]
    pub fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let parsed = EndEntityCert::try_from(certificate).ok()?;
        let (subject, common_name) = subject(parsed.subject());
        let uris: Vec<&str> = parsed.valid_uri_names().filter(|uri| is_visible(uri)).collect();
        let names: Vec<&str> = parsed.valid_dns_names().collect();
        let name = uris.first().or(names.first()).map(|&name| name.to_owned()).or(common_name);
        let mut field = String::from("Hash=");
        hex(&mut field, digest(&SHA256, certificate).as_ref());
        let elements = std::iter::once(("Subject", quoted(&subject)))
            .chain(uris.iter().map(|uri| ("URI", value(uri))))
            .chain(names.iter().map(|name| ("DNS", value(name))));
        for (key, text) in elements {
            if field.len() + key.len() + text.len() + 2 <= MAX_FIELD {
                let _ = write!(field, ";{key}={text}");
            }
        }
        Some(Self(Arc::new(Known { name, field: HeaderValue::try_from(field).ok()? })))
    }

    /// The name of the client: its first URI, else its first DNS name, else its common name.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }

    /// The value of `X-Forwarded-Client-Cert`: `Hash=…;Subject="…";URI=…;DNS=…`.
    #[must_use]
    pub fn field(&self) -> HeaderValue {
        self.0.field.clone()
    }
}

/// A subject as text (RFC 4514: the last part first), and the most specific common name in it.
fn subject(name: &[u8]) -> (String, Option<String>) {
    let (mut parts, mut common_name) = (Vec::new(), None);
    let mut name = Reader::new(name);
    while let Some(part) = name.read(SET) {
        let (mut text, mut part) = (String::new(), Reader::new(part));
        while let Some(attribute) = part.read(SEQUENCE) {
            let mut attribute = Reader::new(attribute);
            let (Some(id), Some((tag, content))) = (attribute.read(OBJECT_ID), attribute.any()) else {
                break;
            };
            let key = KEYS.iter().find(|(known, _)| *known == id).map(|(_, key)| *key);
            let plain = plain_text(tag, content);
            text.push_str(if text.is_empty() { "" } else { "+" });
            match (key, plain) {
                (Some(key), Some(plain)) => {
                    let _ = write!(text, "{key}={}", escaped(plain));
                }
                // What has no short name or is no text is written as it is encoded.
                _ => {
                    let _ = write!(text, "{}=#", key.map_or_else(|| dotted(id), str::to_owned));
                    hex(&mut text, content);
                }
            }
            if key == Some("CN") {
                common_name = plain.map(str::to_owned).or(common_name);
            }
        }
        parts.push(text);
    }
    parts.reverse();
    (parts.join(","), common_name)
}

/// The short names that RFC 4514 gives.
const KEYS: [(&[u8], &str); 9] = [
    (&[0x55, 4, 3], "CN"),
    (&[0x55, 4, 6], "C"),
    (&[0x55, 4, 7], "L"),
    (&[0x55, 4, 8], "ST"),
    (&[0x55, 4, 9], "STREET"),
    (&[0x55, 4, 10], "O"),
    (&[0x55, 4, 11], "OU"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25], "DC"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1], "UID"),
];

/// The content of a UTF-8, printable or IA5 string.
fn plain_text(tag: u8, content: &[u8]) -> Option<&str> {
    matches!(tag, 0x0c | 0x13 | 0x16).then_some(content).and_then(|bytes| std::str::from_utf8(bytes).ok())
}

/// A value of a subject in visible ASCII: special signs behind a backslash, all others in hexadecimal.
fn escaped(text: &str) -> String {
    let (mut out, last) = (String::new(), text.len().saturating_sub(1));
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'"' | b'+' | b',' | b';' | b'<' | b'>' | b'\\' | b'=' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            b' ' if at == 0 || at == last => out.push_str("\\ "),
            b'#' if at == 0 => out.push_str("\\#"),
            b' '..=b'~' => out.push(char::from(byte)),
            _ => {
                let _ = write!(out, "\\{byte:02X}");
            }
        }
    }
    out
}

/// An object identifier in dots.
fn dotted(id: &[u8]) -> String {
    let (mut numbers, mut number) = (Vec::new(), 0_u64);
    for byte in id {
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            numbers.push(std::mem::take(&mut number));
        }
    }
    let mut text = String::new();
    for (at, number) in numbers.into_iter().enumerate() {
        let _ = match at {
            0 => write!(text, "{}.{}", (number / 40).min(2), number - (number / 40).min(2) * 40),
            _ => write!(text, ".{number}"),
        };
    }
    text
}

/// A value as it stands, or in quotes where a reader of the field would misread it.
fn value(text: &str) -> String {
    let is_plain = !text.contains([',', ';', '=', '"', '\\']);
    if is_plain { text.to_owned() } else { quoted(text) }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn is_visible(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn hex(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
}

#[cfg(all(test, feature = "testkit"))]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::tls::testkit::TestCa;

    fn known(common_name: &str, names: &[&str], uris: &[&str]) -> ClientCertificate {
        let identity = TestCa::new("authority").client_with(common_name, names, uris);
        ClientCertificate::of(&identity.leaf()).unwrap()
    }

    fn without_hash(certificate: &ClientCertificate) -> String {
        let field = certificate.field().to_str().unwrap().to_owned();
        let (hash, rest) = field.split_once(';').unwrap();
        assert!(hash.len() == 69 && hash.starts_with("Hash="), "{hash}");
        rest.to_owned()
    }

    #[test]
    fn the_first_uri_then_the_first_dns_name_then_the_common_name_is_the_clients() {
        let all = known("cn", &["a.test", "b.test"], &["spiffe://test/a", "spiffe://test/b"]);
        assert_eq!(all.name(), Some("spiffe://test/a"));
        assert_eq!(
            without_hash(&all),
            r#"Subject="CN=cn";URI=spiffe://test/a;URI=spiffe://test/b;DNS=a.test;DNS=b.test"#
        );
        assert_eq!(known("cn", &["a.test"], &[]).name(), Some("a.test"));
        assert_eq!(known("cn", &[], &[]).name(), Some("cn"));
    }

    #[test]
    fn names_cannot_add_elements_to_the_field() {
        let hostile = known("a\";URI=spiffe://test/admin,Hash=0", &[], &["spiffe://test/a;DNS=admin,By=x"]);
        assert_eq!(
            without_hash(&hostile),
            "Subject=\"CN=a\\\\\\\"\\\\;URI\\\\=spiffe://test/admin\\\\,Hash\\\\=0\";\
             URI=\"spiffe://test/a;DNS=admin,By=x\""
        );
        let lines = known("a\r\nx: y\u{e9}", &[], &[]);
        assert_eq!(without_hash(&lines), "Subject=\"CN=a\\\\0D\\\\0Ax: y\\\\C3\\\\A9\"");
    }

    #[test]
    fn a_certificate_with_very_many_names_makes_no_endless_field() {
        let names: Vec<String> = (0..1000).map(|number| format!("host-{number}.example.test")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert!(known("cn", &names, &[]).field().len() <= MAX_FIELD);
    }

    #[test]
    fn identifiers_are_written_in_dots() {
        assert_eq!(dotted(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1]), "1.2.840.113549.1.9.1");
        assert_eq!(dotted(&[0x55, 4, 5]), "2.5.4.5");
    }
}
